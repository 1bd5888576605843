"""Traffic of which little or nothing is published (scenarios T2 and T7), on real processes.

    python -m tests.acceptance.filtered [--txns 20000] [--seconds 600]

First transactions of 1000 DELETEs that an event filter drops and one INSERT that it keeps: the
Drainer's memory must not grow with them. Then only such as are dropped whole, for some time: the
largest lag of the watermark is printed, as it is real time; that it comes to the last of them, and
that there was traffic, is demanded.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.acceptance.status_api import status_api
from tests.acceptance.writing import CLUSTER_ID, T1, T1_VERSION, Pump, commit, now_ts, pump_of
from tests.fixtures.capture import ddl_history, ddl_history_json
from tests.last_line import last_line
from tests.topology import Running, up
from tests.wrong import STUCK_S, Wrong
from tidelog import subjects
from tidelog.changes import Marker, Watermark
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus
from tidelog.rows.table_codec import DELETE, INSERT, TableCodec
from tidelog.rows.values import Value
from tidelog.schema.tracker import SchemaTracker
from tidelog.timestamps import physical_ms
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, PrewriteValue, TableMutation

DOWNSTREAM = "down.db"
DELETES = 1000
FLAT_MIB = 16
"""What the Drainer's memory may differ by, between a quarter of the transactions and all."""
LEAST_TPS = 1
"""Fewer a second are none to lag behind; one writer writes more than a hundred."""
AIM_S = 2
"""T7's; printed, not asserted: it is real time on a machine that does other things."""
ENVIRONMENT = {
    "TIDELOG_DRAINER_BINLOG_FILTER_RULE": json.dumps({"no-deletes": {"ignore-event": ["delete"]}}),
    "TIDELOG_DRAINER_TABLE_MIGRATE_RULE": json.dumps(
        [{"source": {"schema": "app", "table": "t1"}, "binlog-filter-rule": ["no-deletes"]}]
    ),
}


class Lag(NamedTuple):
    """How many transactions the watermark had to follow, and how far it was behind at most."""

    transactions: int
    worst_s: float


class Memory(NamedTuple):
    """MiB of the Drainer: now, and the most so far."""

    now: float
    peak: float


@contextlib.contextmanager
def topology(home: Path) -> Iterator[Running]:
    """One Pump of a captured history, a Drainer that drops DELETEs of app.t1; ENVIRONMENT is set by
    the caller."""
    with status_api(ddl_history_json("set-a")) as api:
        options = (
            *("--pumps", "1", "--oracle", "follow", "--ddl-history", api),
            *("--cluster-id", str(CLUSTER_ID)),
        )
        with up(home / "top", f"sqlite:///{home / DOWNSTREAM}", *options) as running:
            yield running


class Traffic:
    """Prewrites whose DELETEs are encoded once."""

    def __init__(self) -> None:
        tracker = SchemaTracker()
        tracker.add_jobs(ddl_history("set-a"))
        self._codec = TableCodec(tracker.table(T1, T1_VERSION).info)
        rows = [
            self._codec.encode_delete({"id": number, "v": "gone", "n": number}, number)
            for number in range(DELETES)
        ]
        self._deletes = TableMutation(
            table_id=T1,
            deleted_rows=rows,
            sequence=[DELETE] * DELETES,  # type: ignore[list-item]
        )

    def write(self, pump: Pump, insert: int | None) -> int:
        """One transaction, with an INSERT of that id behind its DELETEs; its commit_ts."""
        mutation = TableMutation()
        mutation.CopyFrom(self._deletes)
        if insert is not None:
            row: dict[str, Value] = {"id": insert, "v": "kept", "n": insert}
            mutation.inserted_rows.append(self._codec.encode_insert(row, insert))
            mutation.sequence.append(INSERT)  # type: ignore[arg-type]
        start_ts = now_ts()
        value = PrewriteValue(schema_version=T1_VERSION, mutations=[mutation])
        pump.write(
            Binlog(
                tp=BinlogType.Prewrite,
                start_ts=start_ts,
                prewrite_key=b"k%d" % start_ts,
                prewrite_value=value.SerializeToString(),
            ).SerializeToString()
        )
        commit_ts = now_ts()
        pump.write(commit(start_ts, commit_ts))
        return commit_ts


def memory(running: Running) -> Memory:
    status = Path(f"/proc/{running.pid('drainer')}/status").read_text()
    found = dict(re.findall(r"(VmRSS|VmHWM):\s+(\d+) kB", status))
    return Memory(int(found["VmRSS"]) / 1024, int(found["VmHWM"]) / 1024)


