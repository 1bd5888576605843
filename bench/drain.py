"""Merge, decode and publish: a Drainer behind three Pumps whose answers are ready.

The Pumps are a process that only looks up prebuilt frames (`bench.feeder`), so the figure is the
Drainer's: it shares the cores with that process and the NATS server, which syncs every batch.
The clock runs from the first transaction that it has published: to connect, and to wait until the
membership bucket is trusted, is no part of its pace. Beside it stand two limits of the same run, of
the workload's first frames: merging, decoding and batching alone (`bench.alone`), and the same
atomic batches sent by plain nats-py. Each as plain Python and with the codecs that `make compiled`
builds.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import nats
from nats.aio.client import Client
from nats.js.api import StorageType, StreamConfig

from bench.alone import FEED, Alone, Work, batches
from bench.figure import Figure, Limit, Usage
from bench.frames import Prepared, head, prepare
from bench.limits import settle
from bench.progress import Sample, TooLittle, follow, is_enough, pace
from bench.stage import CLUSTER, Stage, actors_of
from tidelog.messages import JOINING, PUMP, NodeStatus, Register, Registered, decode_reply, encode
from tidelog.ports import Outgoing
from tidelog.real.clock import RealClock
from tidelog.subjects import changes_stream, registry
from tidelog.timestamps import compose
from tidelog_cli import feed as feeds

SECTION = "drain"
PUMPS = 3
COMPILED = Path(__file__).parent.parent / "build" / "compiled" / "site"
ORIGINAL = "30k txn/s, 64k rows/s into files"
TIMEOUT_S = 180.0
LIMIT_S = 2.0
"""Batches are sent alone for about so long."""
HEAD = 24
"""Frames of all Pumps that the limits are measured with: what follows is of the same kind."""
LEAST = 0.5
"""Share of a workload: less has too few batches for a pace."""


class Case(NamedTuple):
    """`aim` in `unit`, with the compiled codecs."""

    rows: int
    columns: int
    transactions: int
    unit: str = "rows/s"
    aim: float | None = None
    tables: int = 1
    pumps: int = PUMPS

    @property
    def name(self) -> str:
        of = f"{self.rows} row{'s' * (self.rows > 1)} of {self.columns} columns"
        of += f", {self.tables} tables" * (self.tables > 1)
        return of + f", {self.pumps} Pump{'s' * (self.pumps > 1)}" * (self.pumps != PUMPS)

    @property
    def key(self) -> str:
        return f"{self.rows}x{self.columns}x{self.tables}x{self.pumps}"


CASES = (
    Case(1, 4, 700_000, "txn/s", 30_000),
    Case(20, 4, 150_000),
    Case(100, 4, 35_000, aim=150_000),
    Case(1000, 4, 3_000),
    Case(1, 16, 450_000, "txn/s"),
    Case(20, 16, 60_000),
    Case(1000, 16, 1_000),
)
"""So much of each that the compiled codecs are busy with it for about LONG_S, or longer."""


def builds() -> list[tuple[str, str]]:
    """(name, site) of each build of the package."""
    if COMPILED.is_dir():
        return [("plain", ""), ("mypyc", str(COMPILED))]
    sys.stderr.write("no compiled wheel in build/compiled: `make compiled` builds it\n")
    return [("plain", "")]


async def measure(
    directory: Path, limits: Mapping[str, Limit], share: float, profile: str = ""
) -> list[Figure]:
    found = await measured(directory, CASES, builds(), share, profile)
    return [figure for _, figure in found]


async def measured(
    directory: Path,
    cases: Sequence[Case],
    sites: Sequence[tuple[str, str]],
    share: float,
    profile: str = "",
) -> list[tuple[Case, Figure]]:
    """A topology for each number of Pumps: one that has joined stays."""
    found: list[tuple[Case, Figure]] = []
    for count in dict.fromkeys(case.pumps for case in cases):
        place, pumps = directory / f"{count}-pumps", [f"fed-{n + 1}" for n in range(count)]
        async with Stage(place, pumps=0, oracle="follow", profile=profile) as stage:
            await stage.start("registry")
            for pump in pumps:
                await join(stage, pump)
            for case in (case for case in cases if case.pumps == count):
                run = Run(stage, place, case, workload(case, pumps, share))
                found += [(case, figure) async for figure in run.figures(sites)]
                del run  # its workload takes hundreds of MB
    return found


def workload(case: Case, pumps: Sequence[str], share: float) -> Prepared:
    first_ts = compose(RealClock().wall_ms()) - (1 << 40)
    txns = int(case.transactions * max(LEAST, share))
    return prepare(CLUSTER, pumps, first_ts, case.columns, txns, case.rows, case.tables)


async def join(stage: Stage, pump: str) -> None:
    """As a Pump does, so that it is a source."""
    status = NodeStatus(pump, "127.0.0.1", JOINING, True, kind=PUMP, epoch=1)
    body = encode(Register(status))
    answer = await stage.bus.request(registry(CLUSTER, "register"), body, timeout_s=30)
    decode_reply(answer.data, Registered)


class Run:
    """One workload: its limits, then the Drainer, for each build of the codecs."""

    def __init__(self, stage: Stage, directory: Path, case: Case, prepared: Prepared) -> None:
        self._stage = stage
        self._case = case
        self._prepared = prepared
        self._key = case.key
        self._work = directory / f"{self._key}.work"
        self._backlog = directory / f"{self._key}.backlog"
        self._history = directory / f"{self._key}.json"

    async def figures(self, sites: Sequence[tuple[str, str]]) -> AsyncIterator[Figure]:
        prepared = self._prepared
        work = Work(prepared.history, head(prepared.backlog, HEAD // self._case.pumps))
        self._work.write_bytes(msgspec.msgpack.encode(work))
        self._backlog.write_bytes(msgspec.msgpack.encode(prepared.backlog))
        self._history.write_bytes(msgspec.json.encode(prepared.history))
        by_nats = await jetstream(self._stage.url, work) * self._each
        for build, site in sites:
            try:
                yield await self._drainer(build, site, self._alone(site), by_nats)
            except TooLittle as error:
                say = f"{self._case.name}, {build}, is left out: {error}; a larger --share\n"
                sys.stderr.write(say)
        for path in (self._work, self._backlog):
            path.unlink()

    @property
    def _each(self) -> int:
        """Units of a transaction."""
        return self._case.rows if self._case.unit == "rows/s" else 1

    def _alone(self, site: str) -> Alone:
        with python_path(site):
            done = subprocess.run(
                [sys.executable, "-m", "bench.alone", str(self._work)],
                check=True,
                stdout=subprocess.PIPE,
            )
        return msgspec.json.decode(done.stdout, type=Alone)

    async def _drainer(self, build: str, site: str, alone: Alone, by_nats: float) -> Figure:
        case = self._case
        samples, usage = await self._samples(f"f{self._key}-{build}", site)
        rate, lasted = pace(samples) * self._each, samples[-1].at - samples[0].at
        seconds = alone.merge_s + alone.decode_s + alone.batch_s
        by_decoding = alone.transactions / seconds * self._each
        stages = ((alone.merge_s, "merge"), (alone.decode_s, "decode"), (alone.batch_s, "batch"))
        each = ", ".join(f"{what} {s / alone.transactions * 1e6:.1f}" for s, what in stages)
        return Figure(
            SECTION,
            f"{case.name}, {build}",
            rate,
            case.unit,
            Limit("the same batches by nats-py", by_nats, case.unit),
            case.aim if build == "mypyc" else None,
            original=ORIGINAL,
            usage=usage,
            note=f"{lasted:.1f} s from the first published transaction; {rate / by_decoding:.2f} of"
            f" decoding alone ({by_decoding / 1000:.0f}k: {each} µs a txn)",
        )

    async def _samples(self, feed: str, site: str) -> tuple[list[Sample], Usage]:
        """What a Drainer of its own has published of this feed."""
        stage, txns = self._stage, self._prepared.txns
        total, first_ts, last_ts = len(txns), txns[0][0], txns[-1][0]
        name = f"drainer-{feed}"
        # It begins behind its tables: their DDLs are part of a beginning, not of the pace.
        await feeds.ensure(stage.bus, CLUSTER, feed, first_ts - 1)
        with self._fed():
            with python_path(site):
                history = f"file:{self._history}"
                await stage.start(name, feed=feed, ddl_history=history)
            url = stage.status_url(name)

            async def done() -> int:
                at = await asyncio.get_running_loop().run_in_executor(None, published, url)
                return max(0, min(total, (at - first_ts) * total // (last_ts - first_ts)))

            found = await self._watched(done, total)
            await stage.stop(name)
        await stage.bus.stream_delete(changes_stream(feed))
        await settle()
        return found

    async def _watched(
        self, done: Callable[[], Awaitable[int]], total: int
    ) -> tuple[list[Sample], Usage]:
        """From the first transaction on, until they are enough or all is done."""
        stage, found = self._stage, list[Sample]()
        cpu = stage.cpu()
        async with aclosing(follow(done, total, stage.check, TIMEOUT_S)) as samples:
            async for sample in samples:
                if not sample.done:
                    continue
                if not found:
                    cpu = stage.cpu()
                found.append(sample)
                if is_enough(found):
                    break
        return found, cpu.usage()

    @contextmanager
    def _fed(self) -> Iterator[None]:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.feeder", self._stage.url, str(self._backlog)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdout.readline()
            self._stage.watch("feeder", process.pid)
            yield
        finally:
            process.stdin.close()
            process.wait(15)
            process.stdout.close()


@contextmanager
def python_path(site: str) -> Iterator[None]:
    """Processes that are started meanwhile find `site` first; empty: what is installed."""
    before = os.environ.get("PYTHONPATH")
    if site:
        os.environ["PYTHONPATH"] = site
    try:
        yield
    finally:
        if before is not None:
            os.environ["PYTHONPATH"] = before
        else:
            os.environ.pop("PYTHONPATH", None)


def published(url: str) -> int:
    return int(actors_of(url)["publisher"]["published_ts"])


async def jetstream(url: str, work: Work) -> float:
    """Transactions per second when their batches are ready, one in flight, by plain nats-py."""
    ready = [(batch.txns, batch.chunks) for batch in batches(work)]
    client = await nats.connect(url)
    config = StreamConfig(
        name="BENCH", subjects=[f"changes.{FEED}.>"], storage=StorageType.FILE, allow_atomic=True
    )
    await client.jetstream().add_stream(config)
    try:
        began = time.perf_counter()
        txns = number = 0
        while time.perf_counter() - began < LIMIT_S:
            count, chunks = ready[number % len(ready)]
            for at, chunk in enumerate(chunks):
                await _send(client, chunk, f"{number}-{at}")
            txns += count
            number += 1
        return txns / (time.perf_counter() - began)
    finally:
        await client.jetstream().delete_stream("BENCH")
        await client.close()


async def _send(client: Client, chunk: Sequence[Outgoing], batch: str) -> None:
    last = len(chunk)
    for number, message in enumerate(chunk, 1):
        headers = dict(message.headers)
        if last > 1:
            headers |= {"Nats-Batch-Id": batch, "Nats-Batch-Sequence": str(number)}
        if number == last > 1:
            headers["Nats-Batch-Commit"] = "1"
        if number in (1, last):
            answer = await client.request(
                message.subject, message.data, headers=headers, timeout=30
            )
            if b'"error"' in answer.data:
                raise RuntimeError(answer.data.decode())
        else:
            await client.publish(message.subject, message.data, headers=headers)
