"""The value log: append-only segment files, the truth of this Pump (design section 6, B.1).

`value/%06d.vlog` from 000000 on, records framed by `tidelog.record`, a footer on every segment but
the last; on that too after a clean stop, if it is large, so that the next start reads nothing of it
and begins a new one. Numbers may have gaps where segments were removed; other files are left alone.

Beside them `synced` says up to where the last segment is synced (see synced.py), and `closed` what
the closed ones were (see catalog.py). What lies beyond the synced offset and can't be read is a
torn tail, cut off at start. What lies before it isn't read then: a bad record there is `Corrupt`,
with file and offset, to whoever reads it, the index's replay or a pull. A closed segment that is
damaged or lost stops its readers, not the Pump: the newer ones take and serve binlogs.

After a failed fsync the kernel may call pages clean that never reached the disk: they are read well
from its cache, every later fsync says yes, and a power loss brings the old bytes back (ATC'20). So
the process that met the failure ends, and acks nothing of that batch. Its successor can't tell what
the disk has of the records beyond the synced offset. It may not cut them off: after a power loss
the synced offset is a lower bound, they may be acked. It may not trust them either, or acked
records would come to lie behind a hole. So it writes them once more, which makes their pages dirty
again, syncs, and only then are they part of the log.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from typing import NamedTuple

import structlog

from tidelog import record
from tidelog.errors import Corrupt, DiskFull, InvariantBroken, Purged, UnparsablePayload
from tidelog.failpoints import hit
from tidelog.ports import Buffer, Disk, File
from tidelog.timestamps import TS_MAX
from tidelog_pump.log.catalog import Catalog, ClosedSegment
from tidelog_pump.log.payload import classify
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.synced import UNKNOWN, Synced, SyncedFile
from tidelog_pump.metrics import DAMAGED, SYNC_LOG

log = structlog.get_logger()

DIRECTORY = "value"
SYNCED = f"{DIRECTORY}/synced"
CLOSED = f"{DIRECTORY}/closed"
READ_BYTES = 1 << 20
CLOSE_BYTES = 50 << 10
"""A last segment of this size is closed at a clean stop, as the original's is."""
MAX_FID = (1 << 32) - 1
SHOWN = 8
_NAME = re.compile(r"(\d{6,10})\.vlog")
_ENDS = "the file ends within it"
GONE = "it was written and is gone"
GONE_HINT = f"restore it, or accept the loss of its records: delete {CLOSED} and {SYNCED}"

Records = list[tuple[Pointer, memoryview]]


class _Step(NamedTuple):
    """Records as (offset, payload), the offset after them, why they end there ("" = they don't)."""

    records: list[tuple[int, memoryview]]
    end: int
    bad: str


def _file_name(fid: int) -> str:
    return f"{fid:06d}.vlog"


def name(fid: int) -> str:
    return f"{DIRECTORY}/{_file_name(fid)}"


