"""The Bus port on NATS core and JetStream (nats-py 2.16, nats-server >= 2.12).

One connection, one inbox, one table of who waits for which answer. Callers never write to the
connection: they queue commands and wait for futures of this module, so cancelling one is safe
(library-traps G8, G9). When the connection is lost, everybody who waits is told at once.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

import msgspec
import structlog
from nats import errors as nats_errors

from tidelog.actor import current_cell
from tidelog.errors import (
    DeadlineExceeded,
    MessageTooLarge,
    NoResponders,
    StreamMissing,
    Unavailable,
)
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
from tidelog.real import bus_metrics as metrics
from tidelog.real import jetstream
from tidelog.real.bus_serve import ServedSubject
from tidelog.real.nats_client import SinkClient, header_bytes, parse_headers
from tidelog.real.stream_reader import JetStreamReader

log = structlog.get_logger()

OUTBOX_BYTES = 8 << 20
"""What callers may have queued for sending before they wait."""
OUTBOX_HARD_BYTES = 64 << 20
"""Beyond this even answers are dropped, and counted."""
API_TIMEOUT_S = 10.0
WATCH_S = 1.0
NO_RESPONDERS = 503


class Waiting:
    """Somebody waits for answers to one request, or to the messages of one append."""

    __slots__ = ("future", "sent", "token")

    def __init__(self, token: str) -> None:
        self.token = token
        self.future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self.sent = False


class _Command(msgspec.Struct, frozen=True, gc=False):
    subject: str
    data: bytes
    headers: dict[str, str]
    reply: str
    size: int
    waiting: Any = None


class NatsBus:
    """`await NatsBus.connect(url)`; `url` may list several servers, separated by commas."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._client = SinkClient()
        self._prefix = f"_INBOX.{secrets.token_hex(11)}."
        self._waiting: dict[str, Waiting] = {}
        self._next_token = 0
        self._outbox: deque[_Command] = deque()
        self._outbox_bytes = 0
        self._room: deque[asyncio.Future[None]] = deque()
        self._work = asyncio.Event()
        self._idle = asyncio.Event()
        self._up = asyncio.Event()
        self._closing = False
        self._served: list[ServedSubject] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.reconnects = 0

    @classmethod
    async def connect(
        cls, url: str, *, name: str = "tidelog", wait_s: float | None = None
    ) -> NatsBus:
        """Connect, waiting for the server for ever or for `wait_s`. Raises Unavailable."""
        bus = cls(name)
        try:
            async with asyncio.timeout(wait_s):
                await bus._connect(url)
        except (TimeoutError, nats_errors.Error, OSError) as error:
            await bus._client.close()
            raise Unavailable(
                f"no NATS server at {url}", hint="start one, or set nats-url"
            ) from error
        return bus

    async def _connect(self, url: str) -> None:
        await self._client.connect(
            [part.strip() for part in url.split(",")],
            name=self._name,
            error_cb=self._on_error,
            disconnected_cb=self._on_disconnected,
            reconnected_cb=self._on_reconnected,
            closed_cb=self._on_closed,
            max_reconnect_attempts=-1,
            reconnect_time_wait=0.2,  # type: ignore[arg-type]
            ping_interval=5,
            max_outstanding_pings=2,
            pending_size=2 << 20,
        )
        await self._client.subscribe_sink(self._prefix + "*", "", self._on_answer)
        self._up.set()
        metrics.connected.set(1)
        self._spawn(self._send_loop(), "bus-send")
        self._spawn(self._watch_loop(), "bus-watch")

    def _spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def max_payload(self) -> int:
        return int(self._client.max_payload)

    @property
    def connected(self) -> bool:
        return self._up.is_set()

    # -- what the connection tells ----------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        metrics.errors.inc()
        log.debug("NATS connection", error=str(error) or type(error).__name__)

    async def _on_disconnected(self) -> None:
        if not self._closing:
            log.warning("the connection to NATS is lost, reconnecting")
        self._lose("the connection to NATS was lost before the answer")
        self._client.forget_unsent()

    async def _on_reconnected(self) -> None:
        self.reconnects += 1
        metrics.reconnects.inc()
        metrics.connected.set(1)
        log.info("connected to NATS again")
        self._up.set()
        self._work.set()

    async def _on_closed(self) -> None:
        self._lose("the connection to NATS is closed")
        if not self._closing:
            log.error("the NATS client gave up", error=str(self._client.last_error))

    def _lose(self, why: str) -> None:
        """Fail everybody whose request may have been sent; what is still queued stays queued."""
        self._up.clear()
        metrics.connected.set(0)
        for waiting in [w for w in self._waiting.values() if w.sent]:
            if not waiting.future.done():
                waiting.future.set_exception(Unavailable(why))

    def _on_answer(self, subject: bytes, _reply: bytes, data: bytes, raw: bytes) -> None:
        token = subject[len(self._prefix) :].decode()
        waiting = self._waiting.get(token)
        if waiting is None or waiting.future.done():
            return
        status, _, headers = parse_headers(raw)
        if status == NO_RESPONDERS:
            waiting.future.set_exception(NoResponders("nobody serves this subject"))
        else:
            waiting.future.set_result(Message(subject.decode(), bytes(data), headers))

    # -- sending ----------------------------------------------------------------------------------

    async def _send_loop(self) -> None:
        """The only writer: in order, held back while there is no connection."""
        while True:
            if not self._outbox:
                self._work.clear()
                self._idle.set()
                await self._work.wait()
            await self._up.wait()
            try:
                while self._outbox and self._up.is_set():
                    await self._send(self._outbox.popleft())
            except nats_errors.Error as error:
                await self._on_error(error)

    async def _send(self, command: _Command) -> None:
        self._outbox_bytes -= command.size
        while self._room and self._outbox_bytes < OUTBOX_BYTES:
            gate = self._room.popleft()
            if not gate.done():
                gate.set_result(None)
        waiting: Waiting | None = command.waiting
        if waiting is not None:
            if waiting.future.done():
                return
            waiting.sent = True
        try:
            await self._client.publish(
                command.subject, command.data, command.reply, command.headers or None
            )
        except (nats_errors.Error, ValueError) as error:
            metrics.errors.inc()
            if waiting is not None and not waiting.future.done():
                waiting.future.set_exception(Unavailable(f"could not send: {error!r}"))

    def _queue(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] | None,
        reply: str = "",
        waiting: Waiting | None = None,
    ) -> None:
        carried = dict(headers) if headers else {}
        size = len(data) + header_bytes(carried)
        if size > self.max_payload:
            raise MessageTooLarge(
                f"a message of {size} bytes for {subject}; the server takes {self.max_payload}"
            )
        if self._closing or self._client.is_closed:
            raise Unavailable("the bus is closed")
        self._outbox.append(_Command(subject, data, carried, reply, size, waiting))
        self._outbox_bytes += size
        self._idle.clear()
        self._work.set()

    async def _wait_for_room(self) -> None:
        while self._outbox_bytes >= OUTBOX_BYTES:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._room.append(gate)
            await gate

    def _answer(self, subject: str, data: bytes, headers: Headers | None) -> None:
        """An answer of a served request: never waits, so its bound is a hard one."""
        if self._outbox_bytes >= OUTBOX_HARD_BYTES:
            metrics.dropped_answers.inc()
            log.error("an answer is dropped: too much waits to be sent", subject=subject)
            return
        try:
            self._queue(subject, data, headers)
        except Unavailable:
            metrics.dropped_answers.inc()

    # -- core -------------------------------------------------------------------------------------

    async def publish(self, subject: str, data: bytes, headers: Headers | None = None) -> None:
        try:
            async with asyncio.timeout(API_TIMEOUT_S):
                await self._wait_for_room()
        except TimeoutError:
            raise DeadlineExceeded("too much waits to be sent to NATS") from None
        self._queue(subject, data, headers)

    def _open(self) -> Waiting:
        self._next_token += 1
        waiting = Waiting(str(self._next_token))
        self._waiting[waiting.token] = waiting
        return waiting

    async def _answered(self, waiting: Waiting, what: str, timeout_s: float) -> Message:
        """The answer, or the error that settles it; nothing stays in the table."""
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting.future
        except TimeoutError:
            if not self.connected and not waiting.sent:
                raise Unavailable(f"no connection to NATS within {timeout_s} s: {what}") from None
            raise DeadlineExceeded(f"no answer within {timeout_s} s: {what}") from None
        finally:
            self._forget(waiting)

    def _forget(self, waiting: Waiting) -> None:
        self._waiting.pop(waiting.token, None)
        if not waiting.future.cancel() and not waiting.future.cancelled():
            waiting.future.exception()

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: Headers | None = None
    ) -> Message:
        waiting = self._open()
        try:
            if self._outbox_bytes >= OUTBOX_BYTES:
                async with asyncio.timeout(timeout_s):
                    await self._wait_for_room()
            self._queue(subject, data, headers, self._prefix + waiting.token, waiting)
        except TimeoutError:
            self._forget(waiting)
            raise DeadlineExceeded(f"could not be sent within {timeout_s} s: {subject}") from None
        except BaseException:
            self._forget(waiting)
            raise
        return await self._answered(waiting, subject, timeout_s)

    async def serve(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        served = ServedSubject(subject, handler, self._answer, self._withdraw)
        served.number = await self._own(
            self._client.subscribe_sink(subject, queue, served.on_message)
        )
        self._served.append(served)
        cell = current_cell.get()
        if cell is not None:
            # It ends with the actor, also when that crashes: a fresh instance serves again.
            served.task = cell.actor.spawn(served.run(), f"serve {subject}")
        else:
            served.task = self._spawn(served.run(), f"serve {subject}")
        return served

    def _withdraw(self, served: ServedSubject) -> None:
        if served in self._served:
            self._served.remove(served)
            if not self._closing:
                self._spawn(self._client.unsubscribe_sink(served.number), "bus-unsubscribe")

    async def _own(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Run a call of nats-py to its end, whatever becomes of the caller: some of them swallow
        a cancellation."""
        return await asyncio.shield(self._spawn(work, "bus-call"))

    # -- streams ----------------------------------------------------------------------------------

    async def api(self, verb: str, body: object = None, timeout_s: float = API_TIMEOUT_S) -> bytes:
        """One call of the JetStream API; the raw answer, which may hold an error."""
        data = b"" if body is None else msgspec.json.encode(body)
        try:
            answer = await self.request(f"$JS.API.{verb}", data, timeout_s=timeout_s)
        except NoResponders as error:
            raise Unavailable("the NATS server does not offer JetStream") from error
        return answer.data

    async def stream_create(self, config: StreamConfig) -> StreamState:
        existing = await self.stream_state(config.name)
        if existing is not None:
            return existing
        body = jetstream.stream_body(config)
        return jetstream.created_state(await self.api(f"STREAM.CREATE.{config.name}", body))

    async def stream_state(self, name: str) -> StreamState | None:
        return jetstream.stream_state(await self.api(f"STREAM.INFO.{name}"))

    async def stream_info(self, name: str) -> jetstream.StreamInfo | None:
        return jetstream.stream_info(await self.api(f"STREAM.INFO.{name}"), name)

    async def stream_delete(self, name: str) -> None:
        jetstream.check_deleted(await self.api(f"STREAM.DELETE.{name}"))

    async def append(
        self,
        stream: str,
        messages: Sequence[Outgoing],
        *,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        timeout_s: float = API_TIMEOUT_S,
    ) -> int:
        fences = jetstream.fences(expected_last_seq, expected_last_subject_seq)
        batch = jetstream.batch_headers(messages, fences, secrets.token_hex(12))
        first, last = self._open(), self._open()
        try:
            async with asyncio.timeout(timeout_s):
                await self._wait_for_room()
                self._queue_batch(messages, batch, first, last)
                answer = await self._first_error_or_ack(first, last)
            return jetstream.acked_sequence(stream, answer.data)
        except TimeoutError:
            raise DeadlineExceeded(
                f"no acknowledgement from {stream} within {timeout_s} s"
            ) from None
        except NoResponders as error:
            if await self.stream_state(stream) is None:
                raise StreamMissing(f"stream {stream} does not exist") from error
            raise Unavailable(f"no stream takes {messages[0].subject}") from error
        finally:
            self._forget(first)
            self._forget(last)

    def _queue_batch(
        self,
        messages: Sequence[Outgoing],
        batch: Sequence[dict[str, str]],
        first: Waiting,
        last: Waiting,
    ) -> None:
        sizes = [len(m.data) + header_bytes(h) for m, h in zip(messages, batch, strict=True)]
        if max(sizes) > self.max_payload:
            raise MessageTooLarge(
                f"a message of {max(sizes)} bytes; the server takes {self.max_payload}"
            )
        end = len(messages) - 1
        for i, (message, headers) in enumerate(zip(messages, batch, strict=True)):
            waiting = last if i == end else first
            reply = self._prefix + waiting.token if i in (0, end) else ""
            self._queue(message.subject, message.data, headers, reply, last)
        first.sent = True

    async def _first_error_or_ack(self, first: Waiting, last: Waiting) -> Message:
        """The commit's acknowledgement, or why the batch was not even begun."""
        while True:
            await asyncio.wait([first.future, last.future], return_when=asyncio.FIRST_COMPLETED)
            if first.future.done() and not first.future.cancelled():
                begun = first.future.result()
                if begun.data:
                    return begun
                return await last.future
            return await last.future

    async def last_message(self, stream: str, subject: str) -> Message | None:
        data = await self.api(f"STREAM.MSG.GET.{stream}", {"last_by_subj": subject})
        return jetstream.stored_message(stream, data)

    async def message_at(self, stream: str, sequence: int) -> Message | None:
        """The message with this sequence, from the leader; None if it is no longer there."""
        data = await self.api(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
        return jetstream.stored_message(stream, data)

    async def read(
        self, stream: str, *, start_seq: int, subjects: tuple[str, ...] = ()
    ) -> StreamReader:
        reader = JetStreamReader(self, stream, max(1, start_seq), subjects)
        await reader.open()
        return reader

    # -- for the reader ---------------------------------------------------------------------------

    async def subscribe_inbox(self, sink: Any) -> tuple[int, str]:
        """A private inbox `<prefix>.*`; returns the subscription's number and the prefix."""
        prefix = f"_INBOX.{secrets.token_hex(11)}."
        return await self._own(self._client.subscribe_sink(prefix + "*", "", sink)), prefix

    def unsubscribe(self, number: int) -> None:
        if not self._closing:
            self._spawn(self._client.unsubscribe_sink(number), "bus-unsubscribe")

    def post(self, subject: str, data: bytes, reply: str) -> None:
        self._queue(subject, data, None, reply)

    async def wait_connected(self) -> None:
        await self._up.wait()

    async def _watch_loop(self) -> None:
        """nats-py's tasks can die; its state then says "connected" or "reconnecting" for ever."""
        while True:
            await asyncio.sleep(WATCH_S)
            await self._client.revive()

    async def close(self) -> None:
        """Send what is queued (at most 2 s), then end everything."""
        if self._closing:
            return
        if self.connected:
            try:
                async with asyncio.timeout(2.0):
                    await self._idle.wait()
                    await self._own(self._client.flush(2))
            except (TimeoutError, nats_errors.Error):
                log.warning("closing the bus with unsent messages", count=len(self._outbox))
        self._closing = True
        for served in list(self._served):
            await served.close()
        self._lose("the bus is closed")
        for waiting in list(self._waiting.values()):
            if not waiting.future.done():
                waiting.future.set_exception(Unavailable("the bus is closed"))
        for task in list(self._tasks):
            task.cancel()
        await self._client.close()
