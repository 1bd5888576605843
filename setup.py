"""Compiles the row codecs, the texts of rows and the conflict keys with mypyc, where a wheel
is built and a C compiler and mypy are there.

Everything else about the package is in pyproject.toml. An editable install stays plain Python, so
that what runs is what is read. TIDELOG_COMPILE=0 keeps a wheel plain, =1 makes a missing compiler
an error instead of a plain wheel.
"""

import os
import shutil
import sys
from glob import glob

from setuptools import setup

WANTED = os.environ.get("TIDELOG_COMPILE", "")
PLAIN = ("editable_wheel", "develop", "egg_info", "dist_info")
"""Commands that build nothing compiled. pip asks for the last one before it builds: mypyc would run
twice, most of a minute each time."""
PURE = ("shared/tidelog/rows/__init__.py",)
WRITING = tuple(
    f"shared/tidelog/{name}.py" for name in ("downstreams/row_text", "plan/causality", "plan/keys")
)
"""Folding and routing gain nothing: their time is the dictionaries'."""


def extensions() -> list[object]:
    if WANTED == "0" or any(word in PLAIN for word in sys.argv):
        return []
    try:
        from mypyc.build import mypycify
    except ImportError:
        mypycify = None
    if mypycify is None or shutil.which(os.environ.get("CC", "cc")) is None:
        if WANTED == "1":
            raise SystemExit("TIDELOG_COMPILE=1 needs mypy and a C compiler")
        return []
    modules = [*sorted(set(glob("shared/tidelog/rows/*.py")) - set(PURE)), *WRITING]
    # What they import is checked by `make check`, with all that it imports in turn. In CI that runs
    # beside this: on one cache mypy may meet an internal error.
    told = ["--ignore-missing-imports", "--follow-imports=silent", "--cache-dir=build/mypyc"]
    return list(mypycify([*modules, *told], opt_level="3"))


setup(ext_modules=extensions())
