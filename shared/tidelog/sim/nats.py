"""The simulated NATS server: subjects, queue groups, streams; its links, its restarts.

Core messages keep their order on each link and are lost with it. Streams survive a restart of the
server; `delete_store` and `roll_back` do what a lost or restored volume does.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeVar

from tidelog.errors import StreamMissing
from tidelog.ports import StreamConfig, StreamState
from tidelog.sim.clock import START_MS
from tidelog.sim.faults import Injected, NetFaults
from tidelog.sim.streams import SimStream, matches
from tidelog.sim.trace import Trace

if TYPE_CHECKING:
    from tidelog.sim.bus import SimBus, SimSubscription

T = TypeVar("T")

LATE_S = 1.0


class SimNats:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: random.Random,
        trace: Trace,
        faults: NetFaults | None = None,
    ) -> None:
        self.loop = loop
        self.rng = rng
        self.trace = trace
        self.faults = faults or NetFaults()
        self.up = True
        self.streams: dict[str, SimStream] = {}
        self._clients: dict[int, SimBus] = {}
        self._subscriptions: dict[int, SimSubscription] = {}
        self._exact: dict[str, dict[int, SimSubscription]] = {}
        self._patterns: dict[int, SimSubscription] = {}
        self._serial = 0
        self._created = 0
        self._stream_waiters: dict[str, list[asyncio.Future[None]]] = {}

    def serial(self) -> int:
        self._serial += 1
        return self._serial

    # Links ---------------------------------------------------------------------------------

    def connect(self, serial: int, client: SimBus) -> None:
        self._clients[serial] = client

    def disconnect(self, serial: int) -> None:
        """The client is gone for good: its subscriptions end."""
        self._clients.pop(serial, None)
        for key, subscription in list(self._subscriptions.items()):
            if subscription.client_serial == serial:
                self.unsubscribe(key)

    def stop(self) -> None:
        """The server process ends. Every link breaks; streams keep what was acked."""
        self.up = False
        self.trace.event("nats", "stop")
        self.trace.inject("nats", Injected.SERVER_DOWN)
        for client in list(self._clients.values()):
            client.link_broken()
        self._wake_all()

    def start(self) -> None:
        self.up = True
        self.trace.event("nats", "start")
        for client in list(self._clients.values()):
            client.link_possible()
        self._wake_all()

    # Core ----------------------------------------------------------------------------------

    def subscribe(self, subscription: SimSubscription) -> int:
        key = self.serial()
        self._subscriptions[key] = subscription
        if "*" in subscription.subject or subscription.subject.endswith(">"):
            self._patterns[key] = subscription
        else:
            self._exact.setdefault(subscription.subject, {})[key] = subscription
        return key

    def unsubscribe(self, key: int) -> None:
        subscription = self._subscriptions.pop(key, None)
        self._patterns.pop(key, None)
        if subscription is not None:
            peers = self._exact.get(subscription.subject, {})
            peers.pop(key, None)
            if not peers:
                self._exact.pop(subscription.subject, None)

    def route(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
        answer: Callable[[bytes, Mapping[str, str]], None] | None,
    ) -> int:
        """Hand a message to all interested: one member of each queue group. Returns how many."""
        plain: list[SimSubscription] = []
        groups: dict[str, list[SimSubscription]] = {}
        for subscription in self._interested(subject):
            if subscription.queue:
                groups.setdefault(subscription.queue, []).append(subscription)
            else:
                plain.append(subscription)
        for queue in sorted(groups):
            members = groups[queue]
            plain.append(members[self.rng.randrange(len(members))])
        for subscription in plain:
            subscription.client.deliver(subscription, subject, data, headers, answer)
        return len(plain)

    def _interested(self, subject: str) -> list[SimSubscription]:
        found = list(self._exact.get(subject, {}).values())
        found.extend(s for s in self._patterns.values() if matches(s.subject, subject))
        return found

    # Streams -------------------------------------------------------------------------------

    def stream(self, name: str) -> SimStream:
        stream = self.streams.get(name)
        if stream is None:
            raise StreamMissing(f"there is no stream {name}")
        stream.expire(self.loop.time())
        return stream

    def create(self, config: StreamConfig) -> StreamState:
        stream = self.streams.get(config.name)
        if stream is None:
            self._created += 1
            created = self._date()
            stream = self.streams[config.name] = SimStream(config, created)
            self.trace.event("nats", "stream.create", config.name)
            self.wake(config.name)
        return stream.state()

    def _date(self) -> str:
        """As the server writes it, no two alike: readers judge a bucket's age by it."""
        micros = START_MS * 1000 + int(self.loop.time() * 1_000_000) + self._created
        return datetime.fromtimestamp(micros / 1_000_000, UTC).isoformat()

    def delete(self, name: str) -> None:
        if self.streams.pop(name, None) is not None:
            self.trace.event("nats", "stream.delete", name)
            self.wake(name)

    def delete_store(self) -> None:
        """The whole store directory is gone."""
        self.trace.event("nats", "store.delete")
        self.trace.inject("nats", Injected.STORE_DELETED)
        self.streams.clear()
        self._wake_all()

    def copy_store(self) -> dict[str, SimStream]:
        return {name: stream.copy() for name, stream in self.streams.items()}

    def roll_back(self, store: dict[str, SimStream]) -> None:
        """Put an older copy of the store in place, as a restored backup would."""
        self.trace.event("nats", "store.roll_back")
        self.trace.inject("nats", Injected.ROLLED_BACK)
        self.streams = {name: stream.copy() for name, stream in store.items()}
        self._wake_all()

    def wake(self, name: str) -> None:
        for waiter in self._stream_waiters.pop(name, []):
            settle(waiter)

    def watch(self, name: str) -> asyncio.Future[None]:
        """Done at the next change of a stream, or of the server."""
        waiter: asyncio.Future[None] = self.loop.create_future()
        self._stream_waiters.setdefault(name, []).append(waiter)
        return waiter

    def _wake_all(self) -> None:
        for name in list(self._stream_waiters):
            self.wake(name)


def settle(future: asyncio.Future[T], value: T | None = None) -> None:
    """Give a future its result unless it has one."""
    if not future.done():
        future.set_result(value)  # type: ignore[arg-type]


def fail(future: asyncio.Future[T], error: Exception) -> None:
    """Give a future an error unless it has a result."""
    if not future.done():
        future.set_exception(error)
