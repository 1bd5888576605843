"""Many histories: `python -m tests.simulation.run --seeds 0:500 --jobs 2`.

Prints the totals and exits 1 unless it is clean, and every event of the plans came about.
`--trace` prints a seed's port events.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing
import sys
import time
from collections.abc import Iterator

import structlog

from tests.simulation.cluster import History, play
from tests.simulation.plan import EVENTS, FREEZE_APPLIER, TAKEOVER, draw

KINDS = ("loss", "duplicate", "out-of-order", "gap", "rule")
ENOUGH = 200
"""Histories among which every event of the plans must have happened."""


def quiet() -> None:
    """The services' own logs would be most of the time and all of the output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))


def _play(seed: int) -> History:
    return play(seed)


def histories(seeds: range, jobs: int) -> Iterator[History]:
    if jobs <= 1:
        quiet()
        yield from map(_play, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=quiet) as pool:
        yield from pool.imap(_play, seeds, chunksize=2)


def _range(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end) if end else int(first) + 1)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=_range, default=range(100), metavar="FROM:TO")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trace", action="store_true", help="print the port events")
    parser.add_argument("--logs", action="store_true", help="print the services' logs")
    options = parser.parse_args(argv)
    started = time.monotonic()
    if options.trace or options.logs:
        done = [_show(seed, options.trace, options.logs) for seed in options.seeds]
    else:
        done = list(_report(histories(options.seeds, options.jobs)))
    return totals(done, time.monotonic() - started)


def _report(found: Iterator[History]) -> Iterator[History]:
    for history in found:
        if not history.findings.clean:
            print(history.findings.text(history.seed), flush=True)
            print(f"  again: python -m tests.simulation.run --seeds {history.seed} --trace")
        yield history


def _show(seed: int, trace: bool, logs: bool) -> History:
    if not logs:
        quiet()
    print(draw(seed))
    history = play(seed, keep_trace=trace)
    print(*history.lines, sep="\n")
    if not history.findings.clean:
        print(history.findings.text(seed))
    for failure, times in sorted(history.failures.items()):
        print(f"  {times} times {failure}")
    print(f"digest {history.digest} of {history.events} events, {history.virtual_s:.1f} virtual s")
    return history


def totals(done: list[History], seconds: float) -> int:
    """Print what came out. The exit code: 1 if something went wrong, or what should have happened
    did not."""
    kinds = [h.findings.kinds() for h in done]
    counts = ", ".join(f"{sum(len(k[kind]) for k in kinds)} {kind}" for kind in KINDS)
    transactions, faults = sum(h.transactions for h in done), sum(h.faults for h in done)
    print(f"{len(done)} histories, {transactions} transactions, {faults} faults, {counts}")
    wanted = (*EVENTS, FREEZE_APPLIER, TAKEOVER)
    happened = {event: sum(h.events_done.get(event, 0) for h in done) for event in wanted}
    print(", ".join(f"{times} {event}" for event, times in happened.items()))
    never = [event for event, times in happened.items() if not times]
    if never and len(done) >= ENOUGH:
        print(f"NEVER HAPPENED: {', '.join(never)}: these histories prove nothing of it")
    bad = sorted(h.seed for h in done if not h.findings.clean)
    virtual = sum(h.virtual_s for h in done)
    print(
        f"{len(done) / seconds:.2f} histories/s, {virtual:.0f} virtual s,"
        f" {sum(h.restarts for h in done)} process starts, {len(bad)} seeds failed {bad[:20]}"
    )
    return 1 if bad or not transactions or (never and len(done) >= ENOUGH) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
