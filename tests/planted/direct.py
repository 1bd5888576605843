"""Runs inside a copy of the sources: schedules on seeds; a line of JSON for each history.

`python -m tests.planted.direct BUG:SEED … [--trace]`; in the checkout itself it plays the schedule
of that bug without the bug. `cpu_s` is what a history took of the processor; the first's has the
start of the interpreter and all imports in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

from tests.planted.director import Director
from tests.planted.schedules import BY_BUG, Schedule
from tests.quiet import quiet
from tests.simulation.cluster import Cluster, History, play

SAID = 20
"""Sentences told of each kind of finding."""


def directed(schedule: Schedule, seed: int, *, keep_trace: bool = False) -> tuple[History, int]:
    """The history, and how many steps waited in vain."""
    directors: list[Director] = []

    def prepare(cluster: Cluster) -> None:
        directors.append(Director(cluster, schedule.steps))

    history = play(seed, plan=schedule.plan(seed), prepare=prepare, keep_trace=keep_trace)
    for director in directors:
        history.findings.rules += director.broken_marks()
    return history, sum(director.left for director in directors)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plays", nargs="+", metavar="BUG:SEED")
    parser.add_argument("--trace", action="store_true", help="print events and findings")
    options = parser.parse_args(argv)
    quiet()
    told_s = 0.0
    for bug, _, number in (text.partition(":") for text in options.plays):
        seed = int(number)
        history, left = directed(BY_BUG[bug], seed, keep_trace=options.trace)
        if options.trace:
            print(*history.lines, history.findings.text(seed), sep="\n")
        told = {
            "bug": bug,
            "seed": seed,
            "found": {kind: said[:SAID] for kind, said in history.findings.kinds().items() if said},
            "clean": history.findings.clean,
            "left": left,
            "cpu_s": round(time.process_time() - told_s, 2),
        }
        told_s = time.process_time()
        print(json.dumps(told), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
