"""docs/reliability.md says of each figure that was asked for what is done, as it is done."""

from __future__ import annotations

import re

import pytest

from tests.commit import ROOT
from tests.full.suites import SUITES

ROWS = {
    row: (test, full)
    for row, _, _, _, test, full in (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (ROOT / "docs/reliability.md").read_text().splitlines()
        if re.match(r"\| [RS]\d+ \|", line)
    )
}
MAKEFILE = (ROOT / "Makefile").read_text()
FULL = {suite.name: suite.command for suite in SUITES}
NAMES = [*(f"R{number}" for number in range(1, 19)), *(f"S{number}" for number in range(1, 6))]
SAID = {
    "R1": (r"STATES \?= (\d+)", ("crash states",)),
    "R4": (r"kills.rig --kills (\d+)", ("kills",)),
    "R6": ("", ("n-th I/O",)),
    "R9": (r"INPUTS \?= (\d+)", ("bad input",)),
    "R10": ("", ("network faults",)),
    "R11": ("", ("disk full",)),
    "R12": ("", ("NATS loss",)),
    "R14": (r"--minutes 1 --rate (\d+) --least (\d+)", ("soak",)),
    "S5": ("", ("literals of MySQL",)),
}
"""How the Makefile says a row's numbers, and the suites of `make full` that say them."""
CELLS = 48
"""What `--repeats` of the network faults repeats: eight toxics on six links."""


def numbers(cell: str) -> set[int]:
    return {int(found.replace(",", "")) for found in re.findall(r"\d[\d,]*", cell)}


def asked(command: str) -> set[int]:
    """The numbers of a command, without how many processes it takes."""
    found = dict(re.findall(r"(--[\w-]+|[A-Z_]+)[ =](\d+)", command))
    found.pop("--jobs", None)
    if repeats := found.pop("--repeats", None):
        found["cells"] = CELLS * int(repeats)
    return set(map(int, found.values()))


def test_each_row_that_was_asked_for_is_there() -> None:
    assert list(ROWS) == NAMES
    assert all(map(all, ROWS.values()))


@pytest.mark.parametrize("row", SAID)
def test_its_numbers_are_those_of_the_commands(row: str) -> None:
    (by_test, by_full), (pattern, suites) = ROWS[row], SAID[row]
    made = re.search(pattern, MAKEFILE) if pattern else None
    assert bool(made) == bool(pattern)
    assert {int(number) for number in (made.groups() if made else ())} <= numbers(by_test)
    for suite in suites:
        assert asked(FULL[suite]) <= numbers(by_full)
