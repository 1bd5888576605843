"""Pumps and a registry of a few lines each, on any bus, real or simulated."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec
from crc32c import crc32c

from tidelog import messages, subjects
from tidelog.errors import StreamMissing, Unavailable
from tidelog.feeds import Feed, Feeds
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import (
    Beat,
    Consumer,
    Heartbeat,
    Nodes,
    NodeStatus,
    Order,
    Register,
    Registered,
)
from tidelog.ports import Bus, Request
from tidelog_drainer.merge.merger import Txn
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest

CLUSTER = "rig"
FEED = "shop"
FRAME = 256 << 10


class FakePump:
    """Serves pulls from a list; resolved up to `resolved`, or further when it is nudged."""

    def __init__(self, bus: Bus, node: str) -> None:
        self.node = node
        self.txns: list[Txn] = []
        self.resolved = 0
        self.after_ts: dict[str, int] = {}
        self.nudges = 0
        self.purged_below = 0
        self._bus = bus
        self._moved = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._served = await self._bus.serve(
            subjects.pump(CLUSTER, self.node, "pull"), self._on_pull
        )

    async def close(self) -> None:
        await self._served.close()
        for task in self._tasks:
            task.cancel()

    def commit(self, txns: list[Txn], resolved: int) -> None:
        self.txns += txns
        self.resolved = max(self.resolved, resolved)
        self._moved.set()

    async def _on_pull(self, request: Request) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(request))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: Request) -> None:
        asked = PullRequest.FromString(request.data)
        self.after_ts[asked.feed] = asked.after_ts
        if not asked.max_bytes:
            self.nudges += 1
            self.commit([], asked.want_ts)
            request.respond(PullFrame(resolved_ts=self.resolved).SerializeToString())
            return
        if asked.after_ts < self.purged_below:
            message = f"purged below {self.purged_below}"
            request.respond(PullFrame(code="Purged", message=message).SerializeToString())
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(asked.wait_ms / 1000):
                while self.resolved <= asked.after_ts:
                    self._moved.clear()
                    await self._moved.wait()
        request.respond(self._frame(asked).SerializeToString())

    def _frame(self, asked: PullRequest) -> PullFrame:
        frame = PullFrame(resolved_ts=self.resolved, high_ts=self.resolved)
        size = 0
        whole = asked.after_ts
        for commit_ts, start_ts, payload in self.txns:
            if commit_ts <= asked.after_ts or commit_ts > self.resolved:
                continue
            assert isinstance(payload, bytes)
            offset = asked.offset if commit_ts == asked.commit_ts else 0
            piece = payload[offset : offset + FRAME - size]
            frame.txns.append(
                PulledTxn(
                    commit_ts=commit_ts,
                    start_ts=start_ts,
                    payload=piece,
                    offset=offset,
                    total=len(payload),
                    crc=crc32c(payload),
                )
            )
            size += len(piece)
            if offset + len(piece) < len(payload):
                frame.resolved_ts = whole
                break
            whole = commit_ts
            if size >= FRAME:
                frame.resolved_ts = whole
                break
        return frame


class FakeRegistry:
    """Knows the members it was told of, and the consumers of the feed. `tells`: the state that a
    Drainer is in, `tells_to` by node; `heard`: the one that any last said it was in, `said` by
    node, and its `details`."""

    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.consumers: list[Consumer] = []
        self.pumps: list[FakePump] = []
        self.settled = True
        self.silent = False
        """Who is there it tells nobody."""
        self.tells = messages.ONLINE
        self.tells_to: dict[str, str] = {}
        self.heard = ""
        self.said: dict[str, str] = {}
        self.details: dict[str, dict[str, str]] = {}
        self.drainers: dict[str, NodeStatus] = {}
        """As their last heartbeats had them."""
        self.bucket = Bucket(bus, subjects.members_bucket(CLUSTER))

    async def start(self) -> None:
        await self.bucket.create()
        await Feeds(self.bus, CLUSTER).ensure(Feed(FEED))
        await self.bus.serve(subjects.registry(CLUSTER, "nodes"), self._on_nodes)
        await self.bus.serve(subjects.registry(CLUSTER, "register"), self._on_register)
        await self.bus.serve(subjects.registry(CLUSTER, "heartbeat"), self._on_heartbeat)

    async def _on_register(self, request: Request) -> None:
        node = messages.decode(request.data, Register).status.nodeId
        request.respond(messages.encode(Registered(self._tells(node))))

    async def _on_heartbeat(self, request: Request) -> None:
        status = messages.decode(request.data, Heartbeat).status
        self.heard = self.said[status.nodeId] = status.state
        self.details[status.nodeId] = status.detail
        self.drainers[status.nodeId] = status
        request.respond(messages.encode(Beat(True, self._tells(status.nodeId))))

    def _tells(self, node: str) -> str:
        return self.tells_to.get(node, self.tells)

    async def again(self) -> None:
        """The store was lost: write the bucket from what the nodes announce."""
        self.settled = False
        while True:
            try:
                await self.bucket.create()
                for pump in self.pumps:
                    await self.record(pump.node)
            except (Unavailable, StreamMissing):
                await asyncio.sleep(0.1)
                continue
            self.settled = True
            return

    async def _on_nodes(self, request: Request) -> None:
        if self.silent:
            return
        feeds: dict[str, int] = {}
        for pump in self.pumps:
            feeds |= pump.after_ts
        nodes = [NodeStatus(pump.node, state="online") for pump in self.pumps]
        for node, state in self.tells_to.items():
            order = Order({messages.PAUSING: "pause", messages.ONLINE: "resume"}.get(state, ""), 1)
            nodes.append(NodeStatus(node, state=state, kind=messages.DRAINER, order=order))
        nodes += [one for name, one in self.drainers.items() if name not in self.tells_to]
        answer = Nodes(nodes, self.consumers, feeds, settled=self.settled)
        request.respond(messages.encode(answer))

    async def record(self, node: str, state: str = "online", **told: Any) -> None:
        """Write a member, as the registry does before a Pump may take Prewrites."""
        value = msgspec.json.encode(Member(node, state, **told))
        await self.bucket.put(subjects.escape(node), value)

    async def pump(self, node: str) -> FakePump:
        pump = FakePump(self.bus, node)
        await pump.start()
        self.pumps.append(pump)
        await self.record(node)
        return pump
