"""`python -m tests.crash.run --states 100000`: crash states of every scenario, a line each, then
the counts by update protocol.

A failing state is printed with its name; `--replay NAME` meets it again, with the process's log.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from tests.crash.explore import Report, explore, replay
from tests.crash.scenarios import PROTOCOLS, SCENARIOS, named
from tests.last_line import verdict
from tests.quiet import quiet

STATES = 15_000


def shares(wanted: int) -> list[tuple[str, int]]:
    """Each scenario's part, by its weight; together at least what is wanted."""
    total = sum(scenario.weight for scenario in SCENARIOS)
    return [(one.name, -(-wanted * one.weight // total)) for one in SCENARIOS]


def explore_all(wanted: int, jobs: int = 1, only: str = "") -> list[Report]:
    quiet()
    parts = [part for part in shares(wanted) if only in ("", part[0])]
    if jobs == 1:
        return [_by_name(part) for part in parts]
    with ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        return list(pool.map(_by_name, parts))


def _by_name(part: tuple[str, int]) -> Report:
    name, share = part
    return explore(named(name), share)


def closing(reports: list[Report], wanted: int) -> tuple[str, bool]:
    """The last line, and whether it says what was wanted: enough states, some of each protocol, and
    nothing wrong with any."""
    told = Counter(dict.fromkeys(PROTOCOLS, 0))
    for report in reports:
        told[report.protocol] += report.states
    total = told.total()
    wrong = {
        "WRONG": sum(len(report.failures) for report in reports),
        "FEWER THAN ASKED FOR": max(0, wanted - total),
        "PROTOCOLS NOT TRIED": sum(not count for count in told.values()),
    }
    counts = ", ".join(f"{protocol} {count}" for protocol, count in told.items())
    line = f"crash states: {total} cases, {verdict(wrong, total)} ({counts})"
    return line, not any(wrong.values())


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash.run")
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scenario", default="", help="only this one; the run counts as failed")
    parser.add_argument("--replay", default="")
    options = parser.parse_args()
    if options.replay:
        replay(options.replay)
        print("nothing wrong with it")
        return 0
    reports = explore_all(options.states, options.jobs, options.scenario)
    for report in reports:
        print(report.line())
        for name, error in report.failures:
            print(f"  {error}\n  again: python -m tests.crash.run --replay '{name}'")
    line, is_right = closing(reports, options.states)
    print(line)
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
