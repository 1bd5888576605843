"""`python -m tests.crash.run --states 100000`: crash states of every scenario, a line each.

A failing state is printed with its name; `--replay NAME` meets it again, with the Pump's log.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.crash.explore import Report, explore, replay
from tests.crash.quiet import quiet
from tests.crash.scenarios import SCENARIOS

STATES = 10_000


def shares(wanted: int) -> list[int]:
    """Each scenario's part, by its weight; together at least what is wanted."""
    total = sum(scenario.weight for scenario in SCENARIOS)
    return [-(-wanted * scenario.weight // total) for scenario in SCENARIOS]


def explore_all(wanted: int, jobs: int = 1, only: str = "") -> list[Report]:
    quiet()
    parts = [
        (scenario, share)
        for scenario, share in zip(SCENARIOS, shares(wanted), strict=True)
        if not only or scenario.name == only
    ]
    if jobs == 1:
        return [explore(*part) for part in parts]
    with ProcessPoolExecutor(jobs, initializer=quiet) as pool:
        return list(pool.map(partial(_by_name), [(s.name, share) for s, share in parts]))


def _by_name(part: tuple[str, int]) -> Report:
    name, share = part
    return explore(next(s for s in SCENARIOS if s.name == name), share)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash.run")
    parser.add_argument("--states", type=int, default=STATES)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--scenario", default="")
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
    total, failed = sum(r.states for r in reports), sum(len(r.failures) for r in reports)
    print(f"{total} states, {failed} failures")
    return 1 if failed or (total < options.states and not options.scenario) else 0


if __name__ == "__main__":
    sys.exit(main())
