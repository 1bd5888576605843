"""The captures through a whole topology whose Drainer is restarted after random transactions (issue
6, Done when 1): `python -m tests.acceptance.restarts --restarts 20`.

Orderly: it publishes what it has in hand (kill -9 is `tests.kills.rig`'s). What the readers have at
the end is what the source held, and each transaction is in the stream once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from tests.acceptance import golden_stream
from tests.acceptance.replaying import replay
from tests.acceptance.status_api import status_api
from tests.acceptance.stream import Follower, commit_timestamps, following, read_markers
from tests.acceptance.test_capture import options
from tests.fixtures.capture import (
    SETS,
    Set,
    ddl_history,
    ddl_history_json,
    published,
    pulled,
    records,
)
from tests.fixtures.downstream_rows import sqlite_differences
from tests.last_line import last_line
from tests.processes import until
from tests.topology import Running, up
from tidelog.change_reader import Change
from tidelog.schema.tracker import SchemaTracker, is_setval
from tidelog_proto.binlog_pb2 import Binlog

FOREVER = 1 << 64


def restart_orderly(running: Running) -> None:
    """SIGTERM: it publishes what it has in hand, and ends."""
    old = running.pid("drainer")
    os.kill(old, signal.SIGTERM)
    until(lambda: running.pid("drainer") != old, "the Drainer to be started again")


def due(which: Set) -> list[int]:
    """The commit_ts that the stream gets to once the records in front of the n-th one are sent,
    whatever follows: what is open by then commits later than it began."""
    undecided: set[int] = set()
    committed: list[int] = []
    found: list[int] = []
    for record in records(which):
        below = bisect_left(committed, min(undecided, default=FOREVER))
        found.append(committed[below - 1] if below else 0)
        if record.tp == "Prewrite":
            undecided.add(record.start_ts)
            continue
        undecided.discard(record.start_ts)
        if record.tp == "Commit":
            insort(committed, Binlog.FromString(record.payload).commit_ts)
    return found


class Restarts:
    """After `count` random Commits, a restart each. `positions`: where the stream was by then."""

    def __init__(self, which: Set, count: int, seed: int) -> None:
        commits = [n for n, record in enumerate(records(which)) if record.tp == "Commit"]
        self._chosen = sorted(random.Random(seed).sample(commits[:-1], count))
        self._due = due(which)
        self.positions: list[int] = []

    def plan(self, running: Running, subscriber: Follower) -> dict[int, Callable[[], None]]:
        return {
            n + 1: partial(self._restart, running, subscriber, self._due[n]) for n in self._chosen
        }

    def _restart(self, running: Running, subscriber: Follower, position: int) -> None:
        """What comes before that Commit is published first: a Drainer that is ended while it still
        starts proves little. The Commit's own transaction is what it has in hand."""

        def reached() -> bool:
            subscriber.check()
            return subscriber.position >= position

        until(reached, f"{position} to be published")
        self.positions.append(subscriber.position)
        restart_orderly(running)

    @property
    def lives(self) -> int:
        """Those in which something was published, before the last one."""
        return sum(before < after for before, after in pairwise([0, *self.positions]))


def last_published(which: Set) -> int:
    """The last commit_ts that a reader of the stream must see: what follows it may be dropped."""
    return max(b.commit_ts for b in pulled(which) if b.commit_ts != b.start_ts)


def run(which: Set, restarts: Restarts, directory: Path) -> list[Change]:
    """What a subscriber saw over all restarts; every check is made."""
    database = directory / "down.db"
    with (
        status_api(ddl_history_json(which)) as api,
        up(directory / "top", f"sqlite:///{database}", *options(which, api)) as running,
        following(running.nats, "main", last_published(which)) as subscriber,
    ):
        done = replay(running, which, restarts.plan(running, subscriber))
        running.wait(done.max_commit_ts, timeout_s=240)
        changes = subscriber.result()
        markers = read_markers(running.nats, "main")
    check(which, changes, markers)
    assert sqlite_differences(which, database) == []
    return changes


def check(which: Set, changes: list[Change], markers: list[int]) -> None:
    """Each transaction once, in order; of set-a each row. Every DDL is one that is known."""
    seen = commit_timestamps(changes)
    assert seen == markers
    if which == "set-a":
        wanted = [txn.commit_ts for txn in published()]
        missing, strange = set(wanted) - set(seen), set(seen) - set(wanted)
        assert not missing, sorted(missing)[:9]
        assert not strange, sorted(strange)[:9]
        golden_stream.check(changes)
    assert not [kind for kind in tracked(which) if kind.startswith("unknown")]
    kinds = {ddl.kind for change in changes for ddl in change.ddls}
    assert kinds <= tracked(which).keys()


def tracked(which: Set) -> Counter[str]:
    """The kinds of the capture's DDLs. Raises UnknownJob for one that is in no history."""
    tracker = SchemaTracker()
    tracker.add_jobs(ddl_history(which))
    found: Counter[str] = Counter()
    for binlog in pulled(which):
        if binlog.ddl_query and not is_setval(binlog.ddl_query.decode()):
            found[tracker.ddl(binlog.ddl_job_id, binlog.ddl_schema_state).kind] += 1
    return found


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(argv)
    for which in SETS:
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="restarts-") as directory:
            restarts = Restarts(which, chosen.restarts, chosen.seed)
            changes = run(which, restarts, Path(directory))
        print(
            f"{which}: {chosen.restarts} orderly restarts of the Drainer,"
            f" {restarts.lives} of them after it had published something;"
            f" {len(commit_timestamps(changes))} transactions once, in order;"
            f" {sum(tracked(which).values())} DDLs tracked, of {len(tracked(which))} kinds;"
            f" contents equal; {time.monotonic() - began:.0f} s"
        )
        print(last_line(f"restarts of {which}", chosen.restarts, f"seed {chosen.seed}"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
