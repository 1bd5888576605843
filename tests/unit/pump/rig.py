"""A Pump in the simulator, a registry that always says yes, and what a client and a reader do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from tidelog import messages, subjects
from tidelog.compression import unpack
from tidelog.errors import TidelogError
from tidelog.messages import (
    ONLINE,
    Beat,
    Nodes,
    NodeStatus,
    Registered,
    TsoReply,
    TxnStatusReply,
    TxnStatusRequest,
)
from tidelog.ports import Bus, Request
from tidelog.sim import World
from tidelog.timestamps import compose
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.transport_pb2 import (
    PulledTxn,
    PullFrame,
    PullRequest,
    WriteBatch,
    WriteBatchResult,
    WriteResult,
)
from tidelog_pump.config import PumpConfig
from tidelog_pump.service import build

CLUSTER, NODE, CLUSTER_ID = "c", "pump-1", 7
CONFIG = PumpConfig(
    cluster=CLUSTER, node_id=NODE, cluster_id=CLUSTER_ID, oracle="follow", segment_bytes=64 << 10
)


def prewrite(start_ts: int, value: bytes = b"rows", key: bytes = b"key") -> bytes:
    binlog = Binlog(tp=0, start_ts=start_ts, commit_ts=0, prewrite_key=key, prewrite_value=value)  # type: ignore[arg-type]
    return binlog.SerializeToString()


def commit(start_ts: int, commit_ts: int) -> bytes:
    return Binlog(tp=1, start_ts=start_ts, commit_ts=commit_ts).SerializeToString()  # type: ignore[arg-type]


def rollback(start_ts: int) -> bytes:
    return Binlog(tp=2, start_ts=start_ts).SerializeToString()  # type: ignore[arg-type]


class Registry:
    """Says online to everybody, allocates timestamps, knows what became of transactions."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self.state = ONLINE
        self.oracle_answers = True
        self.beats: list[messages.Heartbeat] = []
        self.verdicts: dict[int, TxnStatusReply] = {}
        self.asked: list[TxnStatusRequest] = []
        self.safe_point_requests: list[messages.SafePointRequest] = []
        self.safe_point = 0
        self.consumers: list[messages.Consumer] = []
        self.pumps: list[str] | None = None
        """The Pumps that `nodes` tells of; None and no safe point: nobody answers."""
        self.left: list[NodeStatus] = []
        """And those that it tells of as they are here."""
        self._wall_ms = wall_ms
        self._last = 0

    async def start(self, bus: Bus) -> None:
        await bus.serve(subjects.registry(CLUSTER, "register"), self._register)
        await bus.serve(subjects.registry(CLUSTER, "heartbeat"), self._beat)
        await bus.serve(subjects.registry(CLUSTER, "nodes"), self._nodes)
        await bus.serve(subjects.registry(CLUSTER, "safepoint"), self._safe_point)
        await bus.serve(subjects.registry(CLUSTER, "tso"), self._tso)
        await bus.serve(subjects.txnstatus(CLUSTER), self._status)

    def allocate(self) -> int:
        self._last = max(self._last + 1, compose(self._wall_ms()))
        return self._last

    async def _register(self, request: Request) -> None:
        request.respond(messages.encode(Registered(self.state)))

    async def _beat(self, request: Request) -> None:
        self.beats.append(messages.decode(request.data, messages.Heartbeat))
        request.respond(messages.encode(Beat(known=True, state=self.state)))

    async def _nodes(self, request: Request) -> None:
        if self.pumps is not None or self.safe_point:
            nodes = [NodeStatus(node, state=ONLINE, isAlive=True) for node in self.pumps or ()]
            known = Nodes([*nodes, *self.left], self.consumers, safe_point=self.safe_point)
            request.respond(messages.encode(known))

    async def _safe_point(self, request: Request) -> None:
        self.safe_point_requests.append(messages.decode(request.data, messages.SafePointRequest))
        request.respond(messages.encode(messages.SafePoint(self.safe_point)))

    async def _tso(self, request: Request) -> None:
        if self.oracle_answers:
            count = messages.decode(request.data, messages.TsoRequest).count
            last = [self.allocate() for _ in range(count)][-1]
            request.respond(messages.encode(TsoReply(last)))

    async def _status(self, request: Request) -> None:
        asked = messages.decode(request.data, TxnStatusRequest)
        self.asked.append(asked)
        reply = self.verdicts.get(asked.start_ts, TxnStatusReply("undecided"))
        request.respond(messages.encode(reply))


