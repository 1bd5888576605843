"""`python -m tests.crash.nth_run`: every I/O call of a life fails once, in every way, for a Pump
and for each store (reliability R6).

A life is as long as it must be for its n-th call to exist, for n up to `--calls`; a run that met no
life through to its untouched end fails. A case is a call that failed: one that needs no space can't
find a full disk, and is none; every other way must have failed each call.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from typing import NamedTuple

from tests.crash import nth, nth_stores
from tests.crash.recorder import Wrong
from tests.last_line import last_line
from tests.quiet import quiet

PUMP = "pump"
FULL = "full"
COULD_NOT = "could not fail"
LIVES_ON = {"value/closed", "purged.json", ".node", "reserve", "believed"}
"""Of a Pump on a full disk: without its catalog, a reserve or marks; with what the reserve gave."""
FAILURES = ("IoFailed", "DiskFull")
OF_FILES = (*FAILURES, "Unavailable", "ConfigError")
"""What an Applier is told of a directory that can't be written, or not be opened."""
AT_LEAST = {PUMP: 80, "index": 20}
"""Calls that a life has; of a store 15. In every way but one each of them fails."""
WITHOUT_ROOM = 4
"""One in so many needs space, at least: a sync, a rename or a removal finds no disk full."""
BEHIND = 100
"""Calls that a life goes on for behind its n-th, if that could not fail, or did not end it."""


class Part(NamedTuple):
    """`kind`: how the call fails; `after`: what else is lost with it."""

    who: str
    kind: str
    after: str


class Result(NamedTuple):
    """`cases`: calls that failed. `told`: of all that were met, how often nothing came of it, by
    which error the process ended, or that the call could not fail."""

    part: Part
    cases: int
    told: Counter[str]
    wrong: list[str]


PARTS = [
    *(Part(PUMP, *way) for way in product(nth.DISK_KINDS, nth.AFTER)),
    *(Part("index", nth.KV, after) for after in nth.AFTER),
    *(Part(*way) for way in product(nth_stores.STORES, nth.DISK_KINDS, nth.AFTER)),
]


def meet(part: Part, calls: int) -> Result:
    """All n, until the life has no n-th call any more."""
    quiet()
    told, wrong, failed = Counter[str](), list[str](), 0
    for number in range(1, 1 << 20):
        try:
            met = _one(part, number, calls)
        except Exception as failure:  # noqa: BLE001 (whatever it is, it is no way to end)
            wrong.append(f"{part} call {number}: {type(failure).__name__}: {failure}")
            if len(wrong) < 5:
                continue
            break
        if met.over:
            break
        failed += bool(met.failed)
        told[met.error or ("nothing" if met.failed else COULD_NOT)] += 1
    return Result(part, failed, told, wrong or _too_little(part, failed, told.total(), calls))


def _too_little(part: Part, failed: int, met: int, calls: int) -> list[str]:
    """`failed` of the calls that were `met`."""
    if met < max(AT_LEAST.get(part.who, 15), 0 if part.kind == nth.KV else calls - 1):
        return [f"{part}: no more than {met} calls were met"]
    if failed < (met / WITHOUT_ROOM if part.kind == FULL else met):
        return [f"{part}: no more than {failed} of {met} calls failed"]
    return []


def _one(part: Part, number: int, calls: int) -> nth_stores.Met:
    if part.kind != nth.KV:
        calls = min(calls, number + BEHIND)
    if part.who in (PUMP, "index"):
        ended = nth.fail(number, part.kind, part.after, calls)
        _judge_pump(part, ended)
        return nth_stores.Met(ended.failed, ended.error, not ended.reached)
    met = nth_stores.fail(part.who, number, part.kind, part.after, calls)
    if met.error and met.error not in (OF_FILES if part.who == "files" else FAILURES):
        raise Wrong(f"it ended with {met.error}")
    return met


def _judge_pump(part: Part, ended: nth.Ended) -> None:
    full = part.kind == FULL
    if ended.error and ended.error not in (FAILURES if full else FAILURES[:1]):
        raise Wrong(f"it ended with {ended.error}")
    if ended.failed and not ended.error and not (full and ended.failed in LIVES_ON):
        raise Wrong(f"{ended.failed} failed, and it went on")


def closing(results: list[Result]) -> str:
    counts = Counter[str]()
    for result in results:
        counts[result.part.who] += result.cases
    wrong = sum(len(result.wrong) for result in results)
    shares = ", ".join(f"{who} {count}" for who, count in counts.items())
    return last_line("n-th I/O call fails", counts.total(), shares, wrong=wrong)


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash.nth_run")
    parser.add_argument("--calls", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", nargs="*", help="of these, as `relay`")
    options = parser.parse_args()
    parts = [part for part in PARTS if not options.only or part.who in options.only]
    if not parts:
        parser.error(f"none of {', '.join(sorted({part.who for part in PARTS}))}")
    results: list[Result] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(meet, parts, [options.calls] * len(parts)):
            results.append(result)
            ends = ", ".join(f"{error} {count}" for error, count in sorted(result.told.items()))
            print(
                f"{' '.join(result.part):<28} {result.cases:>6} of {result.told.total()}: {ends}",
                flush=True,
            )
            if result.wrong:
                print(*(f"  {line}" for line in result.wrong), sep="\n", flush=True)
    print(closing(results))
    return 1 if any(result.wrong for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
