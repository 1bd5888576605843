"""A workload against fake Pumps, a fake registry and virtual time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from tests.unit.pump_client.fakes import (
    Dice,
    FakeCluster,
    Judge,
    LoopClock,
    MemoryBus,
)
from tidelog import subjects
from tidelog.errors import DiskFull, NotOnline, TidelogError
from tidelog.messages import (
    DdlAppend,
    DdlJobs,
    DdlList,
    Empty,
    TsoReply,
    TsoRequest,
    TxnStatusReply,
    TxnStatusRequest,
    decode,
    decode_reply,
    encode,
    encode_error,
)
from tidelog.ports import Bus, Ports, Request
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.workload import Committed, Workload, WorkloadConfig
from tidelog_proto.binlog_pb2 import Binlog


@dataclass
class Bed:
    """`ledger` and `binlogs` are what a run left."""

    config: WorkloadConfig
    nodes: tuple[str, ...] = ("p1", "p2")
    trouble: float = 0.0
    """Share of binlogs that a Pump refuses, loses, or takes without an answer."""
    full: int = 0
    """So many DDL jobs the registry has no room for; then it has."""
    ledger: list[Committed] = field(default_factory=list)
    jobs: list[bytes] = field(default_factory=list)

    def run(self, seed: int = 1) -> Workload:
        return run_loop(SimLoop(seed), self._main())

    async def _main(self) -> Workload:
        self.bus = MemoryBus()
        await self.serve(self.bus)
        ports = cast(Ports, _SomePorts(clock=LoopClock(), rng=Dice(), bus=self.bus))
        workload = Workload(ports, self.config, self.ledger.append)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(workload.run(stop))
            await workload.finished.wait()
            assert await workload.client.flush(600)
            await self.ask_dead(workload)
            stop.set()
        return workload

    async def serve(self, bus: MemoryBus | Bus) -> None:
        """Pumps and a registry, on any bus."""
        self.cluster = FakeCluster(bus, *self.nodes)
        trouble = random.Random(self.config.seed)
        for pump in self.cluster.pumps.values():
            pump.delay_s = 0.002
            if self.trouble:
                pump.judge = _troubled(trouble, self.trouble)
        await self.cluster.start()
        self._ts = 1 << 40
        await bus.serve(subjects.registry("c", "tso"), self._tso)
        await bus.serve(subjects.registry("c", "ddl-append"), self._append)
        await bus.serve(subjects.registry("c", "ddl-list"), self._list)

    async def ask_dead(self, workload: Workload) -> None:
        """What a Pump does about Prewrites that stay open."""
        ended = {b.start_ts for b in self.binlogs if b.tp}
        for start_ts in sorted({b.start_ts for b in self.binlogs} - ended):
            answer = await self.bus.request(
                subjects.txnstatus("c"), encode(TxnStatusRequest(start_ts)), timeout_s=1
            )
            assert decode_reply(answer.data, TxnStatusReply).state in ("committed", "rolled_back")
        assert workload.outcomes.unasked() == 0

    @property
    def taken(self) -> list[list[Binlog]]:
        return [pump.taken for pump in self.cluster.pumps.values()]

    @property
    def binlogs(self) -> list[Binlog]:
        return [b for pump in self.cluster.pumps.values() for b in pump.taken]

    async def _tso(self, request: Request) -> None:
        self._ts += decode(request.data, TsoRequest).count
        request.respond(encode(TsoReply(self._ts)))

    async def _list(self, request: Request) -> None:
        after = decode(request.data, DdlList).after_job_id
        jobs = [job for job in self.jobs if msgspec.json.decode(job)["id"] > after]
        request.respond(encode(DdlJobs([msgspec.Raw(job) for job in jobs])))

    async def _append(self, request: Request) -> None:
        if self.full:
            self.full -= 1
            request.respond(encode_error(DiskFull("no room")))
            return
        self.jobs.append(bytes(decode(request.data, DdlAppend).job))
        request.respond(encode(Empty()))


def _troubled(dice: random.Random, share: float) -> Judge:
    kinds: list[TidelogError | str] = [NotOnline("not now"), DiskFull("full"), "silent", "lost"]

    def judge(_: Binlog) -> TidelogError | str | None:
        return dice.choice(kinds) if dice.random() < share else None

    return judge


@dataclass
class _SomePorts:
    clock: Any
    rng: Any
    bus: Any
