"""The lane to one Pump: what callers have waiting goes out together (section 5, `write`).

Coalescing needs no timer: at most WINDOW batches are in flight, and what arrives meanwhile is the
next one. A payload above the bus limit goes by gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from tidelog.actor import Actor
from tidelog.errors import DeadlineExceeded, TidelogError
from tidelog.failpoints import hit
from tidelog.ports import Clock
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.delivery.way import Refusals, Way
from tidelog.pump_client.errors import NotSent
from tidelog.pump_client.metrics import BATCHES, LOST_ANSWERS, REFUSED, WRITES
from tidelog.pump_client.routing.pump_list import Pump, PumpList

BATCH_BYTES = 512 << 10
"""ADR 23."""
BATCH_COUNT = 128
"""Few enough that a Pump works on one batch while the callers of another get their answers: one
batch of all callers would let the two sides take turns."""
WINDOW = 4


class Lane(Actor[Send]):
    """One per Pump, a child of the directory. `large` takes payloads above `limit()` bytes."""

    batch_count = 8192

    def __init__(
        self,
        pump: Pump,
        pumps: PumpList,
        way: Way,
        large: Way,
        clock: Clock,
        *,
        limit: Callable[[], int],
        try_timeout_s: float,
    ) -> None:
        self._pump = pump
        self._pumps = pumps
        self._way = way
        self._large = large
        self._clock = clock
        self._limit = limit
        self._timeout_s = try_timeout_s
        self._window = asyncio.Semaphore(WINDOW)
        self._silences = 0
        self._writes = WRITES.labels(pump.node)
        self._batches = BATCHES.labels(pump.node)

    def weigh(self, message: Send) -> int:
        return len(message.payload) + 128

    async def on_start(self) -> None:
        self._pump.way = self._way
        self._pump.lane = self.self_ref
        self._pumps.refresh()

        self.spawn(self._close_at_end(), "ways")

    async def _close_at_end(self) -> None:
        """The directory ends a lane by cancelling it, which no `on_stop` sees."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._large.close()
            await self._way.close()

    async def on_batch(self, batch: list[Send]) -> None:
        silences, limit = self._silences, self._limit()
        waiting = [send for send in batch if not send.reply.settled]
        for chunk in cut(waiting, min(BATCH_BYTES, limit), BATCH_COUNT):
            await self._window.acquire()
            if self._silences != silences:
                # The Pump went silent while these waited: let their writers go elsewhere at once.
                self._window.release()
                self._fail(chunk, NotSent(f"{self._pump.node} does not answer"))
            else:
                way = self._large if len(chunk[0].payload) > limit else self._way
                self.spawn(self._send(way, chunk), "send")

    async def _send(self, way: Way, chunk: list[Send]) -> None:
        try:
            hit("client.lane.before_send")
            refusals = await way.write([send.payload for send in chunk], self._timeout_s)
            hit("client.lane.answered")
        except TidelogError as error:
            self._fail(chunk, error)
        else:
            self._settle(chunk, refusals)
        finally:
            self._window.release()

    def _settle(self, chunk: list[Send], refusals: Refusals) -> None:
        acked = len(chunk)
        if not refusals:
            for send in chunk:
                send.reply.set(None)
        for send, error in zip(chunk, refusals, strict=bool(refusals)):
            if error is None:
                send.reply.set(None)
            else:
                acked -= 1
                self._refused(send, error)
        self._batches.inc()
        if acked:
            self._writes.inc(acked)
            self._pumps.succeeded(self._pump)

    def _refused(self, send: Send, error: TidelogError) -> None:
        REFUSED.labels(self._pump.node, type(error).__name__).inc()
        if isinstance(error, DeadlineExceeded):
            self._silences += 1
        self._pumps.failed(self._pump, error, self._clock.monotonic())
        send.reply.fail(error)

    def _fail(self, chunk: list[Send], error: TidelogError) -> None:
        """Every caller gets an error of its own: an exception object carries one traceback."""
        if not error.definite:
            LOST_ANSWERS.labels(self._pump.node).inc()
        if isinstance(error, DeadlineExceeded):
            self._silences += 1
        self._pumps.failed(self._pump, error, self._clock.monotonic())
        for send in chunk:
            send.reply.fail(type(error)(error.message, hint=error.hint))


def cut(batch: Sequence[Send], limit: int, count: int) -> Iterator[list[Send]]:
    """Consecutive pieces of at most `count` payloads and `limit` bytes; a larger payload is a
    piece of its own."""
    piece: list[Send] = []
    size = 0
    for send in batch:
        more = len(send.payload) + 8
        if piece and (size + more > limit or len(piece) >= count):
            yield piece
            piece, size = [], 0
        piece.append(send)
        size += more
    if piece:
        yield piece
