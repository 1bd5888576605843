"""The record as a table: `python -m tests.planted.run --report`, and docs/planted-bugs.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.crash.mutation import NTH
from tests.crash.mutations import MUTATIONS
from tests.planted.bugs import BUGS
from tests.planted.copy import ROOT
from tests.planted.killed import DRAINER, KILLS, MEMBERSHIP, PUMP
from tests.planted.noticed import Noticed
from tests.planted.plays import CATCHES
from tests.planted.record import Record, load_all

PAGE = ROOT / "docs/planted-bugs.md"
COLUMNS = ("bug", "breaks", "caught by", "seed or test", "as", "random histories, and when")
KILLED = {
    PUMP: "kills of Pumps",
    DRAINER: "kills of Drainers",
    MEMBERSHIP: "the membership rig",
}
HEAD = """# Planted bugs

Each of these takes one safety step out of the sources; what catches it is played in CI, with the
bug and without it. Some were hunted by random histories, too: how many were played until one caught
the bug, on which day. A hunt is of its day and is not replayed, as a seed plays another history
when what it runs in changes. Written by `python -m tests.planted.run --write`.

"""
CRASH = """
The crash states have mistakes of their own, in how services store
([tests/crash](../tests/crash/mutations.py)): `make crash` makes each of them and looks for a state
that shows it. `python -m tests.planted.run --report` counts them in.
"""


class Row(NamedTuple):
    bug: str
    breaks: str
    by: str
    where: str
    what: str
    histories: str


def rows() -> Iterator[Row]:
    records = load_all()
    dies = {kill.bug: kill.dies for kill in KILLS}
    for bug in BUGS:
        record, catch = records.get(bug.name, Record()), CATCHES[bug.name]
        if isinstance(catch, Noticed):
            by, where, what = "a test", catch.node, "it fails"
        else:
            by = f"a schedule, {record.shown} of {record.plays} seeds"
            where, what = f"seed {record.seed}", catch.finds
        if not record.caught:
            by = "NOTHING YET"
        if bug.name in dies:
            by += f"; {KILLED[dies[bug.name]]}"
        yield Row(bug.name, bug.breaks, by, where, what, _histories(record))


def _histories(record: Record) -> str:
    hunt = record.hunt
    if hunt is None or hunt.seed is None:
        return ""
    return f"{hunt.histories}, seed {hunt.seed} ({', '.join(hunt.found)}), {hunt.on}"


def mistakes() -> Iterator[tuple[str, str]]:
    """Of the crash states: what is done wrong, and where it shows."""
    for one in MUTATIONS:
        of = one.scenario.removeprefix(NTH)
        yield one.name, of if of == one.scenario else f"{of}, each call failing in turn"


def table() -> str:
    """For a terminal."""
    found = [COLUMNS, *rows()]
    wide = [max(len(row[at]) for row in found) for at in range(len(COLUMNS))]
    lines = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in found]
    return "\n".join([*lines, *(f"{name}: {where}" for name, where in mistakes()), counts()])


def counts() -> str:
    return f"{_caught()}, and {len(MUTATIONS)} of the crash states"


def _caught() -> str:
    records = load_all()
    caught = sum(records.get(bug.name, Record()).caught for bug in BUGS)
    tests = sum(isinstance(CATCHES[bug.name], Noticed) for bug in BUGS)
    by = f"{len(BUGS) - tests} by whole clusters, {tests} by a test"
    return f"{caught} of {len(BUGS)} planted bugs caught ({by})"


def page() -> str:
    """As markdown. (Without the crash states' own: who adds one need not know of this page.)"""
    return "".join([HEAD, *_markdown(), f"\n{_caught()}.\n", CRASH])


def _markdown() -> Iterator[str]:
    for row in (COLUMNS, ("---",) * len(COLUMNS), *rows()):
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |\n"