class Client:
    """Writes to one Pump and reads from it, over the bus."""

    def __init__(self, bus: Bus, node: str = NODE) -> None:
        self.bus = bus
        self.node = node
        self.cluster_id = CLUSTER_ID
        self.timeout_s = 5.0

    async def write(self, *payloads: bytes, cluster_id: int | None = None) -> list[WriteResult]:
        cluster_id = self.cluster_id if cluster_id is None else cluster_id
        body = WriteBatch(cluster_id=cluster_id, payloads=payloads).SerializeToString()
        subject = subjects.pump(CLUSTER, self.node, "write")
        answer = await self.bus.request(subject, body, timeout_s=self.timeout_s)
        return list(WriteBatchResult.FromString(answer.data).results)

    async def done(self, *payloads: bytes) -> None:
        """Write, and every payload must be taken."""
        codes = [f"{r.code}: {r.message}" for r in await self.write(*payloads) if r.code]
        assert not codes, codes

    async def pull(self, after_ts: int, **fields: Any) -> PullFrame:
        wanted: dict[str, Any] = {"max_bytes": 512 << 10, "wait_ms": 200, "feed": "f"} | fields
        body = PullRequest(after_ts=after_ts, **wanted).SerializeToString()
        subject = subjects.pump(CLUSTER, self.node, "pull")
        answer = await self.bus.request(subject, body, timeout_s=self.timeout_s)
        return unpack(answer.data)

    async def pull_up_to(self, commit_ts: int, after_ts: int = 0, **fields: Any) -> list[PulledTxn]:
        """Pull until resolved_ts reaches `commit_ts`; whole transactions, pieces joined."""
        found: list[PulledTxn] = []
        async with asyncio.timeout(30):
            while after_ts < commit_ts:
                frame = await self.pull(after_ts, **fields)
                assert not frame.code, f"{frame.code}: {frame.message}"
                while frame.txns and frame.txns[-1].offset + len(frame.txns[-1].payload) < (
                    frame.txns[-1].total
                ):
                    assert frame.resolved_ts == after_ts
                    cut = frame.txns[-1]
                    at = cut.offset + len(cut.payload)
                    rest = await self.pull(after_ts, commit_ts=cut.commit_ts, offset=at, **fields)
                    assert not rest.code, f"{rest.code}: {rest.message}"
                    rest.txns[0].payload = cut.payload + rest.txns[0].payload
                    rest.txns[0].offset = 0
                    frame = rest
                found += frame.txns
                after_ts = frame.resolved_ts
        return found

    async def control(self, verb: str, ts: int = 0) -> dict[str, Any]:
        body = msgspec.json.encode({"verb": verb, "ts": ts})
        subject = subjects.pump(CLUSTER, self.node, "control")
        answer = await self.bus.request(subject, body, timeout_s=self.timeout_s)
        return msgspec.json.decode(answer.data, type=dict[str, Any])

    async def until_state(self, start_ts: int, state: str) -> None:
        """Until the Pump says this of a transaction."""
        async with asyncio.timeout(20):
            while True:
                if (await self.control("inspect", start_ts))["state"] == state:
                    return
                await asyncio.sleep(0.05)

    async def until_online(self) -> None:
        """Until a probe is taken."""
        async with asyncio.timeout(30):
            while True:
                try:
                    if not (await self.write(b""))[0].code:
                        return
                except TidelogError:
                    pass
                await asyncio.sleep(0.05)


async def start(world: World, config: PumpConfig = CONFIG) -> tuple[Registry, Client]:
    """A registry and a Pump that is online."""
    registry = Registry(world.clock().wall_ms)
    ports = world.ports("registry")
    await registry.start(ports.bus)
    world.node(config.node_id).start(build, config)
    client = Client(ports.bus, config.node_id)
    await client.until_online()
    return registry, client


async def join(world: World, config: PumpConfig) -> Client:
    """One more Pump."""
    world.node(config.node_id).start(build, config)
    client = Client(world.ports("registry").bus, config.node_id)
    await client.until_online()
    return client


def ts_now(world: World, logical: int = 0) -> int:
    """A timestamp of the present virtual instant."""
    return compose(world.clock().wall_ms(), logical)
