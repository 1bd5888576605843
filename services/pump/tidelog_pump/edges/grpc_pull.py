"""What a PullBinlogs answers: tipb's PullBinlogResp, one message a binlog, as the original's.

That contract has no pieces: a transaction is whole in memory while it is sent, once as our bytes
and once as gRPC's copy of them, and one whose message would be above 2 GiB can't be sent at all: it
is refused as MessageTooLarge, and a pull by NATS gives it in frames. A large one is read and
checked in steps between which the loop goes on. All that are being sent sum up to SENDING_BYTES or
one that is larger; the stream of a further one ends as Overloaded, and its reader asks again.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Callable

from tidelog import payload, record
from tidelog.actor import Ref
from tidelog.errors import MessageTooLarge, Overloaded
from tidelog.ports import Clock, IndexStore
from tidelog_proto.pump_pb2 import Entity, Meta, PullBinlogResp
from tidelog_pump.late.reader import Reader
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import PULLED
from tidelog_pump.pull.scan import CommitScan, Committed, fitting
from tidelog_pump.sort.sorter_actor import AwaitResolved, Resolved, SorterMessage

PAGE = 256
IDLE_S = 1.0
"""How long a PullBinlogs waits before it looks whether it should end."""
LARGE_BYTES = 1 << 20
"""What is not above it is read with its neighbours, up to as much at a time."""
SENDING_BYTES = 256 << 20
_ENTITY, _PAYLOAD, _META = b"\x0a", b"\x12", b"\x22"
"""Tag bytes of PullBinlogResp.entity, Entity.payload, Entity.meta."""


class PullStreams:
    """For one edge; `ending` says that streams should end by themselves."""

    def __init__(
        self,
        clock: Clock,
        segments: Segments,
        store: IndexStore,
        purge: PurgePoint,
        sorter: Ref[SorterMessage],
        ending: Callable[[], bool],
    ) -> None:
        self._clock = clock
        self._segments = segments
        self._store = store
        self._purge = purge
        self._sorter = sorter
        self._ending = ending
        self.sending_bytes = 0

    async def responses(self, after_ts: int) -> AsyncGenerator[bytes, None]:
        """Everything after `after_ts`, strictly ascending, until the edge ends.

        At resolved_ts a fake stands where no transaction has it: that moves an original Drainer's
        merge when this Pump is idle (B.5).
        """
        scan, position = CommitScan(self._segments, self._store, self._purge), after_ts
        reader = Reader(after_ts)
        while not self._ending():
            resolved = await self._resolved(position)
            reader.goes_on(self._store, position)
            if resolved <= position:
                continue
            page = scan.entries(position, resolved, PAGE)
            at = 0
            while at < len(page):
                near = scan.payloads(fitting(page, at, LARGE_BYTES))
                for binlog in near:
                    yield _small(page[at], binlog)
                    at += 1
                if near:
                    continue
                size = self._admit(page[at])
                try:
                    yield await self._whole(scan, page[at])
                finally:
                    self.sending_bytes -= size
                at += 1
            if page:
                position = page[-1].commit_ts
            PULLED.labels("grpc").inc(len(page))
            reader.took(self._store, (committed.commit_ts for committed in page), position)
            if len(page) < PAGE and position < resolved:
                yield fake(resolved)
                position = resolved

    def _admit(self, committed: Committed) -> int:
        """What a large one counts for until it is sent. Raises MessageTooLarge, Overloaded."""
        lead, tail = around(committed)
        size = len(lead) + committed.total + len(tail)
        if size > record.MAX_PAYLOAD:
            raise MessageTooLarge(
                f"transaction {committed.commit_ts} takes {size} bytes, a gRPC message at most "
                f"{record.MAX_PAYLOAD}",
                hint="pull it by NATS, where it comes in frames",
            )
        if self.sending_bytes and self.sending_bytes + size > SENDING_BYTES:
            raise Overloaded(f"{self.sending_bytes} bytes are being sent")
        self.sending_bytes += size
        return size

    async def _whole(self, scan: CommitScan, committed: Committed) -> bytes:
        """Nothing else holds the buffer, so that it becomes the answer without a copy."""
        lead, tail = around(committed)
        buffer = io.BytesIO()
        buffer.write(lead)
        buffer.write(committed.head)
        steps = scan.checksum(committed, LARGE_BYTES, buffer.write)
        while not steps.advance():
            await self._clock.sleep(0)
        buffer.write(tail)
        return buffer.getvalue()

    async def _resolved(self, above: int) -> int:
        try:
            async with asyncio.timeout(IDLE_S):
                answer: Resolved = await self._sorter.ask(
                    lambda reply: AwaitResolved(above, 0, reply)
                )
                return answer.resolved_ts
        except TimeoutError:
            return 0


def around(committed: Committed) -> tuple[bytes, bytes]:
    """A PullBinlogResp's bytes before and after the payload."""
    meta = Meta(startTs=committed.start_ts, commitTs=committed.commit_ts).SerializeToString()
    tail = _META + _varint(len(meta)) + meta
    before = _PAYLOAD + _varint(committed.total)
    entity = len(before) + committed.total + len(tail)
    return _ENTITY + _varint(entity) + before, tail


def _small(committed: Committed, binlog: bytes) -> bytes:
    lead, tail = around(committed)
    return b"".join((lead, binlog, tail))


def fake(ts: int) -> bytes:
    meta = Meta(startTs=ts, commitTs=ts)
    return PullBinlogResp(entity=Entity(payload=payload.fake(ts), meta=meta)).SerializeToString()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
