"""Many histories: `python -m tests.simulation.run --seeds 0:160 --jobs 2`.

Prints the totals and exits 1 unless it is clean, reached all that there is to reach (`reach.py`),
and each 25th seed, played again by other processes, was the same history. `--trace` prints a seed's
port events, `--reach` how often each thing came about.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
import time
from collections import Counter
from collections.abc import Generator, Iterable, Sequence

from tests.last_line import verdict
from tests.quiet import quiet
from tests.simulation.cluster import History, play
from tests.simulation.plan import TIDB_FROM, draw
from tests.simulation.reach import EXCUSED, OF_TIDB, missed, wanted

KINDS = ("loss", "duplicate", "out-of-order", "gap", "rule")
AGAIN = 25


def _quietly_until_ended() -> None:
    """Ctrl-C is the parent's, which ends its pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    quiet()


def _play(seed: int) -> History:
    return play(seed)


def histories(seeds: Sequence[int], jobs: int) -> Generator[History, None, None]:
    if jobs <= 1:
        quiet()
        yield from map(_play, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, initializer=_quietly_until_ended) as pool:
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
    parser.add_argument("--reach", action="store_true", help="print what was reached, how often")
    options = parser.parse_args(argv)
    started, odd = time.monotonic(), list[int]()
    if options.trace or options.logs:
        done = [_show(seed, options.trace, options.logs) for seed in options.seeds]
    else:
        done = list(_report(histories(options.seeds, options.jobs)))
        odd = differing(done[::AGAIN], options.jobs)
        if odd:
            print(f"NOT THE SAME when played again: {odd}")
    seconds, asked = time.monotonic() - started, len(options.seeds)
    return totals(done, seconds, asked=asked, odd=len(odd), reach=options.reach)


def _report(found: Iterable[History]) -> Generator[History, None, None]:
    for history in found:
        if not history.findings.clean:
            print(history.findings.text(history.seed), flush=True)
            print(f"  again: python -m tests.simulation.run --seeds {history.seed} --trace")
        yield history


def differing(done: Sequence[History], jobs: int) -> list[int]:
    """The seeds that are another history when they are played again: by other processes, of which
    each has a PYTHONHASHSEED of its own."""
    again = histories([history.seed for history in done], jobs)
    return [one.seed for one, other in zip(done, again, strict=True) if one.digest != other.digest]


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


def totals(
    done: list[History], seconds: float, *, asked: int, odd: int = 0, reach: bool = False
) -> int:
    """Print what came out. `odd`: how many were another history when they were played again. The
    exit code: 1 if something went wrong, or was not reached, or fewer histories than `asked` were
    played."""
    reached: Counter[str] = Counter()
    for history in done:
        reached.update(history.reached)
    if reach:
        for name in (*wanted(), *OF_TIDB):
            print(f"{reached[name]:>10} {name}")
    of_tidb = sum(history.seed >= TIDB_FROM for history in done)
    never = missed(reached, len(done) - of_tidb, of_tidb)
    if never:
        print(f"NOT REACHED: {', '.join(never)}: these histories prove nothing of it")
    bad = sorted(h.seed for h in done if not h.findings.clean)
    kinds = [h.findings.kinds() for h in done]
    found = {kind: sum(len(k[kind]) for k in kinds) for kind in (*KINDS, "other")} | {
        "never reached": len(never),
        "NOT THE SAME": odd,
        "FEWER THAN ASKED FOR": max(0, asked - len(done)),
    }
    print(
        f"{len(done) / seconds:.2f} histories/s, {sum(h.virtual_s for h in done):.0f} virtual s,"
        f" {sum(h.restarts for h in done)} process starts, {len(+reached)} things reached"
        f" ({len(EXCUSED)} of {len(wanted())} need not be), {len(bad)} seeds failed {bad[:20]}"
    )
    transactions = sum(h.transactions for h in done)
    print(closing_line(len(done), transactions, sum(h.faults for h in done), found))
    return 1 if any(found.values()) or not transactions else 0


def closing_line(histories: int, transactions: int, faults: int, found: dict[str, int]) -> str:
    """What every suite ends with. `found`: by kind of finding."""
    return (
        f"simulation: {histories} histories, {transactions} transactions, {faults} faults,"
        f" {verdict(found, transactions)}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
