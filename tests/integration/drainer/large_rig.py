"""One transaction larger than a Drainer's memory, while small ones run (T1 of acceptance.md), and
the Drainer killed between its parts: `python -m tests.integration.drainer.large_rig`.

A real nats-server, registry, Pump and Drainer. What is in the stream afterwards is read message by
message: each transaction once, in order, the large one whole.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import NamedTuple

import msgspec

from bench.binlogs import FIRST_ID, commit, large_prewrite
from bench.drain_memory import SCHEMA_VERSION
from bench.resident import forget_peak, resident
from bench.stage import CLUSTER, Stage
from bench.tables import BenchTable
from bench.upstream import Upstream, write_by_grpc
from tests.last_line import last_line
from tidelog import changes, subjects
from tidelog.changes import Marker, RowMessage
from tidelog.oracle import RegistryOracle
from tidelog.ports import Message

FEED = "main"
STREAM = subjects.changes_stream(FEED)
MARKER = subjects.changes_txn(FEED)
TPS = 200
GROUP_S = 0.1
WARM_UP = 2000
LIMIT_MIB = 64
"""What the Drainer may take over its baseline, whatever the transaction's size."""
BACK_MIB = LIMIT_MIB / 2
"""What it may still have over its baseline when the large one is through. Not nothing: an allocator
gives pages back as it likes, a killed one began with less behind it, and the small ones go on."""
TIMEOUT_S = 1800.0


class Outcome(NamedTuple):
    """MiB, seconds."""

    size: float
    rows: int
    baseline: float
    peak: float
    after: float
    published_in: float
    messages: int
    abandoned: int
    small: int
    waited: float
    """The longest that a small transaction took from its Commit to its marker."""
    slowest_status: float

    def wrong(self, kills: int) -> list[str]:
        """What is wrong with a run with so many kills, or why it proves nothing; times are only
        told."""
        took, has, most = self.peak - self.baseline, self.after - self.baseline, LIMIT_MIB * 1.2
        found = []
        if took > most:
            found.append(f"it took {took:.0f} MiB more than before, of {most:.0f}")
        if has > BACK_MIB:
            found.append(f"it still has {has:.0f} MiB more than before, of {BACK_MIB:.0f}")
        if self.abandoned < kills:
            found.append(f"{self.abandoned} attempts of {kills} were cut between their parts")
        return found

    def __str__(self) -> str:
        limit = self.baseline + LIMIT_MIB
        return f"""a transaction of {self.size:.0f} MiB, {self.rows} rows, \
in {self.messages} messages, {self.published_in:.1f} s after its Commit
Drainer: {self.baseline:.0f} MiB before, {self.peak:.0f} MiB at most (limit {limit:.0f}), \
{self.after:.0f} MiB afterwards
attempts given up by kills: {self.abandoned}
{self.small} small transactions, each once and in order; the longest waited {self.waited:.1f} s
slowest answer of /status meanwhile: {self.slowest_status * 1000:.0f} ms"""


class Rig:
    def __init__(self, stage: Stage, seed: int) -> None:
        self.stage = stage
        self.upstream = Upstream(stage.bus, stage.pumps, TIMEOUT_S)
        self.oracle = RegistryOracle(stage.bus, CLUSTER)
        self.rng = random.Random(seed)
        self.committed: dict[int, float] = {}
        """Small transactions, and when their Commit was acked."""
        self.marked: dict[int, float] = {}
        self.markers: list[Marker] = []
        self.peak = self.slowest = 0.0
        self.loading = True

    async def small(self, table: BenchTable, count: int) -> None:
        first = len(self.committed)
        group = [[("c", table.insert(first + n))] for n in range(count)]
        for commit_ts in await self.upstream.transactions(table, group):
            self.committed[commit_ts] = time.monotonic()

    async def load(self, table: BenchTable) -> None:
        while self.loading:
            await self.small(table, int(TPS * GROUP_S))
            await asyncio.sleep(GROUP_S)

    async def large(self, start_ts: int, payload: bytes) -> int:
        await write_by_grpc(self.stage.grpc(0), payload)
        commit_ts = await self.oracle.take(1)
        await write_by_grpc(self.stage.grpc(0), commit(start_ts, commit_ts))
        return commit_ts

    async def follow(self) -> None:
        """Every marker as it comes."""
        reader = await self.stage.bus.read(STREAM, start_seq=1, subjects=(MARKER,))
        while True:
            for message in await reader.next_batch(500, 1.0):
                marker = msgspec.json.decode(message.data, type=Marker)
                self.markers.append(marker)
                for txn in marker.txns:
                    self.marked[txn.commit_ts] = time.monotonic()

    async def published(self, commit_ts: int) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while commit_ts not in self.marked:
                self.stage.check()
                await asyncio.sleep(0.05)

    async def watch(self) -> None:
        """How much memory the Drainer takes, and how long it takes to say how it is."""
        while True:
            began = time.monotonic()
            try:
                await asyncio.to_thread(_get, self.stage.http("drainer"))
                self.slowest = max(self.slowest, time.monotonic() - began)
                self.peak = max(self.peak, resident(self.stage.pid("drainer"), "VmHWM"))
            except (OSError, ValueError, LookupError):
                pass  # killed a moment ago
            await asyncio.sleep(0.1)

    async def kill_in_the_middle(self, kills: int) -> None:
        """Each time that another attempt of the large one has parts in the stream."""
        attempts: set[str] = set()
        while len(attempts) < kills and self.loading:
            newest = await self.stage.bus.last_message(STREAM, f"changes.{FEED}.row.>")
            attempt = newest.headers[changes.H_ATTEMPT] if newest is not None else ""
            if newest is None or attempt in attempts or not _is_large(newest):
                await asyncio.sleep(0.01)
                continue
            attempts.add(attempt)
            await asyncio.sleep(self.rng.random() * 0.5)
            await self.stage.kill("drainer")


