"""The value log: append-only segment files, the truth of this Pump (design section 6, B.1).

`value/%06d.vlog` from 000000 on, records framed by `tidelog.record`, a footer on every segment but
the last; on that too after a clean stop, if it is large, so that the next start reads nothing of it
and begins a new one. Numbers may have gaps where segments were removed; other files are left alone.

Beside them `synced` says up to where the last segment is synced (see synced.py), and `closed` what
the closed ones were (see catalog.py). At a start opening.py finds and mends what is there. What
lies beyond the synced offset and can't be read is a torn tail, cut off at start. What lies before
it isn't read then: a bad record there is `Corrupt`, with file and offset, to whoever reads it, the
index's replay or a pull. A closed segment that is damaged or lost stops its readers, not the Pump:
the newer ones take and serve binlogs.

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
from collections.abc import AsyncGenerator, Container, Iterator, Sequence

import structlog

from tidelog import record
from tidelog.errors import Corrupt, DiskFull, InvariantBroken, Purged
from tidelog.failpoints import hit
from tidelog.ports import Buffer, Disk, File
from tidelog.record_walk import Step, walk
from tidelog.synced import Synced, SyncedFile
from tidelog.timestamps import TS_MAX
from tidelog_pump.log.catalog import Catalog, ClosedSegment
from tidelog_pump.log.files import CLOSED, DIRECTORY, GONE, GONE_HINT, SYNCED, corrupt, name
from tidelog_pump.log.opening import Opening
from tidelog_pump.log.place import Pointer
from tidelog_pump.metrics import SYNC_LOG

log = structlog.get_logger()

CLOSE_BYTES = 50 << 10
"""A last segment of this size is closed at a clean stop, as the original's is."""
Records = list[tuple[Pointer, bytes | memoryview]]


