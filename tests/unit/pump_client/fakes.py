"""A bus in memory and Pumps that keep what they are told, for tests of the client alone."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from tidelog import messages, subjects
from tidelog.errors import DeadlineExceeded, MessageTooLarge, NoResponders, TidelogError
from tidelog.messages import Nodes, NodeStatus
from tidelog.ports import Bus, Handler, Headers, Message, Request, Subscription
from tidelog_proto.binlog_pb2 import Binlog, BinlogType
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult, WriteResult


class LoopClock:
    """The Clock port on whatever loop runs."""

    def wall_ms(self) -> int:
        return 1_795_219_200_000 + int(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class MemoryRequest:
    def __init__(self, subject: str, data: bytes, answer: asyncio.Future[bytes] | None) -> None:
        self.subject = subject
        self.data = data
        self.headers: Headers = {}
        self._answer = answer

    @property
    def wants_reply(self) -> bool:
        return self._answer is not None

    def respond(self, data: bytes, headers: Headers | None = None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(data)


class MemoryBus:
    """The core half of the Bus port."""

    max_payload = 1 << 20
    connected = True

    def __init__(self) -> None:
        self._served: dict[str, Handler] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        self._served[subject] = handler
        return MemorySubscription(self._served, subject)

    async def publish(self, subject: str, data: bytes, headers: Headers | None = None) -> None:
        for pattern, handler in list(self._served.items()):
            if re.fullmatch(re.escape(pattern).replace(">", ".+"), subject):
                await handler(MemoryRequest(subject, data, None))

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: Headers | None = None
    ) -> Message:
        if len(data) > self.max_payload:
            raise MessageTooLarge(f"{len(data)} bytes")
        handler = self._served.get(subject)
        if handler is None:
            raise NoResponders(f"nobody serves {subject}")
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        await handler(MemoryRequest(subject, data, answer))
        if answer.done():
            return Message(subject, answer.result())
        try:
            async with asyncio.timeout(timeout_s):
                return Message(subject, await answer)
        except TimeoutError:
            raise DeadlineExceeded(f"no answer on {subject}") from None


class MemorySubscription:
    def __init__(self, served: dict[str, Handler], subject: str) -> None:
        self._served = served
        self._subject = subject

    async def close(self) -> None:
        self._served.pop(self._subject, None)


Judge = Callable[[Binlog], TidelogError | str | None]
"""What a Pump does with a binlog: None takes it; an error refuses it; "silent" takes it without an
answer, "lost" neither takes nor answers."""


@dataclass
class FakePump:
    """Keeps binlogs in order of arrival; `sizes` counts payloads per message."""

    node: str
    judge: Judge = lambda _: None
    taken: list[Binlog] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    probes: int = 0
    probe_refusal: TidelogError | None = None
    delay_s: float = 0.0
    journal: list[Binlog] = field(default_factory=list)
    """What all Pumps of a cluster took, in order."""

    async def handle(self, request: Request) -> None:
        batch = WriteBatch.FromString(request.data)
        results: list[WriteResult] = []
        answered = True
        self.sizes.append(len(batch.payloads))
        for payload in batch.payloads:
            if not payload:
                self.probes += 1
                results.append(_result(self.probe_refusal))
                continue
            binlog = Binlog.FromString(payload)
            verdict = self.judge(binlog)
            answered = answered and not isinstance(verdict, str)
            if isinstance(verdict, TidelogError):
                results.append(_result(verdict))
                continue
            if verdict != "lost":
                self.taken.append(binlog)
                self.journal.append(binlog)
            results.append(WriteResult())
        if answered:
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
            request.respond(WriteBatchResult(results=results).SerializeToString())

    def of(self, start_ts: int) -> list[str]:
        """What it took of one transaction: "Prewrite", "Commit", "Rollback"."""
        return [BinlogType.Name(b.tp) for b in self.taken if b.start_ts == start_ts]


def _result(error: TidelogError | None) -> WriteResult:
    if error is None:
        return WriteResult()
    return WriteResult(code=type(error).__name__, message=error.message, definite=error.definite)


class FakeCluster:
    """A registry's list, and its Pumps, on any bus."""

    def __init__(self, bus: MemoryBus | Bus, *nodes: str, name: str = "c") -> None:
        self.bus = bus
        self.name = name
        self.journal: list[Binlog] = []
        self.pumps = {node: FakePump(node, journal=self.journal) for node in nodes}
        self.states = dict.fromkeys(nodes, messages.ONLINE)
        self.hosts = dict.fromkeys(nodes, "")
        self.scores = dict.fromkeys(nodes, 0)
        self.labels: dict[str, dict[str, str]] = {}
        self.settled = True
        self.asked = 0
        """How often a client wanted the list."""

    @property
    def port(self) -> Bus:
        """Only the core half of the port is there, which is what a client uses."""
        return cast(Bus, self.bus)

    async def start(self) -> None:
        await self.bus.serve(subjects.registry(self.name, "nodes"), self._nodes)
        for node in self.pumps:
            await self.serve(node)

    async def serve(self, node: str) -> Subscription:
        subject = subjects.pump(self.name, node, "write")
        return await self.bus.serve(subject, self.pumps[node].handle)

    async def announce(self) -> None:
        await self.bus.publish(subjects.registry_event(self.name, "pump", "p1"), b"{}")

    async def _nodes(self, request: Request) -> None:
        self.asked += 1
        nodes = [
            NodeStatus(
                node,
                host=self.hosts[node],
                state=state,
                isAlive=True,
                score=self.scores[node],
                label=self.labels.get(node),
            )
            for node, state in self.states.items()
        ]
        request.respond(messages.encode(Nodes(nodes, settled=self.settled)))


class Dice:
    """An Rng port without surprises."""

    def random(self) -> float:
        return 0.5

    def randbelow(self, bound: int) -> int:
        return bound // 2

    def token(self) -> str:
        return "t"
