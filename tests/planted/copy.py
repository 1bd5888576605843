"""Copies of the sources in which a bug is planted, and what is run in them.

A bug's copy is links to one whole, compiled copy, but for what the bug edits: it costs milliseconds
and compiles nothing else. However long a run takes, all of it is of one state of the sources.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from compileall import compile_dir
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from tests.planted.bug import Bug

ROOT = Path(__file__).parents[2]
ROOMS = ("shared", "services", "cli", "tests")
FILES = ("pyproject.toml",)  # how pytest is set up
PATHS = (
    "",
    "shared",
    *(f"services/{s}" for s in ("registry", "pump", "drainer", "applier")),
    "cli",
)


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the sources as they are now, for a while."""
    skip = shutil.ignore_patterns("*.so", "__pycache__")
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        whole = Path(directory)
        for room in ROOMS:
            shutil.copytree(ROOT / room, whole / room, ignore=skip)
        for file in FILES:
            shutil.copy(ROOT / file, whole)
        compile_dir(whole, quiet=2)
        yield whole


@contextmanager
def planted(bug: Bug | None, whole: Path) -> Iterator[Path]:
    """That copy with this bug, for a while."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        where = Path(directory) / (bug.name if bug else "whole")
        plant(bug, whole, where)
        yield where


def plant(bug: Bug | None, whole: Path, where: Path) -> None:
    """Make `where` that copy with this bug. Raises LookupError if an edit does not fit any more."""
    edited: dict[Path, str] = {}
    for edit in bug.edits if bug else ():
        path = whole / edit.path
        text = edited.get(path) or path.read_text()
        if text.count(edit.old) != 1:
            raise LookupError(f"{bug and bug.name}: the edit of {edit.path} does not fit any more")
        edited[path] = text.replace(edit.old, edit.new)
    _link(whole, where, {*edited, *(Path(cache_from_source(path)) for path in edited)})
    for path, text in edited.items():
        (where / path.relative_to(whole)).write_text(text)


def _link(whole: Path, where: Path, without: set[Path]) -> None:
    """Links to all but these files; directories of its own on the way to them."""
    where.mkdir()
    above = {parent for path in without for parent in path.parents}
    for entry in whole.iterdir():
        if entry in above:
            _link(entry, where / entry.name, without)
        elif entry not in without:
            (where / entry.name).symlink_to(entry)


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
