"""Appending to the stream under its fence, and reading back what became of a lost answer.

One chunk is in flight at a time, fenced by the last sequence; so the stream's end tells whether it
arrived, and nobody else can have written before us without being seen (design section 5).
"""

from __future__ import annotations

from tidelog import changes, subjects
from tidelog.backoff import backoff_s
from tidelog.errors import (
    Conflict,
    MessageTooLarge,
    Stopped,
    StreamMissing,
    TidelogError,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.ports import Outgoing, Ports, StreamState
from tidelog_drainer.metrics import APPEND_BYTES, APPEND_MESSAGES, APPEND_RETRIES, APPEND_SECONDS
from tidelog_drainer.publish.lives import Epoch
from tidelog_drainer.publish.position import Start, parse_epoch

APPEND_TIMEOUT_S = 5.0
BACKOFF_MIN_S = 0.02
BACKOFF_MAX_S = 1.0


class TailLost(TidelogError):
    """The stream is gone, made anew, or shorter than what was acknowledged: begin again from its
    position, and fill what is missing from the Pumps."""


class Fenced(Stopped):
    """Another Drainer, `by`, publishes this feed."""

    default_hint = "another cluster's Drainer writes to this stream: stop it, or rename the feed"

    def __init__(self, by: Epoch, stream: str, own: Epoch) -> None:
        super().__init__(f"epoch {by.text} writes to {stream}, this is {own.text}")
        self.by = by.node


class StreamTooSmall(Stopped):
    """The stream can't hold one transaction: its end would push its beginning out."""

    def __init__(self, stream: str, needed: int, max_bytes: int) -> None:
        super().__init__(
            f"{stream} holds {max_bytes} bytes, one transaction needs more than {needed}",
            hint=f"raise its max_bytes (`nats stream edit {stream}`; with keys: docs/operating.md)"
            " and changes-max-bytes for when it is made anew; then start the Drainer again",
        )


class PayloadTooSmall(Stopped):
    """The server takes no message as large as one of this transaction, a marker mostly."""

    def __init__(self, commit_ts: str, why: str) -> None:
        super().__init__(
            f"transaction {commit_ts}: {why}",
            hint="a marker names every table that the transaction changes: raise `max_payload` of"
            " all NATS servers, or leave the transaction out (`ignore-txn-commit-ts`); then start"
            " the Drainer again",
        )


class StreamTail:
    """Our end of the stream: its last sequence, as far as we know."""

    def __init__(self, ports: Ports, feed: str, start: Start) -> None:
        self.sequence = start.state.last_seq
        self.waiting = ""
        """Why an append waits; shown in status."""
        self._ports = ports
        self._feed = feed
        self._label = subjects.feed_label(feed)
        self._stream = subjects.changes_stream(feed)
        self._marks = (subjects.changes_txn(feed), subjects.changes_watermark(feed))
        self._created = start.state.created
        self._epoch = start.epoch
        self._max_bytes = start.state.max_bytes
        self._attempt = ""
        self._attempt_bytes = 0

    async def append(self, chunk: list[Outgoing]) -> None:
        """Append atomically, exactly once, waiting for an unreachable server.

        Raises TailLost, Fenced, PayloadTooSmall, StreamTooSmall.
        """
        failures = 0
        await self._measure(chunk)
        while True:
            began = self._ports.clock.monotonic()
            hit("drainer.tail.before_append")
            try:
                self.sequence = await self._ports.bus.append(
                    self._stream,
                    chunk,
                    expected_last_seq=self.sequence,
                    timeout_s=APPEND_TIMEOUT_S,
                )
            except StreamMissing as error:
                raise TailLost(f"stream {self._stream} is gone") from error
            except MessageTooLarge as error:
                last_ts = chunk[-1].headers[changes.H_LAST_TS]
                raise PayloadTooSmall(last_ts, error.message) from error
            except (Conflict, Unavailable) as error:
                hit("drainer.tail.lost_answer")
                self.waiting = str(error)
                APPEND_RETRIES.labels(self._label).inc()
                if not await self._landed(chunk[-1]):
                    await self._pause(failures)
                    failures += 1
                    continue
            self.waiting = ""
            hit("drainer.tail.after_append")
            if chunk[-1].subject not in self._marks:
                hit("drainer.tail.between_parts")
            seconds = self._ports.clock.monotonic() - began
            APPEND_SECONDS.labels(self._label).observe(seconds)
            APPEND_MESSAGES.labels(self._label).observe(len(chunk))
            APPEND_BYTES.labels(self._label).observe(sum(len(one.data) for one in chunk))
            return

    async def _measure(self, chunk: list[Outgoing]) -> None:
        """Discard old would take an attempt's own first messages without a word."""
        attempt = chunk[-1].headers[changes.H_ATTEMPT]
        if attempt != self._attempt:
            self._attempt, self._attempt_bytes = attempt, 0
        self._attempt_bytes += sum(map(_stored_bytes, chunk))
        failures = 0
        while 0 < self._max_bytes < self._attempt_bytes:
            try:
                state = await self._ports.bus.stream_state(self._stream)
            except Unavailable as error:
                self.waiting = str(error)
                await self._pause(failures)
                failures += 1
                continue
            if state is None:
                raise TailLost(f"stream {self._stream} is gone")
            if state.max_bytes == self._max_bytes:
                raise StreamTooSmall(self._stream, self._attempt_bytes, self._max_bytes)
            self._max_bytes = state.max_bytes  # somebody has changed it

    async def _landed(self, last: Outgoing) -> bool:
        """Whether the chunk that ends with `last` is the stream's end. False: append it again; the
        fence lets only one of the two in, should the first one still be on its way."""
        failures = 0
        while True:
            try:
                state = await self._ports.bus.stream_state(self._stream)
                if state is None:
                    raise TailLost(f"stream {self._stream} is gone")
                if state.created != self._created or state.last_seq < self.sequence:
                    raise TailLost(f"stream {self._stream} was made anew or lost its tail")
                if state.last_seq == self.sequence:
                    return False
                newest = await self._ports.bus.last_message(self._stream, f"changes.{self._feed}.>")
            except Unavailable as error:
                self.waiting = str(error)
                await self._pause(failures)
                failures += 1
                continue
            except StreamMissing as error:
                raise TailLost(f"stream {self._stream} is gone") from error
            break
        if newest is None or newest.sequence <= self.sequence:
            raise TailLost(f"stream {self._stream} changed while its end was read")
        wrote = parse_epoch(newest)
        ours = all(
            newest.headers.get(name) == last.headers[name]
            for name in (changes.H_ATTEMPT, changes.H_INDEX)
        )
        if ours:
            self.sequence = newest.sequence
            return True
        if wrote.number < self._epoch.number:
            # A batch of an earlier life was still on its way when we read our position.
            raise TailLost(f"epoch {wrote.text} wrote after this Drainer began")
        raise Fenced(wrote, self._stream, self._epoch)

    async def look(self) -> StreamState | None:
        """The stream as it is, whoever wrote to it; None if it is gone. Waits for an unreachable
        server. Who publishes moves its end each second, with a watermark if with nothing else."""
        failures = 0
        while True:
            try:
                return await self._ports.bus.stream_state(self._stream)
            except Unavailable as error:
                self.waiting = str(error)
                await self._pause(failures)
                failures += 1

    async def _pause(self, failures: int) -> None:
        pause_s = backoff_s(failures, BACKOFF_MIN_S, BACKOFF_MAX_S, self._ports.rng)
        await self._ports.clock.sleep(pause_s)


def _stored_bytes(message: Outgoing) -> int:
    """What a message takes in the server's file, rather a little too much: records of 30 bytes
    around subject, headers and body; the server's own headers of a batch are about 130."""
    headers = sum(len(name) + len(value) + 4 for name, value in message.headers.items())
    return len(message.subject) + headers + len(message.data) + 180
