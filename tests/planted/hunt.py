"""Runs inside a copy of the sources: the first seed of a range whose history is not clean."""

from __future__ import annotations

import json
import sys
import time

from tests.simulation.cluster import History
from tests.simulation.run import histories


def kinds(history: History) -> list[str]:
    """What the checker found, by kind, and the first words of the rest."""
    found = [kind for kind, lines in history.findings.kinds().items() if lines]
    return found + [line.splitlines()[0][:160] for line in history.findings.other[:1]]


def main(first: int, end: int, jobs: int) -> int:
    tried = 0
    began = time.monotonic()
    for history in histories(range(first, end), jobs):
        tried += 1
        if not history.findings.clean:
            _tell(history.seed, kinds(history), tried, began)
            return 1
    _tell(None, [], tried, began)
    return 0


def _tell(seed: int | None, found: list[str], tried: int, began: float) -> None:
    seconds = round(time.monotonic() - began, 2)
    told = {"seed": seed, "found": found, "histories": tried, "seconds": seconds}
    print(json.dumps(told), flush=True)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
