"""The way to one Pump: what callers have waiting goes out as one message (section 5, `write`).

Coalescing needs no timer: at most WINDOW batches are in flight, and what arrives meanwhile is the
next one. A payload above the bus limit goes by gRPC.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from google.protobuf.message import DecodeError

from tidelog.actor import Actor
from tidelog.errors import DeadlineExceeded, TidelogError, Unavailable, error_class
from tidelog.ports import Bus, Clock
from tidelog.pump_client.delivery.grpc_way import GrpcWay
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.errors import NotSent, OutcomeUnknown
from tidelog.pump_client.metrics import BATCHES, LOST_ANSWERS, REFUSED, WRITES
from tidelog.pump_client.routing.pump_list import Pump, PumpList
from tidelog.subjects import pump as pump_subject
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult, WriteResult

BATCH_BYTES = 256 << 10
BATCH_COUNT = 128
"""Few enough that a Pump works on one batch while the callers of another get their answers: one
batch of all callers would let the two sides take turns."""
WINDOW = 4
LARGE_BYTES_PER_S = 10 << 20
"""A large payload gets more time: what a slow disk takes to sync it."""
FRAMING = 1024
"""Room left for the message around a single payload."""


class Lane(Actor[Send]):
    """One per Pump, a child of the directory."""

    batch_count = 8192

    def __init__(
        self,
        pump: Pump,
        pumps: PumpList,
        bus: Bus,
        clock: Clock,
        *,
        cluster: str,
        cluster_id: int,
        try_timeout_s: float,
    ) -> None:
        self._pump = pump
        self._pumps = pumps
        self._bus = bus
        self._clock = clock
        self._subject = pump_subject(cluster, pump.node, "write")
        self._cluster_id = cluster_id
        self._timeout_s = try_timeout_s
        self._window = asyncio.Semaphore(WINDOW)
        self._silences = 0
        self._grpc = GrpcWay(cluster_id)
        self._writes = WRITES.labels(pump.node)
        self._batches = BATCHES.labels(pump.node)

    def weigh(self, message: Send) -> int:
        return len(message.payload) + 128

    async def on_start(self) -> None:
        self._pump.lane = self.self_ref
        self._pumps.refresh()

    async def on_stop(self) -> None:
        for _ in range(WINDOW):
            await self._window.acquire()
        await self._grpc.close()

    async def on_batch(self, batch: list[Send]) -> None:
        silences = self._silences
        limit = self._bus.max_payload - FRAMING
        for chunk in cut(
            [send for send in batch if not send.reply.settled], BATCH_BYTES, BATCH_COUNT
        ):
            await self._window.acquire()
            if self._silences != silences:
                # The Pump went silent while these waited: let their writers go elsewhere at once.
                self._window.release()
                self._fail(chunk, NotSent(f"{self._pump.node} does not answer"))
            elif len(chunk[0].payload) > limit:
                self.spawn(self._send_large(chunk[0]), "large")
            else:
                self.spawn(self._send(chunk), "send")

    async def _send(self, chunk: list[Send]) -> None:
        try:
            request = WriteBatch(cluster_id=self._cluster_id, payloads=[s.payload for s in chunk])
            answer = await self._bus.request(
                self._subject, request.SerializeToString(), timeout_s=self._timeout_s
            )
            results = WriteBatchResult.FromString(answer.data).results
            if len(results) != len(chunk):
                raise Unavailable(f"{self._pump.node} answered {len(results)} of {len(chunk)}")
        except DecodeError:
            self._fail(chunk, Unavailable(f"{self._pump.node}: an answer that can't be read"))
        except TidelogError as error:
            self._fail(chunk, error)
        else:
            self._settle(chunk, results)
        finally:
            self._window.release()

    async def _send_large(self, send: Send) -> None:
        timeout_s = self._timeout_s + len(send.payload) / LARGE_BYTES_PER_S
        try:
            await self._grpc.write(self._pump.address, send.payload, timeout_s)
        except TidelogError as error:
            self._fail([send], error)
        else:
            self._writes.inc()
            self._pumps.succeeded(self._pump)
            send.reply.set(None)
        finally:
            self._window.release()

    def _settle(self, chunk: list[Send], results: Sequence[WriteResult]) -> None:
        acked = 0
        for send, result in zip(chunk, results, strict=True):
            if result.code:
                self._refused(send, result)
            else:
                acked += 1
                send.reply.set(None)
        self._batches.inc()
        if acked:
            self._writes.inc(acked)
            self._pumps.succeeded(self._pump)

    def _refused(self, send: Send, result: WriteResult) -> None:
        REFUSED.labels(self._pump.node, result.code).inc()
        error = error_class(result.code)(result.message)
        if error.definite and not result.definite:
            error = OutcomeUnknown(f"{result.code}: {result.message}")
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
