"""Copies of the sources in which a bug is planted, and what is run in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from tests.planted.bugs import Bug

ROOT = Path(__file__).parents[2]
ROOMS = ("shared", "services", "cli", "tests/planted", "tests/simulation")
PATHS = (
    "",
    "shared",
    *(f"services/{s}" for s in ("registry", "pump", "drainer", "applier")),
    "cli",
)


@contextmanager
def copied(bug: Bug | None) -> Iterator[Path]:
    """A copy with that bug, for a while."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        where = Path(directory)
        plant(bug, where)
        yield where


def plant(bug: Bug | None, where: Path) -> None:
    """Copy the sources and edit them. Raises LookupError if an edit does not fit any more."""
    # With what Python has compiled of them, but for the files edited.
    skip = shutil.ignore_patterns("*.so")
    for room in ROOMS:
        shutil.copytree(ROOT / room, where / room, ignore=skip)
    for edit in bug.edits if bug else ():
        path = where / edit.path
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise LookupError(f"{bug and bug.name}: the edit of {edit.path} does not fit any more")
        path.write_text(text.replace(edit.old, edit.new))
        Path(cache_from_source(path)).unlink(missing_ok=True)


def tell(where: Path, module: str, *arguments: object) -> list[dict[str, Any]]:
    """What a module says in a copy: one object a line. Raises RuntimeError if it fails."""
    path = os.pathsep.join(str(where / part) for part in PATHS)
    done = subprocess.run(
        [sys.executable, "-m", module, *map(str, arguments)],
        cwd=where,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(map(str, arguments))}: {done.stderr[-2000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]
