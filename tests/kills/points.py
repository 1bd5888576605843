"""Every failpoint that stands in the sources: found by reading them, so that none is forgotten."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("shared", "services")

LEAST = 60
"""Reliability R5."""

PROCESS_ONLY = ("applier.lane.", "applier.ddl.", "client.decision.")
"""Begin the names of those that no simulated history passes: what writes to a real database, and
the writers' journal."""

ELSEWHERE = {
    "applier.early.run": "tests/integration/applier/test_process.py",
    "applier.ddl.swap": "tests/adapters/mysql/mysql_rig.py",
    "applier.files.written": "tests/integration/applier/test_files_process.py",
    "applier.files.before_savepoint": "tests/integration/applier/test_files_process.py",
}
"""What neither a history nor the rig passes, and the test that fires it: a DDL that comes before
its own binlog, EXCHANGE PARTITION, files downstream."""


class NamedTwice(AssertionError):
    """A failpoint's name stands at two places: what was armed would be a matter of luck."""


def _named(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        called = node.func
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        what = node.args[0]
        if name == "hit" and isinstance(what, ast.Constant) and isinstance(what.value, str):
            yield what.value


def discovered() -> dict[str, Path]:
    """Each name and its file, relative to the repository. Raises NamedTwice."""
    found: dict[str, Path] = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for name in _named(path):
                if name in found:
                    raise NamedTwice(f"{name} in {path} and in {found[name]}")
                found[name] = path.relative_to(ROOT)
    return found


def needs_a_process(point: str, action: str) -> bool:
    """Can't it be done in the simulation? There a client has no process of its own to kill."""
    return point.startswith(PROCESS_ONLY) or (point.startswith("client.") and action == "kill")
