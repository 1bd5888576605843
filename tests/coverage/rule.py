"""What the tests have to run of the product, and how that is counted. Pure.

Measured is what is written by hand under `shared/tidelog`, `services` and `cli`, as coverage.py
counts it: statements, and the branches between them. Generated protobuf code is not, nor what only
stands there for a reader or a type checker (`...`, `TYPE_CHECKING`, `assert_never`, `__main__`), by
the settings in `pyproject.toml`. No line of the product excuses itself.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

BAR = 0.92
"""Of all branches, and so of statements and branches together, by unit tests, those of the adapters
and fifty simulated histories."""

WHOLE = {
    "record": ("shared/tidelog/record.py", "shared/tidelog/record_walk.py"),
    "segment": ("services/pump/tidelog_pump/log/*.py",),
    "sorter": ("services/pump/tidelog_pump/sort/sorter*.py",),
    "merger": ("services/drainer/tidelog_drainer/merge/merger.py",),
    "causality": ("shared/tidelog/plan/*.py",),
    "checkpoint": (
        "shared/tidelog/downstreams/checkpoint_table.py",
        "services/applier/tidelog_applier/apply/flight.py",
        "services/applier/tidelog_applier/position.py",
    ),
    "node states": ("services/registry/tidelog_registry/nodes/node_state.py",),
}
"""The rooms of which every statement and every branch runs: what is promised rests on them."""


@dataclass(frozen=True)
class Ran:
    """What ran of one file, or of several."""

    statements: int
    run_statements: int
    branches: int
    run_branches: int

    @property
    def share(self) -> float:
        """Of statements and branches together."""
        wanted = self.statements + self.branches
        return (self.run_statements + self.run_branches) / wanted if wanted else 1.0

    @property
    def branch_share(self) -> float:
        return self.run_branches / self.branches if self.branches else 1.0


def together(files: Iterable[Ran]) -> Ran:
    kept = list(files)
    return Ran(
        sum(one.statements for one in kept),
        sum(one.run_statements for one in kept),
        sum(one.branches for one in kept),
        sum(one.run_branches for one in kept),
    )


def room(path: str) -> str:
    """The row of the table that a source file is counted in: its folder below the package."""
    parts = PurePosixPath(path).parts[:-1]
    package = next(n for n, part in enumerate(parts) if part.startswith("tidelog"))
    return "/".join(parts[package : package + 2])


def by_room(files: Mapping[str, Ran]) -> dict[str, Ran]:
    rooms: dict[str, list[Ran]] = {}
    for path, ran in sorted(files.items()):
        rooms.setdefault(room(path), []).append(ran)
    return {name: together(kept) for name, kept in rooms.items()}


def of(name: str, files: Mapping[str, Ran]) -> dict[str, Ran]:
    """The files of a room of WHOLE. Raises LookupError if a pattern of its names none."""
    found: dict[str, Ran] = {}
    for pattern in WHOLE[name]:
        named = {path: ran for path, ran in files.items() if fnmatchcase(path, pattern)}
        if not named:
            raise LookupError(f"{name}: no measured file is called {pattern}")
        found |= named
    return found


def below(files: Mapping[str, Ran], unrun: int) -> list[str]:
    """What falls short of a bar, a line each. `unrun`: how many `except` bodies no test runs."""
    short = [
        f"{name}: {path} is run by {ran.share:.1%}, wanted is all of it"
        for name in WHOLE
        for path, ran in of(name, files).items()
        if ran.share < 1
    ]
    total = together(files.values())
    for what, share in (("", total.share), (" of the branches", total.branch_share)):
        if share < BAR:
            short.append(f"in all: {share:.2%}{what}, wanted is {BAR:.0%}")
    if unrun:
        short.append(f"{unrun} `except` bodies are run by no test, wanted is 0")
    return short


def handlers(source: str) -> Iterator[int]:
    """The first line of each `except` body."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            yield node.body[0].lineno


def never_run(source: str, lines_run: Iterable[int]) -> list[int]:
    """The first lines of those `except` bodies that no test ran."""
    return sorted(set(handlers(source)) - set(lines_run))
