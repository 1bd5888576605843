"""The StreamReader port: an ordered pull consumer of our own (library-traps G10, G11).

The server keeps an ephemeral consumer without acknowledgements; its numbering shows a lost
message, and whatever goes wrong, the answer is a new consumer at the next sequence. Everything is
driven by `next_batch`; the sink only fills the buffer and asks for more.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from typing import TYPE_CHECKING

import msgspec
import structlog

from tidelog.actor import current_cell
from tidelog.errors import Purged, StreamMissing, Unavailable
from tidelog.ports import Message
from tidelog.real import bus_metrics as metrics
from tidelog.real.jetstream import StreamInfo, consumer_body, created_consumer, own_headers
from tidelog.real.nats_client import parse_headers

if TYPE_CHECKING:
    from tidelog.real.bus import NatsBus

log = structlog.get_logger()

PULL_MESSAGES = 2000
PULL_BYTES = 4 << 20
BUFFER_BYTES = 8 << 20
"""No further pull while this much is buffered: a reader holds at most BUFFER_BYTES + PULL_BYTES."""
BUFFER_COUNT = 8192
HEARTBEAT_S = 2.0
SILENCE_S = 5.0
EXPIRES_S = 20.0
RETRY_S = 0.1
HEARTBEAT = 100
DONE = (404, 408, 409)


class Arrived(msgspec.Struct, frozen=True, gc=False):
    message: Message
    after: int
    """The sequence up to which everything that matches had arrived before this message."""


class JetStreamReader:
    def __init__(
        self, bus: NatsBus, stream: str, start_seq: int, subjects: tuple[str, ...]
    ) -> None:
        self._bus = bus
        self._stream = stream
        self._subjects = subjects
        self._next_seq = start_seq
        self._last: Message | None = None
        self._created = ""
        self._compacted = False
        self._buffer: deque[Arrived] = deque()
        self._bytes = 0
        self._covered = start_seq - 1
        self._candidate = -1
        self._consumer = b""
        self._consumer_seq = 0
        self._number = 0
        self._inbox = ""
        self._pull_token = 0
        self._pull_left = 0
        self._pull_received = 0
        self._seen = 0.0
        self._restart = "start"
        self._reconnects = bus.reconnects
        self._wake = asyncio.Event()
        self._closed = False
        self._guard: asyncio.Task[None] | None = None

    # -- opening ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Subscribe, and see that the stream is there. Raises StreamMissing, Unavailable."""
        self._number, self._inbox = await self._bus.connection.subscribe_inbox(self._on_message)
        cell = current_cell.get()
        if cell is not None:
            # A reader that its crashed actor left behind must not go on filling its buffer.
            self._guard = cell.actor.spawn(self._close_with_actor(), f"reader {self._stream}")
        try:
            await self._new_consumer()
        except Purged:
            self._restart = "start"
        except BaseException:
            await self.close()
            raise

    async def _close_with_actor(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            self._end()

    async def _new_consumer(self) -> None:
        self._restart = ""
        self._reconnects = self._bus.reconnects
        self._drop_consumer()
        info = await self._bus.stream_info(self._stream)
        if info is None:
            raise StreamMissing(f"stream {self._stream} does not exist")
        await self._check_same(info)
        name = f"tidelog-{secrets.token_hex(8)}"
        body = consumer_body(self._stream, name, self._next_seq, self._subjects)
        created_consumer(
            self._stream, await self._bus.api(f"CONSUMER.CREATE.{self._stream}.{name}", body)
        )
        self._consumer = name.encode()
        self._consumer_seq = 0
        self._candidate = info.state.last_seq if self._subjects else -1
        self._pull()

    async def _check_same(self, info: StreamInfo) -> None:
        """It is the stream that was read so far, and it still has the next sequence."""
        self._compacted = info.config.max_msgs_per_subject > 0
        if self._created and info.created != self._created:
            raise StreamMissing(f"stream {self._stream} was created anew")
        self._created = info.created
        if self._last is not None:
            read = self._last.sequence
            if info.state.last_seq < read:
                raise StreamMissing(
                    f"stream {self._stream} ends at {info.state.last_seq}, read up to {read}"
                )
            there = await self._bus.message_at(self._stream, read)
            if there is not None and (there.subject, there.data) != (
                self._last.subject,
                self._last.data,
            ):
                raise StreamMissing(f"stream {self._stream} was rolled back below {read}")
        self._check_purged(max(self._next_seq - 1, self._covered), info)

    def _check_purged(self, after: int, info: StreamInfo) -> None:
        if not self._compacted and info.state.first_seq > after + 1:
            raise Purged(
                f"stream {self._stream} begins at {info.state.first_seq}, {after + 1} is wanted"
            )

    def _drop_consumer(self) -> None:
        name, self._consumer = self._consumer, b""
        self._pull_left = 0
        if name and self._bus.connected:
            try:
                subject = f"$JS.API.CONSUMER.DELETE.{self._stream}.{name.decode()}"
                self._bus.connection.queue(subject, b"", reply=self._inbox + "deleted")
            except Unavailable:
                log.debug("the server will drop the consumer", consumer=name.decode())

    # -- what arrives -----------------------------------------------------------------------------

    def _pull(self) -> None:
        """Ask for more unless a request is open or the buffer is full."""
        full = self._bytes >= BUFFER_BYTES or len(self._buffer) >= BUFFER_COUNT
        if self._pull_left or full or self._restart or not self._consumer or self._closed:
            return
        self._pull_token += 1
        self._pull_left = PULL_MESSAGES
        self._pull_received = 0
        self._seen = asyncio.get_running_loop().time()
        body = {
            "batch": PULL_MESSAGES,
            "max_bytes": max(PULL_BYTES, 2 * self._bus.max_payload),
            "expires": int(EXPIRES_S * 1e9),
            "idle_heartbeat": int(HEARTBEAT_S * 1e9),
        }
        subject = f"$JS.API.CONSUMER.MSG.NEXT.{self._stream}.{self._consumer.decode()}"
        try:
            reply = f"{self._inbox}{self._pull_token}"
            self._bus.connection.queue(subject, msgspec.json.encode(body), reply=reply)
        except Unavailable:
            self._need("unsent")

    def _need(self, reason: str) -> None:
        """A new consumer, at the next `next_batch`."""
        if not self._restart:
            self._restart = reason
            self._wake.set()

    def _on_message(self, subject: bytes, reply: bytes, data: bytes, raw: bytes) -> None:
        if self._closed:
            return
        if subject.startswith(self._inbox.encode()):
            self._on_status(subject[len(self._inbox) :], bytes(raw or b""))
            return
        tokens = reply.split(b".")
        shift = 0 if len(tokens) == 9 else 2  # with a domain and an account hash
        if len(tokens) < 9 or tokens[3 + shift] != self._consumer or self._restart:
            return
        sequence, number = int(tokens[5 + shift]), int(tokens[6 + shift])
        if number != self._consumer_seq + 1:
            self._need("a message was lost on the way")
            return
        self._consumer_seq = number
        self._seen = asyncio.get_running_loop().time()
        self._pull_left -= 1
        self._pull_received += 1
        if sequence >= self._next_seq:
            headers = own_headers(raw) if raw else {}
            name = subject.decode("utf-8", "replace")  # as in the JSON of other answers
            message = Message(name, bytes(data), headers, sequence)
            after = max(self._next_seq - 1, self._covered)
            self._buffer.append(Arrived(message, after))
            self._bytes += len(data)
            self._next_seq = sequence + 1
            self._last = message
            self._wake.set()
        if not self._pull_left:
            self._pull()

    def _on_status(self, token: bytes, raw: bytes) -> None:
        if token != str(self._pull_token).encode() or self._restart:
            return
        status, description, _ = parse_headers(raw)
        self._seen = asyncio.get_running_loop().time()
        if status == HEARTBEAT:
            return
        self._pull_left = 0
        if status in DONE and "Consumer" not in description and "Shutdown" not in description:
            if self._pull_received or not self._subjects:
                self._pull()
            else:
                # Nothing matched during a whole pull: all up to where the stream ended before it
                # is read. `next_batch` asks where it ends now, then pulls again.
                self._covered = max(self._covered, self._candidate)
                self._wake.set()
        else:
            self._need(description or f"status {status}")

    # -- reading ----------------------------------------------------------------------------------

    async def next_batch(self, max_messages: int, max_wait_s: float) -> list[Message]:
        """See the port. Raises StreamMissing, Purged; an unreachable server is waited out."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + max_wait_s
        while True:
            try:
                async with asyncio.timeout_at(max(deadline, loop.time() + 0.001)):
                    await self._settle()
                    batch = await self._verified(max_messages)
            except TimeoutError:
                batch = []
            if batch:
                for _ in batch:
                    self._bytes -= len(self._buffer.popleft().message.data)
                self._pull()
                return batch
            left = deadline - loop.time()
            if left <= 0 or self._closed:
                return []
            self._wake.clear()
            if not self._buffer:
                await self._wait(min(left, 1.0))

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        except TimeoutError:
            silent = asyncio.get_running_loop().time() - self._seen > SILENCE_S
            if silent and self._pull_left:
                self._need("silence")

    async def _settle(self) -> None:
        """Have a consumer with a pull. Waits for the server if need be."""
        if self._bus.reconnects != self._reconnects:
            self._need("reconnected")
        while self._restart:
            reason = self._restart
            if reason != "start":
                metrics.reader_restarts.labels(self._stream, reason).inc()
                log.info("reading on", stream=self._stream, sequence=self._next_seq, reason=reason)
            try:
                await self._bus.connection.wait_up()
                await self._new_consumer()
            except Unavailable:
                self._need(reason)
                await asyncio.sleep(RETRY_S)
            except BaseException:
                self._restart = reason
                raise
        if not self._pull_left and not self._buffer:
            if self._subjects:
                info = await self._bus.stream_info(self._stream)
                if info is None:
                    raise StreamMissing(f"stream {self._stream} does not exist")
                self._candidate = info.state.last_seq
            self._pull()

    async def _verified(self, max_messages: int) -> list[Message]:
        """The next messages, those before a gap first. What lies in a gap must still be there:
        then it did not match, or was deleted from within; else it was discarded unread."""
        batch: list[Message] = []
        info: StreamInfo | None = None
        for arrived in tuple(self._buffer):  # a question below lets more arrive
            if len(batch) == max_messages:
                break
            if arrived.message.sequence > arrived.after + 1 and not self._compacted:
                info = info or await self._bus.stream_info(self._stream)
                if info is None:
                    raise StreamMissing(f"stream {self._stream} does not exist")
                if info.state.first_seq > arrived.after + 1:
                    if batch:
                        break
                    self._check_purged(arrived.after, info)
            batch.append(arrived.message)
        return batch

    async def close(self) -> None:
        self._end()
        if self._guard is not None:
            self._guard.cancel()

    def _end(self) -> None:
        if not self._closed:
            self._drop_consumer()
            self._closed = True
            self._wake.set()
            self._bus.connection.unsubscribe(self._number)