def dropped(running: Running) -> dict[str, int]:
    """What the Drainer left out since it started, by reason."""
    with urllib.request.urlopen(f"{running.ready['http']['drainer']}/status") as answer:
        found: dict[str, int] = json.load(answer)["actors"]["publisher"]["dropped"]
        return found


def kept(home: Path) -> int:
    """Rows of the table downstream."""
    with contextlib.closing(sqlite3.connect(home / DOWNSTREAM)) as db:
        found: int = db.execute('SELECT COUNT(*) FROM "app.t1"').fetchone()[0]
        return found


def mostly_filtered(running: Running, count: int) -> tuple[Memory, Memory]:
    """T2: `count` transactions; each time the downstream's checkpoint reaches them. The memory
    after a quarter, and after all."""
    traffic = Traffic()
    seen: list[Memory] = []
    with pump_of(running) as pump:
        for number in range(1, count + 1):
            last = traffic.write(pump, number)
            if number in (count // 4, count):
                running.wait(last, 600)
                seen.append(memory(running))
    first, then = seen
    return first, then


async def position(bus: Bus) -> int:
    """The commit_ts up to which the stream says that nothing comes any more; 0: it says nothing."""
    stream, found = subjects.changes_stream("main"), 0
    mark = await bus.last_message(stream, subjects.changes_watermark("main"))
    if mark is not None:
        found = msgspec.json.decode(mark.data, type=Watermark).resolved_ts
    mark = await bus.last_message(stream, subjects.changes_txn("main"))
    if mark is not None:
        found = max(found, msgspec.json.decode(mark.data, type=Marker).txns[-1].commit_ts)
    return found


def all_filtered(running: Running, seconds: float) -> Lag:
    """T7: transactions without a row to publish, as fast as one writer writes them. How far the
    stream's newest mark was behind the newest commit_ts, at most. Raises Wrong if next to nothing
    was written, or the mark doesn't come to the last one."""
    traffic = Traffic()
    written = count = 0

    async def watch(done: asyncio.Event) -> float:
        bus, worst, moved, since = await NatsBus.connect(running.nats, name="test"), 0.0, 0, 0.0
        try:
            while True:
                at = await position(bus)
                last = written
                if done.is_set() and at >= last:
                    return worst
                if at > moved or not since:
                    moved, since = at, time.monotonic()
                if done.is_set() and time.monotonic() - since > STUCK_S:
                    raise Wrong(f"the watermark stands at {at} of {last} for {STUCK_S:.0f} s")
                worst = max(worst, (physical_ms(last) - physical_ms(at)) / 1000)
                await asyncio.sleep(0.1)
        finally:
            await bus.close()

    async def main() -> float:
        done = asyncio.Event()
        watching = asyncio.create_task(watch(done))
        await asyncio.to_thread(write)
        done.set()
        return await watching

    def write() -> None:
        nonlocal written, count
        end = time.monotonic() + seconds
        with pump_of(running) as pump:
            while time.monotonic() < end:
                written = traffic.write(pump, None)
                count += 1

    worst = asyncio.run(main())
    if count < max(1.0, LEAST_TPS * seconds):
        raise Wrong(f"{count} transactions in {seconds:.0f} s are no traffic to lag behind")
    return Lag(count, worst)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--txns", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=600)
    wanted = parser.parse_args()
    os.environ.update(ENVIRONMENT)
    with tempfile.TemporaryDirectory() as home, topology(Path(home)) as running:
        first, then = mostly_filtered(running, wanted.txns)
        print(f"T2: {wanted.txns} transactions of {DELETES} filtered DELETEs and one INSERT")
        print(f"    Drainer {first.now:.1f} MiB after a quarter, {then.now:.1f} at the end, peak")
        print(f"    {then.peak:.1f}; left out: {dropped(running)}")
        wrong = []
        if then.now - first.now >= FLAT_MIB:
            wrong.append("the memory grows with what is filtered")
        lag = all_filtered(running, wanted.seconds)
        print(
            f"T7: all filtered for {wanted.seconds:.0f} s, {lag.transactions} transactions: the"
            f" watermark lagged {lag.worst_s:.2f} s at most, the aim is {AIM_S} s"
        )
        if (rows := kept(Path(home))) != wanted.txns:
            wrong.append(f"{rows} of {wanted.txns} INSERTs are there")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    tried, more = wanted.txns + lag.transactions, f"{wanted.txns} of them with a row to publish"
    print(last_line("filtered feed", tried, more, wrong=len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
