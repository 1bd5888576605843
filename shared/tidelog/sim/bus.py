"""The simulated Bus port: one process's connection to the simulated server.

Calls while disconnected wait for the link until their deadline. A call cut off by a lost link, or
by the chance `unknown`, may have happened, may not have, or may happen a little later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from tidelog.actor import current_cell
from tidelog.errors import (
    DeadlineExceeded,
    MessageTooLarge,
    NoResponders,
    TidelogError,
    Unavailable,
)
from tidelog.messages import encode_error
from tidelog.ports import (
    Handler,
    Headers,
    Message,
    Outgoing,
    StreamConfig,
    StreamReader,
    StreamState,
    Subscription,
)
from tidelog.sim.faults import Injected
from tidelog.sim.life import Life
from tidelog.sim.nats import LATE_S, SimNats, fail, settle
from tidelog.sim.stream_reader import SimStreamReader
from tidelog.sim.streams import MAX_PAYLOAD, message_bytes

T = TypeVar("T")
Answer = Callable[[bytes, Mapping[str, str]], None]

PENDING = 65_536
"""Messages a subscription holds before the server drops for it, as a slow consumer."""
RECONNECT_S = 0.2
CALL_S = 10.0


class SimBus:
    def __init__(self, nats: SimNats, life: Life) -> None:
        self._nats = nats
        self._life = life
        self._loop = nats.loop
        self._serial = nats.serial()
        self._epoch = 0
        self._linked = nats.up
        self.partitioned = False
        self._closed = False
        self._busy_up = 0.0
        self._busy_down = 0.0
        self._waiting: list[asyncio.Future[None]] = []
        self._sent: dict[asyncio.Future[Any], None] = {}
        self._unsent: list[Callable[[], object]] = []
        nats.connect(self._serial, self)

    # The link ------------------------------------------------------------------------------

    @property
    def connected(self) -> bool:
        return self._linked and self._life.alive

    @property
    def max_payload(self) -> int:
        return MAX_PAYLOAD

    @property
    def epoch(self) -> int:
        """Changes with every loss of the link."""
        return self._epoch

    def partition(self, cut: bool) -> None:
        """Cut this process off from the server, or let it back."""
        self.partitioned = cut
        self._nats.trace.event(self._life.name, "partition" if cut else "heal")
        if cut:
            self._nats.trace.inject(self._life.name, Injected.CUT)
            self.link_broken()
        else:
            self.link_possible()

    def link_broken(self) -> None:
        """Everybody whose call was under way is told at once; its outcome is unknown."""
        self._epoch += 1
        self._linked = False
        sent, self._sent = self._sent, {}
        for future in sent:
            fail(future, Unavailable("the connection was lost before the answer"))

    def link_possible(self) -> None:
        delay = self._nats.rng.random() * RECONNECT_S
        self._loop.call_later(delay, self._relink, self._epoch)

    def _relink(self, epoch: int) -> None:
        if epoch != self._epoch or self.partitioned or not self._nats.up or self._closed:
            return
        self._linked = True
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            settle(future)
        unsent, self._unsent = self._unsent, []
        for action in unsent:
            self._up(action)

    async def linked(self, timeout_s: float) -> None:
        """Wait for the link. Raises Unavailable."""
        deadline = self._loop.time() + timeout_s
        while not self._linked or self._closed:
            self._life.check()
            left = deadline - self._loop.time()
            if left <= 0 or self._closed:
                raise Unavailable("not connected")
            future: asyncio.Future[None] = self._loop.create_future()
            self._waiting.append(future)
            timer = self._loop.call_later(left, settle, future)
            try:
                await future
            finally:
                timer.cancel()
                if future in self._waiting:
                    self._waiting.remove(future)
        self._life.check()

    def _delay(self) -> float:
        """Seconds one way."""
        faults = self._nats.faults
        seconds = faults.delay(self._nats.rng)
        if seconds > 2 * faults.delay_s:
            self._nats.trace.inject(self._life.name, Injected.DELAYED, f"by {seconds:.3f} s")
        return seconds

    def _up(self, action: Callable[[], object]) -> None:
        """Run `action` at the server after this link's delay, in order, unless the link breaks;
        without a link it waits for the next one."""
        if not self._linked:
            if len(self._unsent) < PENDING:
                self._unsent.append(action)
            return
        at = max(self._busy_up, self._loop.time() + self._delay())
        self._busy_up = at
        self._loop.call_at(at, self._arrive, self._epoch, action)

    def _down(self, action: Callable[[], object]) -> None:
        """Run `action` here after the delay, in order, unless the link breaks."""
        at = max(self._busy_down, self._loop.time() + self._delay())
        self._busy_down = at
        self._loop.call_at(at, self._arrive, self._epoch, action)

    def _arrive(self, epoch: int, action: Callable[[], object]) -> None:
        if epoch == self._epoch and self._linked and self._life.alive:
            action()

    def kill(self) -> None:
        """The process died: the server sees its socket closed."""
        self._epoch += 1
        self._linked = False
        self._closed = True
        self._nats.disconnect(self._serial)

    # Core ----------------------------------------------------------------------------------

    async def publish(self, subject: str, data: bytes, headers: Headers | None = None) -> None:
        self._life.check()
        carried = dict(headers or {})
        self._check_size(subject, data, carried)
        self._nats.trace.event(self._life.name, "publish", f"{subject} {len(data)}")
        self._up(lambda: self._routed(subject, data, carried, None))

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: Headers | None = None
    ) -> Message:
        self._life.check()
        carried = dict(headers or {})
        self._check_size(subject, data, carried)
        deadline = self._loop.time() + timeout_s
        await self.linked(timeout_s)
        trace, name = self._nats.trace, self._life.name
        trace.event(name, "request", f"{subject} {len(data)}", data)
        future: asyncio.Future[Message | None] = self._loop.create_future()

        def answered(reply: bytes, reply_headers: Mapping[str, str]) -> None:
            message = Message(subject, reply, reply_headers)
            self._down(lambda: settle(future, message))

        def at_server() -> None:
            if not self._routed(subject, data, carried, answered):
                self._down(lambda: fail(future, NoResponders(f"nobody serves {subject}")))

        self._up(at_server)
        self._sent[future] = None
        timer = self._loop.call_at(deadline, settle, future, None)
        try:
            reply = await future
        finally:
            timer.cancel()
            self._sent.pop(future, None)
        self._life.check()
        if reply is None:
            raise DeadlineExceeded(f"no answer on {subject} within {timeout_s} s")
        trace.glimpse(name, "answered", subject, data)
        trace.glimpse(name, "answer", subject, reply.data)
        return reply

    async def serve(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        await self.linked(CALL_S)
        subscription = SimSubscription(self, self._serial, subject, queue, handler)
        try:
            await self._call(CALL_S, subscription.attach)
        except TidelogError:
            await subscription.close()
            raise
        return subscription

    def _routed(
        self, subject: str, data: bytes, headers: Mapping[str, str], answer: Answer | None
    ) -> bool:
        """At the server: lose, pass on, or pass on twice. False: nobody is there to hear."""
        nats = self._nats
        if nats.faults.loss and nats.rng.random() < nats.faults.loss:
            nats.trace.inject(self._life.name, Injected.LOST, subject)
            return True
        receivers = nats.route(subject, data, headers, answer)
        if nats.faults.duplicate and nats.rng.random() < nats.faults.duplicate:
            nats.trace.inject(self._life.name, Injected.DUPLICATED, subject)
            nats.route(subject, data, headers, answer)
        return receivers > 0

    def deliver(
        self,
        subscription: SimSubscription,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
        answer: Answer | None,
    ) -> None:
        """From the server down to one of our subscriptions."""
        request = SimRequest(self, subject, data, headers, answer)
        self._down(lambda: subscription.put(request))

    def respond(self, answer: Answer, data: bytes, headers: Mapping[str, str]) -> None:
        if message_bytes(data, dict(headers)) > MAX_PAYLOAD:
            data, headers = encode_error(MessageTooLarge(f"an answer of {len(data)} bytes")), {}
        if self._life.alive and self._linked:
            self._up(lambda: answer(data, headers))

    def unsubscribe(self, key: int) -> None:
        self._nats.unsubscribe(key)

    def subscribe(self, subscription: SimSubscription) -> int:
        return self._nats.subscribe(subscription)

    def dropped(self) -> None:
        self._nats.trace.note(self._life.name, "dropped for a slow consumer")

    def refused(self, error: TidelogError) -> None:
        self._nats.trace.note(self._life.name, f"handler raised {type(error).__name__}", error)

    # Streams -------------------------------------------------------------------------------

    async def stream_create(self, config: StreamConfig) -> StreamState:
        return await self._call(CALL_S, lambda: self._nats.create(config), changes=True)

    async def stream_state(self, name: str) -> StreamState | None:
        def state() -> StreamState | None:
            stream = self._nats.streams.get(name)
            if stream is None:
                return None
            stream.expire(self._loop.time())
            return stream.state()

        return await self._call(CALL_S, state)

    async def stream_delete(self, name: str) -> None:
        await self._call(CALL_S, lambda: self._nats.delete(name), changes=True)

    async def append(
        self,
        stream: str,
        messages: Sequence[Outgoing],
        *,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        timeout_s: float = 10.0,
    ) -> int:
        self._life.check()
        for message in messages:
            self._check_size(message.subject, message.data, message.headers)

        def append() -> int:
            found = self._nats.stream(stream)
            if found.full:
                self._nats.trace.inject(self._life.name, Injected.STREAM_FULL, stream)
            last = found.append(
                messages, expected_last_seq, expected_last_subject_seq, self._loop.time()
            )
            what = f"{stream} {last} {len(messages)}"
            self._nats.trace.event(self._life.name, "append", what)
            self._nats.wake(stream)
            return last

        return await self._call(timeout_s, append, changes=True)

    async def last_message(self, stream: str, subject: str) -> Message | None:
        return await self._call(CALL_S, lambda: self._nats.stream(stream).last_message(subject))

    async def read(
        self, stream: str, *, start_seq: int, subjects: tuple[str, ...] = ()
    ) -> StreamReader:
        reader = SimStreamReader(self._nats, self, self._life, stream, max(1, start_seq), subjects)
        await self._call(CALL_S, reader.check)
        return reader

    async def close(self) -> None:
        if self._closed:
            return
        self.kill()
        sent, self._sent = self._sent, {}
        for future in sent:
            fail(future, Unavailable("the bus is closed"))
        for waiting in self._waiting:
            settle(waiting)

    async def hop(self) -> None:
        """The time of one way between here and the server."""
        await asyncio.sleep(self._delay())
        self._life.check()

    async def _call(self, timeout_s: float, action: Callable[[], T], *, changes: bool = False) -> T:
        """Do something at the server and bring the result back: one round trip, in link order."""
        await self.linked(timeout_s)
        nats, rng = self._nats, self._nats.rng
        future: asyncio.Future[T] = self._loop.create_future()
        epoch = self._epoch
        done = False

        def perform(reply: bool) -> None:
            nonlocal done
            done = True
            try:
                result = action()
            except Exception as error:  # noqa: BLE001 (the server's refusal travels back)
                problem = error
                if reply:
                    self._down(lambda: fail(future, problem))
            else:
                if reply:
                    self._down(lambda: settle(future, result))

        unknown = changes and bool(nats.faults.unknown) and rng.random() < nats.faults.unknown
        if unknown:
            nats.trace.inject(self._life.name, Injected.UNKNOWN)
        if not unknown or rng.random() < 0.5:
            self._up(lambda: perform(not unknown))
        timer = self._loop.call_later(
            timeout_s, fail, future, DeadlineExceeded("no answer from the server in time")
        )
        self._sent[future] = None
        try:
            return await future
        finally:
            timer.cancel()
            self._sent.pop(future, None)
            if changes and not done and epoch != self._epoch and rng.random() < nats.faults.late:
                # What was in the broken connection's buffers may still reach the server.
                nats.trace.inject(self._life.name, Injected.LATE)
                self._loop.call_later(rng.random() * LATE_S, _late, nats, perform)
            self._life.check()

    def _check_size(self, subject: str, data: bytes, headers: Mapping[str, str]) -> None:
        if message_bytes(data, dict(headers)) > MAX_PAYLOAD:
            raise MessageTooLarge(f"{len(data)} bytes for {subject}")


class SimRequest:
    def __init__(
        self,
        bus: SimBus,
        subject: str,
        data: bytes,
        headers: Mapping[str, str],
        answer: Answer | None,
    ) -> None:
        self._bus = bus
        self.subject = subject
        self.data = data
        self.headers = headers
        self._answer = answer

    @property
    def wants_reply(self) -> bool:
        return self._answer is not None

    def respond(self, data: bytes, headers: Headers | None = None) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            self._bus.respond(answer, data, dict(headers or {}))


class SimSubscription:
    """Calls the handler for one message after the other."""

    def __init__(
        self, client: SimBus, client_serial: int, subject: str, queue: str, handler: Handler
    ) -> None:
        self.client = client
        self.client_serial = client_serial
        self.subject = subject
        self.queue = queue
        self._handler = handler
        self._key = 0
        self._waiting: deque[SimRequest] = deque()
        self._more: asyncio.Future[None] | None = None
        work, name = self._run(), f"serve {subject}"
        cell = current_cell.get()
        # It ends with the actor, also when that crashes: a fresh instance serves again.
        self._task: asyncio.Task[None] = (
            cell.actor.spawn(work, name)
            if cell is not None
            else asyncio.get_running_loop().create_task(work, name=name)
        )

    def attach(self) -> None:
        self._key = self.client.subscribe(self)

    def put(self, request: SimRequest) -> None:
        if len(self._waiting) >= PENDING:
            self.client.dropped()
            return
        self._waiting.append(request)
        if self._more is not None and not self._more.done():
            self._more.set_result(None)

    async def close(self) -> None:
        self.client.unsubscribe(self._key)
        self._task.cancel()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while True:
                while self._waiting:
                    await self._handle(self._waiting.popleft())
                self._more = loop.create_future()
                await self._more
        finally:
            self.client.unsubscribe(self._key)

    async def _handle(self, request: SimRequest) -> None:
        try:
            await self._handler(request)
        except TidelogError as error:
            self.client.refused(error)
            request.respond(encode_error(error))


def _late(nats: SimNats, perform: Callable[[bool], None]) -> None:
    if nats.up:
        perform(False)
