"""Runs inside a copy of the sources: the first seed of a range that catches what is planted there.

Caught is what the checker names: loss, duplicate, disorder, gap or a broken rule. A history
that is unclean in another way (nothing arrives any more, rows that differ) is counted and passed.
"""

from __future__ import annotations

import json
import sys
import time

from tests.simulation.cluster import History
from tests.simulation.run import KINDS, histories


def kinds(history: History) -> list[str]:
    """The kinds that count, as far as found."""
    found = history.findings.kinds()
    return [kind for kind in KINDS if found[kind]]


def main(first: int, end: int, jobs: int) -> int:
    tried = unclear = 0
    began = time.monotonic()
    seed: int | None = None
    found: list[str] = []
    for history in histories(range(first, end), jobs):
        tried += 1
        found = kinds(history)
        if found:
            seed = history.seed
            break
        unclear += not history.findings.clean
    seconds = round(time.monotonic() - began, 2)
    told = {"seed": seed, "found": found, "tried": tried, "unclear": unclear, "seconds": seconds}
    print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
