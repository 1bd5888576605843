"""The Bus port on NATS core and JetStream (nats-py 2.16, nats-server >= 2.12)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence

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
from tidelog.real import bus_metrics as metrics
from tidelog.real import jetstream
from tidelog.real.bus_serve import ServedSubject
from tidelog.real.connection import Connection, OnLost
from tidelog.real.outbox import HARD_BYTES, Command, Waiting
from tidelog.real.stream_reader import JetStreamReader
from tidelog.security.access import NatsAccess

log = structlog.get_logger()

TIMEOUT_S = 10.0
API_RETRY_S = 0.05
ANSWERS_GO_TO = ("_INBOX.", "_INBOX_", "_R_.")
"""Inboxes as clients name them, with a prefix of the key's own, and across accounts."""
WINDOW_BYTES = 16 << 20
"""Of a batch, what may be under way before the server said that it has it: it queues what it
receives in memory, and drops beyond 128 MiB."""


class NatsBus:
    """`await NatsBus.connect(url)`; `url` may list several servers, separated by commas."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.served: list[ServedSubject] = []

    @classmethod
    async def connect(
        cls,
        url: str,
        *,
        name: str = "tidelog",
        timeout_s: float | None = None,
        on_lost: OnLost | None = None,
        access: NatsAccess | None = None,
    ) -> NatsBus:
        """Connect, waiting for the server for ever or for `timeout_s`; afterwards it reconnects for
        ever. `on_lost` is called if that ends nevertheless. `access`: who we say we are. Raises
        Unavailable, ConfigError, and Unauthenticated or Untrusted where no try will do."""
        connection = Connection(name, on_lost, access)
        try:
            async with asyncio.timeout(timeout_s):
                await connection.open(url)
        except (TimeoutError, nats_errors.Error, OSError) as error:
            await connection.close()
            raise Unavailable(
                "no NATS server answers", hint="start one, or set nats-url"
            ) from error
        except BaseException:
            await connection.close()
            raise
        return cls(connection)

    @property
    def max_payload(self) -> int:
        return self.connection.max_payload

    @property
    def connected(self) -> bool:
        return self.connection.up

    @property
    def reconnects(self) -> int:
        return self.connection.reconnects

    async def close(self) -> None:
        """Send what is queued (at most 2 s), then end everything, also if this is cancelled."""
        if self.connection.closing:
            return
        try:
            await self.connection.flush()
            for served in list(self.served):
                await served.close()
        finally:
            await self.connection.close()

    # -- core -------------------------------------------------------------------------------------

    async def publish(self, subject: str, data: bytes, headers: Headers | None = None) -> None:
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await self.connection.outbox.room()
        except TimeoutError:
            raise DeadlineExceeded("too much waits to be sent to NATS") from None
        self.connection.queue(subject, data, headers)

    async def request(
        self, subject: str, data: bytes, *, timeout_s: float, headers: Headers | None = None
    ) -> Message:
        return await self.connection.ask(subject, data, headers, timeout_s)

    async def serve(self, subject: str, handler: Handler, *, queue: str = "") -> Subscription:
        served = ServedSubject(subject, handler, self._answer, self._withdraw)
        served.number = await self.connection.subscribe(subject, queue, served.on_message)
        self.served.append(served)
        cell = current_cell.get()
        if cell is not None:
            # It ends with the actor, also when that crashes: a fresh instance serves again.
            served.task = cell.actor.spawn(served.run(), f"serve {subject}")
        else:
            served.task = self.connection.spawn(served.run(), f"serve {subject}")
        return served

    def _answer(self, subject: str, data: bytes, headers: Headers | None) -> None:
        """An answer of a served request: it never waits, so its bound is a hard one. It goes to who
        waits for answers, and nowhere else: the server checks where a request goes, but lets us
        answer wherever its sender says, which would be with our rights."""
        if not subject.startswith(ANSWERS_GO_TO):
            metrics.dropped_answers.inc()
            log.error("an answer is dropped: it was to go to no inbox", to=subject)
            return
        try:
            if self.connection.outbox.bytes >= HARD_BYTES:
                raise Unavailable("too much waits to be sent")
            try:
                self.connection.queue(subject, data, headers)
            except MessageTooLarge as error:
                # Asked again it would be as large: who asks would hear nothing, for ever.
                metrics.dropped_answers.inc()
                log.error("an answer is too large", error=str(error))
                self.connection.queue(subject, encode_error(error), None)
        except (Unavailable, MessageTooLarge) as error:
            metrics.dropped_answers.inc()
            log.error("an answer is dropped", error=str(error))

    def _withdraw(self, served: ServedSubject) -> None:
        if served in self.served:
            self.served.remove(served)
            self.connection.unsubscribe(served.number)

    # -- streams ----------------------------------------------------------------------------------

    async def api(self, verb: str, body: object = None) -> bytes:
        """One call of the JetStream API; the raw answer, which may hold an error. All those used
        here may be repeated, so a lost connection is waited out."""
        data = b"" if body is None else msgspec.json.encode(body)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + TIMEOUT_S
        while True:
            try:
                left = max(0.001, deadline - loop.time())
                return (await self.connection.ask(f"$JS.API.{verb}", data, None, left)).data
            except NoResponders as error:
                raise Unavailable("the NATS server does not offer JetStream") from error
            except DeadlineExceeded:
                raise
            except Unavailable:
                if self.connection.closing or loop.time() >= deadline:
                    raise
                # One that is closed for good says so at once.
                await asyncio.sleep(API_RETRY_S)

    async def stream_create(self, config: StreamConfig) -> StreamState:
        existing = await self.stream_state(config.name)
        if existing is not None:
            return existing
        body = jetstream.stream_body(config)
        return jetstream.created_state(await self.api(f"STREAM.CREATE.{config.name}", body))

    async def stream_info(self, name: str) -> jetstream.StreamInfo | None:
        """More than the port tells. From the leader."""
        return jetstream.stream_info(await self.api(f"STREAM.INFO.{name}"), name)

    async def stream_state(self, name: str) -> StreamState | None:
        info = await self.stream_info(name)
        return None if info is None else jetstream.state_of(info)

    async def stream_delete(self, name: str) -> None:
        jetstream.check_deleted(await self.api(f"STREAM.DELETE.{name}"))

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
        """Raises StreamMissing, Unavailable; a purged start is told by the first `next_batch`."""
        reader = JetStreamReader(self, stream, max(1, start_seq), subjects)
        await reader.open()
        return reader

    async def append(
        self,
        stream: str,
        messages: Sequence[Outgoing],
        *,
        expected_last_seq: int | None = None,
        expected_last_subject_seq: int | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> int:
        fences = jetstream.fences(expected_last_seq, expected_last_subject_seq)
        headers = jetstream.batch_headers(messages, fences, secrets.token_hex(12))
        commit = self.connection.expect()
        try:
            batch = [
                Command(
                    message.subject,
                    message.data,
                    carried,
                    "",
                    self.connection.check_size(message.subject, message.data, carried),
                    commit,
                )
                for message, carried in zip(messages, headers, strict=True)
            ]
            async with asyncio.timeout(timeout_s):
                answer = await self._send_batch(batch, commit)
            return jetstream.acked_sequence(stream, answer.data)
        except TimeoutError:
            raise DeadlineExceeded(f"no acknowledgement of {stream} in {timeout_s} s") from None
        except NoResponders as error:
            if await self.stream_state(stream) is None:
                raise StreamMissing(f"stream {stream} does not exist") from error
            raise Unavailable(f"no stream takes {messages[0].subject}") from error
        finally:
            self.connection.forget(commit)

    async def _send_batch(self, batch: Sequence[Command], commit: Waiting) -> Message:
        """Queue the messages; the first, one per window and the last ask for an answer. Returns
        the commit's acknowledgement, or the answer that says why there is none."""
        checks: list[Waiting] = []
        window = 0
        try:
            for message in batch[:-1]:
                await self.connection.outbox.room()
                window += len(message.data)
                if checks and window < WINDOW_BYTES:
                    self.connection.put(message)
                    continue
                check = self.connection.expect()
                checks.append(check)
                self._put_answered(message, check)
                check.sent = True
                if window >= WINDOW_BYTES:
                    window = 0
                    refusal = await check.future
                    if refusal.data:
                        return refusal
            self._put_answered(batch[-1], commit)
            if checks:
                await asyncio.wait(
                    [checks[0].future, commit.future], return_when=asyncio.FIRST_COMPLETED
                )
                if checks[0].future.done():
                    begun = checks[0].future.result()
                    if begun.data:
                        return begun
            return await commit.future
        finally:
            for check in checks:
                self.connection.forget(check)

    def _put_answered(self, message: Command, answer: Waiting) -> None:
        reply = self.connection.inbox(answer)
        self.connection.put(msgspec.structs.replace(message, reply=reply))