def _get(url: str) -> None:
    with urllib.request.urlopen(f"{url}/status", timeout=30) as answer:
        answer.read()


def _is_large(message: Message) -> bool:
    (first, *_) = msgspec.json.decode(message.data, type=RowMessage).events
    return first.after is not None and int(str(first.after["id"])) >= FIRST_ID


async def check(rig: Rig, commit_ts: int, rows: int) -> tuple[int, int]:
    """What the stream holds: (messages of the large one, attempts without a marker). Raises
    AssertionError."""
    times = [txn.commit_ts for marker in rig.markers for txn in marker.txns]
    assert times == sorted(set(times))
    assert set(rig.committed) | {commit_ts} <= set(times)
    before = 0
    for marker in rig.markers:
        assert marker.prev_commit_ts == before
        before = marker.txns[-1].commit_ts
    (large,) = [m for m in rig.markers if m.txns[0].commit_ts == commit_ts]
    assert len(large.txns) == 1
    assert large.txns[0].rows == rows
    seen: set[str] = set()
    reader = await rig.stage.bus.read(STREAM, start_seq=1, subjects=(f"changes.{FEED}.row.>",))
    at = messages = 0
    while messages < large.messages:
        for message in await reader.next_batch(20, 5.0):
            attempt = message.headers[changes.H_ATTEMPT]
            seen.add(attempt)
            if attempt != large.attempt:
                continue
            assert message.headers[changes.H_INDEX] == str(messages)
            messages += 1
            for event in msgspec.json.decode(message.data, type=RowMessage).events:
                assert event.after is not None
                assert event.after["id"] == FIRST_ID + at
                at += 1
    await reader.close()
    assert at == rows
    return messages, len(seen - {marker.attempt for marker in rig.markers})


async def play(directory: Path, *, mib: float, rows: int, kills: int, seed: int = 1) -> Outcome:
    async with Stage(directory) as stage:
        await stage.start("registry", "pump-1", "drainer")
        rig = Rig(stage, seed)
        await rig.upstream.create_database()
        table = await rig.upstream.create_table(100, 2)
        for _ in range(WARM_UP // 200):
            await rig.small(table, 200)
        start_ts = await rig.oracle.take(1)
        payload = large_prewrite(table, SCHEMA_VERSION, start_ts, rows, int(mib * (1 << 20)))
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(rig.follow())
            await rig.published(max(rig.committed))
            baseline = resident(stage.pid("drainer"), "VmRSS")
            forget_peak(stage.pid("drainer"))
            watching = tasks.create_task(rig.watch())
            loading = tasks.create_task(rig.load(table))
            killing = tasks.create_task(rig.kill_in_the_middle(kills))
            commit_ts = await rig.large(start_ts, payload)
            del payload
            began = time.monotonic()
            await rig.published(commit_ts)
            took = time.monotonic() - began
            rig.loading = False
            await loading
            await rig.published(max(rig.committed))
            await asyncio.sleep(1)
            after = resident(stage.pid("drainer"), "VmRSS")
            watching.cancel()
            following.cancel()
            await killing
        messages, abandoned = await check(rig, commit_ts, rows)
        stage.check()
    waited = max(rig.marked[ts] - at for ts, at in rig.committed.items())
    return Outcome(
        mib,
        rows,
        baseline,
        rig.peak,
        after,
        took,
        messages,
        abandoned,
        len(rig.committed),
        waited,
        rig.slowest,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=float, default=1536)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        outcome = asyncio.run(
            play(
                Path(directory) / "stage",
                mib=options.mib,
                rows=options.rows,
                kills=options.kills,
                seed=options.seed,
            )
        )
    print(outcome)
    wrong = outcome.wrong(options.kills)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    cases, seed = 1 + outcome.small, f"seed {options.seed}"
    print(last_line("large transactions", cases, seed, wrong=len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