class Segments:
    """Open with `open`, then scan, append, read. Only the writer appends."""

    def __init__(self, disk: Disk, *, segment_bytes: int, sync: bool) -> None:
        self._disk = disk
        self._segment_bytes = segment_bytes
        self.sync = sync
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

    def bytes_from(self, pointer: Pointer) -> int:
        """How long the log is behind a pointer, footers included."""
        behind = [closed.bytes for closed in self.closed() if closed.fid >= pointer.fid]
        return max(0, sum(behind) + self._end - pointer.offset)

    @property
    def newest_ts(self) -> int:
        """The largest timestamp of all records; 0 = there is none. Of a segment whose footer is
        damaged only that it holds some."""
        closed = [segment.max_ts for segment in self._closed.values()]
        known = [1 if max_ts == TS_MAX else max_ts for max_ts in closed]
        return max(self._max_ts, int(self._end > 0), *known)

    @property
    def damaged(self) -> dict[str, str]:
        """By name the closed segments that are not what they were, and why."""
        return {name(fid): why for fid, why in sorted(self._damaged.items())}

    def status(self) -> dict[str, object]:
        return {
            "sync_log": self.sync,
            "segments": len(self._fids),
            "segment_bytes": self._end + sum(segment.bytes for segment in self.closed()),
            "damaged_segments": self.damaged,
        }

    async def open(self, reached: Pointer | None = None, first: int = 0) -> None:
        """Open all segments, mend the last one, make everything in them durable. `reached`: where
        the log ended once, by what lies elsewhere; `first`: the lowest number that the last segment
        may have, for those before it were deleted on purpose. Raises Corrupt."""
        self.close()
        if not self.sync:
            log.warning("sync-log is off: what is acked may be lost when the machine stops")
        SYNC_LOG.set(self.sync)
        self._disk.mkdir(DIRECTORY)
        await self._disk.sync_dir(".")  # else a power loss takes the directory, and all in it
        recorded = self._catalog.load()
        if reached is not None and not self.sync:
            reached = Pointer(reached.fid, 0)  # a power loss may have taken its tail
        opening = Opening(self._disk, self._synced.load(), recorded, reached)
        self._files, self._fids = opening.files, opening.fids
        self._closed, self._damaged = opening.closed, opening.damaged
        closed = await opening.run() or (bool(self._fids) and self._fids[-1] < first)
        self._end, self._max_ts = opening.end, opening.max_ts
        self.truncated_bytes = opening.truncated_bytes
        if closed:
            self._close_last()
        if closed or not self._fids:
            await self._create(max(first, self._fids[-1] + 1 if self._fids else 0))
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
        elif not self.sync:
            await file.sync()
        self._synced.note(Synced(*self.end, self._max_ts))
        await self._synced.sync()

    def _close_last(self) -> None:
        fid = self._fids[-1]
        self._closed[fid] = ClosedSegment(fid, self._max_ts, self._files[fid].size)

    async def _create(self, fid: int) -> None:
        file = await self._disk.open(name(fid), create=True)
        hit("pump.segments.before_directory_sync")
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
        offset = await self._files[fid].append(chunks, sync=self.sync)
        hit("pump.segments.after_sync")
        self._end = self._files[fid].size
        self._max_ts = max(self._max_ts, max_ts)
        if self.sync:
            self._synced.note(Synced(fid, self._end, self._max_ts))
        return Pointer(fid, offset)

    async def rotate(self, coming: int) -> None:
        """Close the last segment and begin the next if `coming` more bytes would be too many."""
        fid, size = self.end
        if size == 0 or size + coming <= self._segment_bytes:
            return
        await self._files[fid].append([record.footer(self._max_ts)], sync=True)
        hit("pump.segments.footer_written")
        self._close_last()
        hit("pump.segments.between_rotation")
        await self._create(fid + 1)
        hit("pump.segments.before_catalog")
        await self._save_catalog()

    def closed(self) -> list[ClosedSegment]:
        """All segments but the last, oldest first."""
        return [self._closed[fid] for fid in self._fids[:-1] if fid in self._closed]

    async def remove(self, fids: Container[int]) -> None:
        """Delete closed segments, durably; oldest first, so that a crash leaves the newer ones.
        Whoever still reads one gets Purged. What is gone already is no error, be it the file only:
        a gc that is cancelled leaves the unlink under way to its thread, and the next goes on."""
        going = sorted(fid for fid in self._closed if fid in fids)
        if self._fids[-1] in fids:
            raise InvariantBroken(f"{name(self._fids[-1])} is being written, it can't be removed")
        self._going.update(going)
        if not self._going:
            return
        await self._save_catalog()
        for fid in going:
            if fid in self._files:
                if self._disk.exists(name(fid)):
                    await self._disk.remove(name(fid))
                hit("pump.segments.between_removals")
                self._fids.remove(fid)
                self._files.pop(fid).close()
            for known in (self._closed, self._damaged):
                known.pop(fid, None)
        hit("pump.segments.before_removal_sync")
        await self._disk.sync_dir(DIRECTORY)
        # Of one that was cancelled, too: its files are gone, and that was not durable before.
        self._going.intersection_update(self._closed)

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
            raise corrupt(pointer, "the file ends within the record")
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
            raise corrupt(pointer, "no record starts here")
        return head

    def payload(self, pointer: Pointer) -> bytes:
        """One record's payload, checked. Raises Purged, Corrupt."""
        head = self.header(pointer)
        payload = self.read(pointer, 0, head.length)
        if not record.matches(payload, head.crc):
            raise corrupt(pointer, "checksum mismatch")
        return payload

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
                raise corrupt(Pointer(fid, good), bad or "no record can begin here")

    def _records_end(self, fid: int) -> int:
        """Where a segment's footer begins, or its file ends."""
        if fid == self._fids[-1]:
            return self._end
        size = self._files[fid].size if fid in self._files else 0
        return max(0, min(size, self._closed[fid].bytes - record.FOOTER_BYTES))

    def _walk(self, fid: int, begin: int, size: int) -> Iterator[Step]:
        """One segment; each step raises Purged if the file was removed meanwhile."""
        return walk(lambda at, length: self._file(fid).read(at, length), begin, size)
