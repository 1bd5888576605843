"""The value log: append-only segment files, the truth of this Pump (design section 6, B.1).

`value/%06d.vlog`, records framed by `tidelog.record`, a footer on every segment but the last.
Beside them `value/synced` holds the last synced offset, rewritten after each fdatasync without a
sync of its own: after a power loss it is a lower bound. What lies beyond it and can't be read is a
torn tail, cut off at start. What lies before it isn't read then: a bad record there is `Corrupt`
to whoever reads it, the index's replay or a pull.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import NamedTuple

import structlog
from crc32c import crc32c

from tidelog import record
from tidelog.errors import Corrupt, InvariantBroken, Purged
from tidelog.failpoints import hit
from tidelog.ports import Buffer, Disk, File
from tidelog.timestamps import TS_MAX
from tidelog_pump.index import Pointer
from tidelog_pump.payload import classify

log = structlog.get_logger()

DIRECTORY = "value"
SYNCED = f"{DIRECTORY}/synced"
READ_BYTES = 1 << 20
_NAME = re.compile(r"(\d{6,10})\.vlog")
_SYNCED = struct.Struct("<IQQ")
_SYNCED_BEFORE = struct.Struct("<IQ")
_CRC = struct.Struct("<I")

Records = list[tuple[Pointer, memoryview]]


class _Step(NamedTuple):
    """Records as (offset, payload), the offset after them, why they end there ("" = they don't)."""

    records: list[tuple[int, memoryview]]
    end: int
    bad: str


class _Synced(NamedTuple):
    """What `synced` says: a segment, the offset up to which it is, the largest timestamp of its
    records up to there; None if the file is of the time before that was kept."""

    fid: int
    offset: int
    max_ts: int | None


_UNKNOWN = _Synced(0, 0, None)


class ClosedSegment(NamedTuple):
    """A segment that takes no more records: its number, the largest timestamp in it, its bytes.

    TS_MAX where the footer can't be read: it is then kept until somebody looks at it.
    """

    fid: int
    max_ts: int
    bytes: int


def name(fid: int) -> str:
    return f"{DIRECTORY}/{fid:06d}.vlog"


class Segments:
    """Open with `open`, then scan, append, read. Only the writer appends."""

    def __init__(self, disk: Disk, *, segment_bytes: int, sync: bool) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._sync = sync
        self._files: dict[int, File] = {}
        self._fids: list[int] = []
        self._footers: dict[int, int] = {}
        self._max_ts = 0
        self._readable = Pointer(0, 0)
        self._hint: File | None = None
        self.truncated_bytes = 0

    @property
    def fids(self) -> list[int]:
        """Numbers of the segments, oldest first."""
        return list(self._fids)

    @property
    def end(self) -> Pointer:
        """Where the next record goes."""
        last = self._fids[-1]
        return Pointer(last, self._files[last].size)

    @property
    def readable(self) -> Pointer:
        """Where the records end that are written and synced. `end` may be beyond it meanwhile: an
        append grows the file before its sync, and only synced records are readable (I1)."""
        return self._readable

    @property
    def start(self) -> Pointer:
        return Pointer(self._fids[0], 0)

    async def open(self) -> None:
        """Open all segments, mend the last one, make everything in them durable. Raises Corrupt."""
        self.close()
        self._max_ts = 0
        self._disk.mkdir(DIRECTORY)
        await self._disk.sync_dir(".")  # else a power loss takes the directory, and all in it
        found = (_NAME.fullmatch(entry) for entry in self._disk.listdir(DIRECTORY))
        self._fids = sorted(int(match[1]) for match in found if match)
        for fid in self._fids:
            self._files[fid] = await self._disk.open(name(fid))
        synced = self._read_hint()
        if synced[:2] > (max(self._fids, default=0), 0) and synced.fid not in self._fids:
            raise Corrupt(f"{name(synced.fid)} was written and is gone")
        self._hint = await self._disk.open(SYNCED, create=True)
        if not self._fids:
            await self._create(0)
            return
        last = self._fids[-1]
        if await self._mend(last, synced if synced.fid == last else _UNKNOWN):
            await self._create(last + 1)

    def close(self) -> None:
        for file in [*self._files.values(), self._hint]:
            if file is not None:
                file.close()
        self._files, self._footers, self._hint = {}, {}, None

    def _read_hint(self) -> _Synced:
        """What is surely synced; zeros when unknown."""
        if not self._disk.exists(SYNCED):
            return _UNKNOWN
        data = self._disk.read_file(SYNCED)
        for layout in (_SYNCED, _SYNCED_BEFORE):
            body, crc = data[: layout.size], data[layout.size :]
            if len(crc) == _CRC.size and _CRC.unpack(crc)[0] == crc32c(body):
                fid, offset, *rest = layout.unpack(body)
                return _Synced(fid, offset, rest[0] if rest else None)
        log.warning("the synced offset can't be read, nothing is known to be synced")
        return _UNKNOWN

    def _write_hint(self) -> None:
        if self._hint is not None:
            body = _SYNCED.pack(*self.end, self._max_ts)
            self._hint.overwrite(body + _CRC.pack(crc32c(body)))

    def _footer(self, fid: int) -> int | None:
        """The largest timestamp of a closed segment; None while it is open.

        Should a payload's end look like one, the segment is merely left as it is and the next
        begun: a scan trusts a footer only where the records end.
        """
        file = self._files[fid]
        if file.size < record.FOOTER_BYTES:
            return None
        return record.parse_footer(file.read(file.size - record.FOOTER_BYTES, record.FOOTER_BYTES))

    async def _mend(self, fid: int, known: _Synced) -> bool:
        """Find the end of the last segment's records, cut a torn tail beyond what is known to be
        synced, make the rest durable. What is known isn't read again; the loop goes on between two
        steps. True if it is closed: a footer counts where the records end, never within a torn one.

        The rest is written again: if a sync of it failed the kernel may call it clean, and a mere
        sync would promise what the next power loss takes. Once this is not the last segment, nobody
        may cut anything off it any more.
        """
        file, synced = self._files[fid], known.offset
        if file.size < synced:
            raise Corrupt(f"{name(fid)} has {file.size} bytes, {synced} were synced")
        good, bad = 0, ""
        if known.max_ts is not None:
            good, self._max_ts = synced, known.max_ts
        for step in self._walk(fid, good, file.size):
            await asyncio.sleep(0)
            good, bad = step.end, step.bad
            for _, payload in step.records:
                facts = classify(payload)
                self._max_ts = max(self._max_ts, facts.start_ts, facts.commit_ts)
        if bad and good < synced:
            raise Corrupt(
                f"{name(fid)}: bad record ({bad}) at offset {good}, synced up to {synced}"
            )
        closed = file.size - good == record.FOOTER_BYTES and self._footer(fid) is not None
        if good < file.size and not closed:
            self.truncated_bytes = file.size - good
            log.warning("cut a torn tail", segment=name(fid), offset=good, bytes=file.size - good)
            await file.truncate(good)
        await file.rewrite(min(synced, good))
        self._readable = Pointer(fid, good)
        await self._disk.sync_dir(DIRECTORY)
        if not closed:
            self._write_hint()
        return closed

    async def _create(self, fid: int) -> None:
        file = await self._disk.open(name(fid), create=True)
        await self._disk.sync_dir(DIRECTORY)
        self._files[fid] = file
        self._fids.append(fid)
        self._max_ts = 0
        self._readable = Pointer(fid, 0)
        self._write_hint()

    async def append(self, chunks: Sequence[Buffer], max_ts: int) -> Pointer:
        """Append framed records, durably if sync-log is on; returns the first one's pointer.

        Raises IoFailed or DiskFull; the segment then takes no more. `rotate` first.
        """
        fid = self._fids[-1]
        hit("pump.segments.before_append")
        offset = await self._files[fid].append(chunks, sync=self._sync)
        hit("pump.segments.after_sync")
        self._readable = self.end
        self._max_ts = max(self._max_ts, max_ts)
        if self._sync:
            self._write_hint()
        return Pointer(fid, offset)

    async def rotate(self, coming: int) -> None:
        """Close the last segment and begin the next if `coming` more bytes would be too many."""
        fid, size = self.end
        if size == 0 or size + coming <= self._segment_bytes:
            return
        await self._files[fid].append([record.footer(self._max_ts)], sync=True)
        hit("pump.segments.between_rotation")
        await self._create(fid + 1)

    def closed(self) -> list[ClosedSegment]:
        """All segments but the last, oldest first."""
        found = []
        for fid in self._fids[:-1]:
            if fid not in self._footers:
                max_ts = self._footer(fid)
                self._footers[fid] = TS_MAX if max_ts is None else max_ts
            found.append(ClosedSegment(fid, self._footers[fid], self._files[fid].size))
        return found

    async def remove(self, fids: Iterable[int]) -> None:
        """Delete closed segments, durably; oldest first, so that a crash leaves the newer ones.
        Whoever still reads one gets Purged. Numbers that are gone already are no error."""
        going = sorted({*fids} & {*self._fids})
        if self._fids and self._fids[-1] in going:
            raise InvariantBroken(f"{name(self._fids[-1])} is being written, it can't be removed")
        for fid in going:
            await self._disk.remove(name(fid))
            self._fids.remove(fid)
            self._footers.pop(fid, None)
            self._files.pop(fid).close()
        if going:
            await self._disk.sync_dir(DIRECTORY)

    def _file(self, fid: int) -> File:
        file = self._files.get(fid)
        if file is None:
            raise Purged(f"{name(fid)} is no longer stored")
        return file

    def read(self, pointer: Pointer, start: int, length: int) -> bytes:
        """`length` bytes from `start` after the header, unchecked. Raises Purged, Corrupt."""
        data = self._file(pointer.fid).read(pointer.offset + record.HEADER_BYTES + start, length)
        if len(data) != length:
            raise self._corrupt(pointer, "the file ends within the record")
        return data

    def window(self, pointer: Pointer, length: int) -> bytes:
        """Up to `length` raw bytes from a record on, framing included. Raises Purged."""
        return self._file(pointer.fid).read(pointer.offset, length)

    def header(self, pointer: Pointer) -> record.Header:
        """Raises Purged, Corrupt."""
        data = self.read(pointer, -record.HEADER_BYTES, record.HEADER_BYTES)
        head = record.parse_header(data)
        if head is None:
            raise self._corrupt(pointer, "no record starts here")
        return head

    def payload(self, pointer: Pointer) -> bytes:
        """One record's payload, checked. Raises Purged, Corrupt."""
        head = self.header(pointer)
        payload = self.read(pointer, 0, head.length)
        if not record.matches(payload, head.crc):
            raise self._corrupt(pointer, "checksum mismatch")
        return payload

    def _corrupt(self, pointer: Pointer, what: str) -> Corrupt:
        return Corrupt(f"{name(pointer.fid)} at offset {pointer.offset}: {what}")

    async def scan(self, pointer: Pointer, until: Pointer | None = None) -> AsyncIterator[Records]:
        """Records from `pointer` on to `until`, where a record begins, or to the end; a MiB or one
        record at a time. Beside a writer `until` is `readable` at the latest. The list of files is
        taken once, at the beginning. Raises Corrupt, and Purged if one is removed meanwhile."""
        stop = until or self.end
        for fid in [fid for fid in self._fids if pointer.fid <= fid <= stop.fid]:
            begin = pointer.offset if fid == pointer.fid else 0
            size = stop.offset if fid == stop.fid else self._file(fid).size
            good, bad = begin, ""
            for step in self._walk(fid, begin, size):
                good, bad = step.end, step.bad
                if step.records:
                    yield [(Pointer(fid, offset), payload) for offset, payload in step.records]
            rest = size - good
            closed = rest == record.FOOTER_BYTES and self._footer(fid) is not None
            if rest and not closed:
                raise self._corrupt(Pointer(fid, good), bad or "the record is cut off")

    def _walk(self, fid: int, begin: int, size: int) -> Iterator[_Step]:
        """One segment from offset `begin` up to `size`, READ_BYTES or one record a step."""
        at, wanted = begin, READ_BYTES
        while at < size:
            data = self._file(fid).read(at, min(wanted, size - at))
            found = record.split(data, at)
            at += found.consumed
            yield _Step(found.records, at, found.bad)
            if found.bad or (not found.consumed and len(data) < wanted):
                if not found.bad:
                    yield _Step([], at, "the file ends within it")
                return
            wanted = max(READ_BYTES, found.wanted)
