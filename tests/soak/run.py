"""Load for long, and kills: `python -m tests.soak.run --minutes 180 --rate 500`.

`tidelog up` with two Pumps into SQLite, retention of a minute, a reader of the stream. Each 30 s
one of its processes is killed; in the last hour of a long one most of them are spared, as what a
process collects while it runs does not show in three minutes of life. Everything committed is read
once and in order, the downstream is equal to the source at the end; memory and descriptors of each
process do not grow, neither over its lives nor in a long one; after each kill the downstream is
soon as near as it was before.

Nobody has to sit beside it for hours: with `--dir` (or SOAK_DIR) the stores stay there, and
`--part 90` (SOAK_PART) ends after so many minutes, with everything compared, and exit code
75 while some are left. The same command goes on, on the same stores, and judges the whole.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

import uvloop

from tests.last_line import last_line
from tests.soak.judge import judged
from tests.soak.so_far import TOPOLOGY, Asked, NotToBeContinued, SoFar, save, take
from tests.soak.soak import Soak
from tests.topology import up
from tests.wrong import Wrong

ENVIRONMENT = {
    "TIDELOG_PUMP_GC": "1m",
    "TIDELOG_PUMP_GC_INTERVAL": "10s",
    "TIDELOG_PUMP_SEGMENT_BYTES": str(8 << 20),
    "TIDELOG_DRAINER_CHANGES_MAX_BYTES": str(128 << 20),
}
"""Retention works all the while: small segments that go soon, a stream that discards; it is as long
as it ever gets after some minutes, and nats-server's memory, which grows with that, too."""
KEEP_DROPPED_S = 60
"""So do the dropped tables downstream: SQLite holds what it knows of each in memory."""

FEWEST = 0.9
"""Of the kills that were asked for."""


def arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--rate", type=float, default=500.0)
    parser.add_argument("--kill-each", type=float, default=30.0, help="seconds")
    parser.add_argument("--least", type=float, default=0.0, help="committed a second, in the mean")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 1 << 31))
    kept, part = os.environ.get("SOAK_DIR"), os.environ.get("SOAK_PART", "inf")
    parser.add_argument("--dir", type=Path, default=kept, help="stores stay here between parts")
    parser.add_argument("--part", type=float, default=part, help="minutes; then go on another day")
    options = parser.parse_args(argv)
    if options.part < options.minutes and options.dir is None:
        parser.error("a part needs --dir, where the next one finds the stores")
    return options


def main(argv: list[str]) -> int:
    options = arguments(argv)
    os.environ.update(ENVIRONMENT)
    asked = Asked(options.minutes * 60, options.rate, options.kill_each)
    with tempfile.TemporaryDirectory(prefix="soak-") as passing:
        home: Path = options.dir or Path(passing)
        home.mkdir(parents=True, exist_ok=True)
        try:
            so_far = take(home, asked, options.seed)
        except NotToBeContinued as error:
            print(error)
            return 1
        return part(home, so_far, options.part * 60, options.least)


def part(home: Path, so_far: SoFar, seconds: float, least: float) -> int:
    """One part, or all of it."""
    soak = Soak(min(so_far.asked.seconds - so_far.seconds, seconds), home, so_far)
    print(f"seed {so_far.seed}, part {len(so_far.commits) + 1}", flush=True)
    database = home / "down.db"
    with up(
        home / TOPOLOGY, f"sqlite:///{database}?keep_dropped_s={KEEP_DROPPED_S}", "--pumps", "2"
    ) as running:
        try:
            blocks = uvloop.run(soak.run(running, database))
        except (Wrong, TimeoutError) as error:
            print(f"kill {len(so_far.kills)} of seed {so_far.seed}: {error!r}{running.logs()}")
            return 1
        kept = sum(f.stat().st_size for f in running.directory.rglob("*.vlog"))
    save(home, so_far)
    grown, unsure = judged(so_far, min(20.0, so_far.seconds / 6), blocks)
    print(f"the Pumps keep {kept >> 20} MiB")
    return ended(so_far, [*grown, *too_little(so_far, least)], unsure)


def too_little(so_far: SoFar, least: float) -> list[str]:
    """To prove anything."""
    rate, back = so_far.committed / so_far.seconds, [took for _, took in so_far.kills]
    wanted = FEWEST * so_far.seconds / so_far.asked.kill_each_s
    print(f"{rate:.0f} transactions a second of {so_far.asked.rate:.0f}")
    print(f"{len(back)} kills; near again after {max(back, default=0):.1f} s at most")
    found = []
    if rate < least:
        found.append(f"{rate:.0f} transactions a second are too few")
    if not back or len(back) < wanted:
        found.append(f"{len(back)} kills are too few: {wanted:.0f} are wanted")
    return found


def ended(so_far: SoFar, found: list[str], unsure: list[str]) -> int:
    """What is wrong and, when it is whole, the last line. What was found of all of it is judged
    then."""
    wrong = so_far.wrong + (found if so_far.whole else [])
    for line in wrong[:20]:
        print("WRONG", line)
    if wrong or so_far.whole:
        parts = f" in parts of {', '.join(so_far.commits)}" if len(so_far.commits) > 1 else ""
        doubts = f", growth of {', '.join(unsure)} within the noise" if unsure else ""
        whole = f"{so_far.seconds / 60:.0f} minutes{parts}"
        more = f"{whole}, {len(so_far.kills)} kills, seed {so_far.seed}{doubts}"
        print(last_line("soak", so_far.read, more, wrong=len(wrong)))
        return 1 if wrong else 0
    for line in found:
        print("so far:", line)
    minutes, all_of = so_far.seconds / 60, so_far.asked.seconds / 60
    print(f"{minutes:.0f} of {all_of:.0f} minutes; the same command goes on")
    return os.EX_TEMPFAIL


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
