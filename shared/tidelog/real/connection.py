"""One NATS connection: one writer, one inbox, one table of who waits for which answer.

Callers never write to the connection: they queue commands and wait for futures of this module, so
cancelling one is safe, and a server that dies between message and answer leaves nobody behind
(library-traps G8, G9). When the connection is lost, everybody whose message was sent is told.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import structlog
from nats import errors as nats_errors

from tidelog.errors import (
    DeadlineExceeded,
    MessageTooLarge,
    NoResponders,
    Stopped,
    TidelogError,
    Unavailable,
)
from tidelog.ports import Message
from tidelog.real import bus_metrics as metrics
from tidelog.real.denials import Denials
from tidelog.real.nats_access import connect_options, inbox_prefix, refusal, tls_context
from tidelog.real.nats_client import Sink, SinkClient, header_bytes, parse_headers
from tidelog.real.outbox import Command, Outbox, Waiting
from tidelog.security.access import NatsAccess

log = structlog.get_logger()

NO_RESPONDERS = 503
WATCH_S = 1.0
CLOSE_S = 2.0


OnLost = Callable[[TidelogError], None]


class Connection:
    """Raises ConfigError if the files of `access` can't be used."""

    def __init__(
        self, name: str, on_lost: OnLost | None = None, access: NatsAccess | None = None
    ) -> None:
        self._name = name
        self._on_lost = on_lost
        self._access = access or NatsAccess()
        self._denials = Denials(name, self._access)
        self._options = connect_options(self._access)
        tls = (lambda: tls_context(self._access)) if "tls" in self._options else None
        self._client = SinkClient(self._refuse, self._deny, tls)
        self._inboxes = inbox_prefix(self._access)
        self._prefix = self._new_inbox()
        self._refusal: TidelogError | None = None
        self._waiting: dict[str, Waiting] = {}
        self._next_token = 0
        self._up = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.outbox = Outbox()
        self.closing = False
        self.reconnects = 0

    async def open(self, url: str) -> None:
        """Connect, for ever if need be. Raises Unauthenticated, Untrusted, Forbidden: trying again
        would end the same."""
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
            **self._options,
        )
        await self._client.subscribe_sink(self._prefix + "*", "", self._on_answer)
        self._up.set()
        metrics.connected.set(1)
        for work, what in ((self._send_loop(), "bus-send"), (self._watch_loop(), "bus-watch")):
            self.spawn(work, what).add_done_callback(self._died)

    @property
    def up(self) -> bool:
        return self._up.is_set() and self._refusal is None

    @property
    def max_payload(self) -> int:
        return int(self._client.max_payload)

    async def wait_up(self) -> None:
        """Raises what the server refuses us by."""
        await self._up.wait()
        if self._refusal is not None:
            raise self._refusal

    def _new_inbox(self) -> str:
        return f"{self._inboxes}.{secrets.token_hex(11)}."

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- what nats-py tells -----------------------------------------------------------------------

    async def _on_error(self, error: Exception) -> None:
        """Raises what would be the same at each further try to connect: nats-py lets it pass, out
        of its loop of tries."""
        metrics.errors.inc()
        log.debug("NATS connection", error=str(error) or type(error).__name__)
        if self._client.is_connected or not self._client.drop_attempt():
            return
        if (refused := refusal(error, self._access)) is not None:
            raise refused

    def _refuse(self, error: TidelogError) -> None:
        """What worked before works no more: whoever waits is told, and no one tries again."""
        self._refusal = error
        log.error("the NATS server is left", error=error.message, hint=error.hint)
        self._lose(error, for_good=True)
        self._up.set()
        self.spawn(self._client.end(), "bus-end")
        if self._on_lost is not None:
            self._on_lost(Stopped(error.message, hint=error.hint))

    def _deny(self, words: str) -> None:
        """It was sent a moment ago, by whoever waits for an answer to that subject."""
        metrics.errors.inc()
        denied = self._denials.take(words)
        asked = [w for w in self._waiting.values() if w.sent and w.subject.lower() == denied]
        for waiting in asked:
            waiting.fail(self._denials.error("publish", waiting.subject))
        if not asked:
            self._denials.log(words)

    async def _on_disconnected(self) -> None:
        if self._refusal is not None:
            return
        if not self.closing:
            log.warning("the connection to NATS is lost, reconnecting")
        self._lose(Unavailable("the connection to NATS was lost before the answer"))
        self._client.forget_unsent()

    async def _on_reconnected(self) -> None:
        self.reconnects += 1
        metrics.reconnects.inc()
        metrics.connected.set(1)
        log.info("connected to NATS again")
        self._up.set()

    async def _on_closed(self) -> None:
        if self._refusal is not None:
            return
        self._lose(Unavailable("the connection to NATS is closed"), for_good=True)
        if not self.closing:
            self._give_up("the NATS client gave up", self._client.last_error)

    def _died(self, task: asyncio.Task[None]) -> None:
        """Nothing would be sent any more, and the connection would still be called up."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._give_up(f"{task.get_name()} died", error)

    def _give_up(self, what: str, error: BaseException | None) -> None:
        log.error(what, error=repr(error))
        if self._on_lost is not None:
            self._on_lost(Stopped(what, hint="the service starts again"))

    def _lose(self, why: TidelogError, *, for_good: bool = False) -> None:
        """Fail everybody whose message may have been sent; what is queued stays queued, unless
        nothing will be sent any more."""
        self._up.clear()
        metrics.connected.set(0)
        for waiting in list(self._waiting.values()):
            if waiting.sent or for_good:
                waiting.fail(why)

    def _on_answer(self, subject: bytes, _reply: bytes, data: bytes, raw: bytes) -> None:
        waiting = self._waiting.get(subject[len(self._prefix) :].decode("utf-8", "replace"))
        if waiting is None:
            return
        status, _, headers = parse_headers(raw)
        if status == NO_RESPONDERS:
            waiting.fail(NoResponders("nobody serves this subject"))
        else:
            waiting.answer(Message(subject.decode(), bytes(data), headers))

    async def _watch_loop(self) -> None:
        """nats-py's tasks can die; its state then says "connected" or "reconnecting" for ever."""
        while True:
            await asyncio.sleep(WATCH_S)
            await self._client.revive()

    # -- sending ----------------------------------------------------------------------------------

    async def _send_loop(self) -> None:
        """The only writer: in order, held back while there is no connection."""
        while self._refusal is None:
            await self.outbox.work()
            await self._up.wait()
            while len(self.outbox) and self.up:
                await self._send(self.outbox.pop())

    async def _send(self, command: Command) -> None:
        waiting = command.waiting
        if waiting is not None:
            if waiting.settled:
                return
            waiting.sent = True
        try:
            await self._client.publish(
                command.subject, command.data, command.reply, command.headers or None
            )
        except (nats_errors.Error, ValueError) as error:
            await self._on_error(error)
            if waiting is not None:
                waiting.fail(Unavailable(f"could not be sent: {error!r}"))

    def queue(
        self,
        subject: str,
        data: bytes,
        headers: Mapping[str, str] | None = None,
        *,
        reply: str = "",
        waiting: Waiting | None = None,
    ) -> None:
        """Have it sent, after all that was queued before. `waiting`: whose message it is; a reply
        subject of its own inbox is then made by `inbox`. Raises MessageTooLarge, Unavailable, and
        what the server refuses us by."""
        carried = dict(headers) if headers else {}
        size = self.check_size(subject, data, carried)
        self.put(Command(subject, data, carried, reply, size, waiting))

    def put(self, command: Command) -> None:
        """`queue` of what was sized by `check_size`, and is nobody else's. Raises as that."""
        if self._refusal is not None:
            raise self._refusal
        if self.closing or self._client.is_closed:
            raise Unavailable("the bus is closed")
        if command.waiting is not None:
            command.waiting.subject = command.subject
        self.outbox.put(command)

    def check_size(self, subject: str, data: bytes, headers: Mapping[str, str]) -> int:
        """The server ends the connection for a larger message, so none is sent."""
        size = len(data) + header_bytes(headers)
        if size > self.max_payload:
            raise MessageTooLarge(
                f"a message of {size} bytes for {subject}; the server takes {self.max_payload}"
            )
        return size

    def expect(self) -> Waiting:
        """A place in the table of answers; `forget` it."""
        self._next_token += 1
        waiting = Waiting(str(self._next_token))
        self._waiting[waiting.token] = waiting
        return waiting

    def inbox(self, waiting: Waiting) -> str:
        return self._prefix + waiting.token

    def forget(self, waiting: Waiting) -> None:
        """Nobody waits any more; if the message is still queued, it is not sent."""
        self._waiting.pop(waiting.token, None)
        waiting.forget()

    async def ask(
        self, subject: str, data: bytes, headers: Mapping[str, str] | None, timeout_s: float
    ) -> Message:
        """Request and answer. Raises as the port's `request`."""
        waiting = self.expect()
        try:
            async with asyncio.timeout(timeout_s):
                await self.outbox.room()
                self.queue(subject, data, headers, reply=self.inbox(waiting), waiting=waiting)
                return await waiting.future
        except TimeoutError:
            if not waiting.sent:
                raise Unavailable(f"not sent within {timeout_s} s: {subject}") from None
            raise DeadlineExceeded(f"no answer within {timeout_s} s: {subject}") from None
        finally:
            self.forget(waiting)

    # -- subscriptions ----------------------------------------------------------------------------

    async def subscribe(self, subject: str, queue: str, sink: Sink) -> int:
        """Returns when the server knows of it, or is to be told at the next connection. Raises
        Forbidden."""
        work = self._subscribe(subject, queue, sink)
        # To its end whatever becomes of the caller: nats-py swallows cancellations.
        subscribing = self.spawn(work, "bus-subscribe")
        try:
            number: int = await asyncio.shield(subscribing)
        except asyncio.CancelledError:
            subscribing.add_done_callback(self._unwanted)
            raise
        finally:
            del subscribing  # its error knows this frame: a cycle for each that is denied
        return number

    def _unwanted(self, subscribing: asyncio.Task[int]) -> None:
        """Who subscribed is gone, and knows of no number to unsubscribe."""
        if not subscribing.cancelled() and subscribing.exception() is None:
            self.unsubscribe(subscribing.result())

    async def _subscribe(self, subject: str, queue: str, sink: Sink) -> int:
        number = await self._client.subscribe_sink(subject, queue, sink)
        if self.up:
            try:
                async with asyncio.timeout(CLOSE_S):
                    await self._client.sync()
            except (TimeoutError, nats_errors.Error) as error:
                await self._on_error(error)
        try:
            self._denials.check_subscription(subject)
        except TidelogError:
            await self._client.unsubscribe_sink(number)
            raise
        return number

    async def subscribe_inbox(self, sink: Sink) -> tuple[int, str]:
        """A private inbox `<prefix>*`; returns the subscription's number and the prefix."""
        prefix = self._new_inbox()
        return await self.subscribe(prefix + "*", "", sink), prefix

    def unsubscribe(self, number: int) -> None:
        if not self.closing:
            self.spawn(self._client.unsubscribe_sink(number), "bus-unsubscribe")

    async def flush(self) -> None:
        """Wait (at most 2 s) until the server has what was queued."""
        if not self.up:
            return
        try:
            async with asyncio.timeout(CLOSE_S):
                await self.outbox.idle()
                syncing = self.spawn(self._client.sync(), "bus-flush")
                # Nobody waits for it any more when the time is up.
                syncing.add_done_callback(lambda task: task.cancelled() or task.exception())
                await asyncio.shield(syncing)
        except (TimeoutError, nats_errors.Error):
            log.warning("closing the bus with unsent messages", count=len(self.outbox))

    async def close(self) -> None:
        self.closing = True
        self._up.clear()
        for waiting in list(self._waiting.values()):
            waiting.fail(Unavailable("the bus is closed"))
        for task in list(self._tasks):
            task.cancel()
        await self._client.end()
        metrics.connected.set(0)