class Segments:
    """Open with `open`, then scan, append, read. Only the writer appends."""

    def __init__(self, disk: Disk, *, segment_bytes: int, sync: bool) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self._sync = sync
        self._files: dict[int, File] = {}
        self._fids: list[int] = []
        self._closed: dict[int, ClosedSegment] = {}
        self._damaged: dict[int, str] = {}
        """Closed segments that are not what they were, or gone: what is wrong."""
        self._going: set[int] = set()
        self._saving = asyncio.Lock()
        self._end = 0
        self._max_ts = 0
        self._synced = SyncedFile(disk, SYNCED)
        self._catalog = Catalog(disk, CLOSED)
        self.truncated_bytes = 0

    @property
    def fids(self) -> list[int]:
        """Numbers of the segments, oldest first."""
        return list(self._fids)

    @property
    def end(self) -> Pointer:
        """Where the next record goes; what lies before is synced (if sync-log is on)."""
        return Pointer(self._fids[-1], self._end)

    @property
    def readable(self) -> Pointer:
        """`end`, for who scans beside the writer: an append moves it after its sync, while the file
        has grown before it, and only synced records are readable (I1)."""
        return self.end

    @property
    def start(self) -> Pointer:
        """Of the oldest segment, be it lost: a scan from here passes over nothing."""
        return Pointer(min(self._fids[0], *self._damaged, TS_MAX), 0)

    @property
    def newest_ts(self) -> int:
        """The largest timestamp of all records; 0 = there is none. Of a segment whose footer is
        damaged only that it holds some."""
        closed = [segment.max_ts for segment in self._closed.values()]
        known = [1 if max_ts == TS_MAX else max_ts for max_ts in closed]
        return max(self._max_ts, int(self._end > 0), *known)

    def status(self) -> dict[str, object]:
        return {
            "sync_log": self._sync,
            "segments": len(self._fids),
            "segment_bytes": self._end + sum(segment.bytes for segment in self.closed()),
            "damaged_segments": {name(fid): why for fid, why in sorted(self._damaged.items())},
        }

    async def open(self) -> None:
        """Open all segments, mend the last one, make everything in them durable. Raises Corrupt."""
        self.close()
        if not self._sync:
            log.warning("sync-log is off: what is acked may be lost when the machine stops")
        SYNC_LOG.set(self._sync)
        self._disk.mkdir(DIRECTORY)
        await self._disk.sync_dir(".")  # else a power loss takes the directory, and all in it
        self._fids = self._listed()
        for fid in self._fids:
            self._files[fid] = await self._disk.open(name(fid))
        synced, recorded = self._synced.load(), self._catalog.load()
        self._nothing_newer(synced or UNKNOWN, recorded)
        for fid in {*self._fids[:-1], *recorded}:
            self._look_at(fid, recorded.get(fid))
        if not self._fids:
            await self._create(0)
        elif await self._mend(self._fids[-1], synced):
            self._close_last()
            await self._create(self._fids[-1] + 1)
        await self._synced.begin(Synced(*self.end, self._max_ts))
        if self._closed != recorded:
            await self._save_catalog()

    def close(self) -> None:
        """Let go of the files as they are; `finish` is the clean end."""
        for file in self._files.values():
            file.close()
        self._synced.close()
        self._files, self._fids, self._closed, self._damaged = {}, [], {}, {}
        self._end = self._max_ts = 0
        self._going.clear()

    async def finish(self) -> None:
        """A clean end: the next start finds a footer, or the synced offset, and scans nothing."""
        if self._fids and self._files[self._fids[-1]].size == self._end:
            try:
                await self._seal(self._files[self._fids[-1]])
            except DiskFull as error:
                log.warning("no room to close the last segment", error=error.message)
        self.close()

    async def _seal(self, file: File) -> None:
        if self._end >= CLOSE_BYTES:
            await file.append([record.footer(self._max_ts)], sync=True)
        elif not self._sync:
            await file.sync()
        self._synced.note(Synced(*self.end, self._max_ts))
        await self._synced.sync()

    def _listed(self) -> list[int]:
        entries = self._disk.listdir(DIRECTORY)
        found = [int(match[1]) for entry in entries if (match := _NAME.fullmatch(entry))]
        fids = sorted(fid for fid in found if fid <= MAX_FID and _file_name(fid) in entries)
        ours = {SYNCED, CLOSED, f"{SYNCED}.tmp", f"{CLOSED}.tmp", *map(name, fids)}
        foreign = [entry for entry in entries if f"{DIRECTORY}/{entry}" not in ours]
        if foreign:
            log.warning("files that are not ours lie among the segments", files=foreign[:SHOWN])
        return fids

    def _nothing_newer(self, synced: Synced, recorded: dict[int, ClosedSegment]) -> None:
        """The newest segment must be there: what is appended may never take its place."""
        last = self._fids[-1] if self._fids else -1
        newest = max([synced.fid if synced != UNKNOWN else -1, *(fid + 1 for fid in recorded)])
        if newest > last:
            raise Corrupt(f"{name(newest)}: {GONE}", hint=GONE_HINT)

    def _look_at(self, fid: int, recorded: ClosedSegment | None) -> None:
        """Is a closed segment what it was? No record of it is read."""
        if recorded is not None and fid not in self._files:
            why, at, found = GONE, 0, recorded
        else:
            size, max_ts = self._files[fid].size, self._footer(fid)
            found = ClosedSegment(fid, TS_MAX if max_ts is None else max_ts, size)
            why, at = "", max(0, size - record.FOOTER_BYTES)
            if recorded is not None and size != recorded.bytes:
                why, at = f"it has {size} bytes, {recorded.bytes} were written", size
            elif max_ts is None or (recorded is not None and found != recorded):
                why = "its footer is damaged"
        self._closed[fid] = recorded or found
        if why:
            self._damaged[fid] = why
            DAMAGED.inc()
            log.error("a closed segment is damaged", segment=name(fid), offset=at, what=why)

    def _footer(self, fid: int) -> int | None:
        """What stands in a footer's place, if it looks like one: the largest timestamp."""
        file = self._files[fid]
        if file.size < record.FOOTER_BYTES:
            return None
        return record.parse_footer(file.read(file.size - record.FOOTER_BYTES, record.FOOTER_BYTES))

    async def _mend(self, fid: int, synced: Synced | None) -> bool:
        """Find the end of the last segment's records, cut a torn tail beyond what is known to be
        synced, make the rest durable. What is known isn't read again; the loop goes on between two
        steps. True if it is closed: a footer counts where the records end, never within a torn one,
        and of ours only if it says what the records say."""
        file, footer = self._files[fid], self._footer(fid)
        if synced is None and footer is not None:
            # The original closed it, and synced that.
            self._end, self._max_ts = file.size - record.FOOTER_BYTES, footer
            return True
        known = synced if synced is not None and synced.fid == fid else UNKNOWN
        if file.size < known.offset:
            raise Corrupt(f"{name(fid)} has {file.size} bytes, {known.offset} were synced")
        good = await self._read_tail(fid, known)
        closed = file.size - good == record.FOOTER_BYTES and footer == self._max_ts
        if good < file.size and not closed:
            self.truncated_bytes = file.size - good
            log.warning("cut a torn tail", segment=name(fid), offset=good, bytes=file.size - good)
            await file.truncate(good)
        await file.rewrite(known.offset)  # see above: a mere sync may say yes and do nothing
        await self._disk.sync_dir(DIRECTORY)
        self._end = good
        return closed

    async def _read_tail(self, fid: int, known: Synced) -> int:
        """The offset where the records end, and `_max_ts` up to there. Raises Corrupt."""
        good, bad = 0, ""
        if known.max_ts is not None:
            good, self._max_ts = known.offset, known.max_ts
        for step in self._walk(fid, good, self._files[fid].size):
            await asyncio.sleep(0)
            good, bad = step.end, step.bad
            for offset, payload in step.records:
                self._max_ts = max(self._max_ts, self._newest(Pointer(fid, offset), payload))
        if bad and good < known.offset:
            raise Corrupt(
                f"{name(fid)}: bad record ({bad}) at offset {good}, synced up to {known.offset}"
            )
        return good

    def _newest(self, pointer: Pointer, payload: memoryview) -> int:
        try:
            facts = classify(payload)
        except UnparsablePayload as error:
            raise self._corrupt(pointer, error.message) from error
        return max(facts.start_ts, facts.commit_ts)

    def _close_last(self) -> None:
        fid = self._fids[-1]
        self._closed[fid] = ClosedSegment(fid, self._max_ts, self._files[fid].size)

    async def _create(self, fid: int) -> None:
        file = await self._disk.open(name(fid), create=True)
        await self._disk.sync_dir(DIRECTORY)
        self._files[fid] = file
        self._fids.append(fid)
        self._end = self._max_ts = 0
        self._synced.note(Synced(fid, 0, 0))

    async def append(self, chunks: Sequence[Buffer], max_ts: int) -> Pointer:
        """Append framed records, durably if sync-log is on; returns the first one's pointer.

        Raises IoFailed or DiskFull; the segment then takes no more, this process neither.
        """
        fid = self._fids[-1]
        hit("pump.segments.before_append")
        offset = await self._files[fid].append(chunks, sync=self._sync)
        hit("pump.segments.after_sync")
        self._end = self._files[fid].size
        self._max_ts = max(self._max_ts, max_ts)
        if self._sync:
            self._synced.note(Synced(fid, self._end, self._max_ts))
        return Pointer(fid, offset)

    async def rotate(self, coming: int) -> None:
        """Close the last segment and begin the next if `coming` more bytes would be too many."""
        fid, size = self.end
        if size == 0 or size + coming <= self._segment_bytes:
            return
        await self._files[fid].append([record.footer(self._max_ts)], sync=True)
        self._close_last()
        hit("pump.segments.between_rotation")
        await self._create(fid + 1)
        await self._save_catalog()

    def closed(self) -> list[ClosedSegment]:
        """All segments but the last, oldest first."""
        return [self._closed[fid] for fid in self._fids[:-1] if fid in self._closed]

    async def remove(self, fids: Iterable[int]) -> None:
        """Delete closed segments, durably; oldest first, so that a crash leaves the newer ones.
        Whoever still reads one gets Purged. What is gone already is no error, be it the file only:
        a gc that is cancelled leaves the unlink under way to its thread, and the next goes on."""
        going = sorted({*fids} & {*self._closed})
        if self._fids[-1] in {*fids}:
            raise InvariantBroken(f"{name(self._fids[-1])} is being written, it can't be removed")
        if not going:
            return
        self._going.update(going)
        await self._save_catalog()
        for fid in going:
            if fid in self._files:
                if self._disk.exists(name(fid)):
                    await self._disk.remove(name(fid))
                self._fids.remove(fid)
                self._files.pop(fid).close()
            for known in (self._closed, self._damaged):
                known.pop(fid, None)
        await self._disk.sync_dir(DIRECTORY)
        self._going.difference_update(going)

    async def _save_catalog(self) -> None:
        """One at a time: the writer closes segments while others are removed."""
        async with self._saving:
            await self._catalog.save(
                [segment for fid, segment in self._closed.items() if fid not in self._going]
            )

    def _file(self, fid: int) -> File:
        file = self._files.get(fid)
        if file is not None:
            return file
        if fid in self._damaged:
            raise Corrupt(f"{name(fid)}: {GONE}", hint=GONE_HINT)
        raise Purged(f"{name(fid)} is no longer stored")

    def read(self, pointer: Pointer, start: int, length: int) -> bytes:
        """`length` bytes from `start` after the header, unchecked. Raises Purged, Corrupt."""
        file, at = self._file(pointer.fid), pointer.offset + record.HEADER_BYTES + start
        if at + length > file.size:
            raise self._corrupt(pointer, "the file ends within the record")
        return file.read(at, length)

    def window(self, pointer: Pointer, length: int) -> bytes:
        """Up to `length` raw bytes from a record on, framing included. Raises Purged."""
        return self._file(pointer.fid).read(pointer.offset, length)

    def is_boundary(self, pointer: Pointer) -> bool:
        """Does a record begin there, or the log or a closed segment end? Raises Purged, Corrupt."""
        if pointer == self.end:
            return True
        found = self.window(pointer, record.HEADER_BYTES)
        if len(found) == record.FOOTER_BYTES:
            return record.parse_footer(found) is not None
        return record.parse_header(found) is not None

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

    async def scan(
        self, pointer: Pointer, until: Pointer | None = None
    ) -> AsyncGenerator[Records, None]:
        """Records from `pointer` on to `until`, where a record begins, or to the end; a MiB or one
        record at a time. The list of files, and where they end, is taken once, at the beginning.
        Raises Corrupt behind the last good record, and Purged if a file is removed meanwhile."""
        stop = until or self.end
        fids = sorted({*self._fids, *self._damaged})
        for fid, size in [(fid, self._records_end(fid)) for fid in fids]:
            if not pointer.fid <= fid <= stop.fid:
                continue
            good, bad = pointer.offset if fid == pointer.fid else 0, ""
            size = stop.offset if fid == stop.fid else size
            for step in self._walk(fid, good, size):
                good, bad = step.end, step.bad
                if step.records:
                    yield [(Pointer(fid, offset), payload) for offset, payload in step.records]
            if fid < stop.fid and not bad:
                bad = self._damaged.get(fid, "")
            if bad or good != size:
                raise self._corrupt(Pointer(fid, good), bad or "no record can begin here")

    def _records_end(self, fid: int) -> int:
        """Where a segment's footer begins, or its file ends."""
        if fid == self._fids[-1]:
            return self._end
        size = self._files[fid].size if fid in self._files else 0
        return max(0, min(size, self._closed[fid].bytes - record.FOOTER_BYTES))

    def _walk(self, fid: int, begin: int, size: int) -> Iterator[_Step]:
        """One segment from offset `begin` up to `size`, READ_BYTES or one record a step."""
        at, wanted = begin, READ_BYTES
        while at < size:
            asked = min(wanted, size - at)
            data = self._file(fid).read(at, asked)
            found = record.split(data, at)
            at += found.consumed
            yield _Step(found.records, at, found.bad)
            if found.bad:
                return
            needed = found.wanted or record.HEADER_BYTES
            if len(data) < asked or at < size < at + needed:
                yield _Step([], at, _ENDS)
                return
            wanted = max(READ_BYTES, found.wanted)
