"""The embedded DDL history: jobs (TiDB's JSON) in one append-only file, acked after fdatasync.

Records are framed `length u32 | crc32c u32 | JSON`, little-endian. Beside the file lies the length
that was surely synced, with a checksum: a torn tail is cut only beyond it, anything bad before it
stops us (the rule of segments, design section 6).
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_right

import msgspec
import structlog
from crc32c import crc32c

from tidelog.actor import Actor, Reply
from tidelog.errors import BadInput, Conflict, Corrupt, DiskFull, Refused
from tidelog.failpoints import hit
from tidelog.messages import DdlJobs, DdlList, Empty
from tidelog.ports import File, Ports
from tidelog.schema.model import DdlJob
from tidelog.synced import pack_length, unpack_length
from tidelog.unreadable import NOT_READABLE
from tidelog_registry import metrics

log = structlog.get_logger()

PATH = "ddl-history.log"
SYNCED_PATH = "ddl-history.synced"
HEADER = struct.Struct("<II")
JOB_BYTES = 8 << 20
PAGE_BYTES = 256 << 10
ANSWER_BYTES = 64
"""What a DdlJobs has around its jobs, at most; a comma comes with each."""
MAX_JOBS = 1_000_000
MAX_ID = (1 << 63) - 1


class Append(msgspec.Struct, frozen=True):
    """Keep a job; with `after` only as the successor of that one."""

    job: bytes
    reply: Reply[Empty]
    after: int | None = None


class Page(msgspec.Struct, frozen=True):
    """Read jobs."""

    wanted: DdlList
    reply: Reply[DdlJobs]


class _Id(msgspec.Struct, frozen=True):
    id: int


class _Places:
    """Where the JSON of each job lies, by id: 24 bytes for each, as there may be MAX_JOBS."""

    def __init__(self) -> None:
        self._ids, self._offsets, self._lengths = array("q"), array("q"), array("q")

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def newest(self) -> int:
        """The highest id, 0 = there is none."""
        return self._ids[-1] if self._ids else 0

    def add(self, job_id: int, offset: int, length: int) -> None:
        at = self.above(job_id)
        self._ids.insert(at, job_id)
        self._offsets.insert(at, offset)
        self._lengths.insert(at, length)

    def above(self, job_id: int) -> int:
        """How many ids are at most that one: the index of the next."""
        return len(self._ids) if job_id >= self.newest else bisect_right(self._ids, job_id)

    def of(self, job_id: int) -> tuple[int, int] | None:
        at = self.above(job_id) - 1
        return self[at] if at >= 0 and self._ids[at] == job_id else None

    def __getitem__(self, at: int) -> tuple[int, int]:
        """Offset and length."""
        return self._offsets[at], self._lengths[at]


class DdlStore(Actor[Append | Page]):
    def __init__(self, ports: Ports) -> None:
        self._disk = ports.disk
        self._bus = ports.bus
        self._file: File
        self._synced: File
        self._places = _Places()
        self._full = False
        """The synced length found no room: its file takes no more before it is opened again."""

    def weigh(self, message: Append | Page) -> int:
        return len(message.job) + 64 if isinstance(message, Append) else 64

    async def on_start(self) -> None:
        await self._open()

    async def on_stop(self) -> None:
        self._close()

    async def _open(self) -> None:
        self._file = await self._disk.open(PATH, create=True)
        self._synced = await self._disk.open(SYNCED_PATH, create=True)
        await self._disk.sync_dir(".")
        self._places = _Places()
        await self._recover(unpack_length(self._synced.read(0, self._synced.size)))
        self._full = False
        self._mark()

    def _close(self) -> None:
        self._file.close()
        self._synced.close()

    async def on_batch(self, batch: list[Append | Page]) -> None:
        await self._append([m for m in batch if isinstance(m, Append)])
        for message in batch:
            if isinstance(message, Page):
                message.reply.set(self._page(message.wanted))

    def status(self) -> dict[str, object]:
        return {"jobs": len(self._places), "bytes": self._file.size}

    async def _recover(self, synced: int) -> None:
        position, size = 0, self._file.size
        while (found := self._read_record(position, size)) is not None:
            job_id, length = found
            self._places.add(job_id, position + HEADER.size, length)
            position += HEADER.size + length
        if position < synced:
            what = "has a bad record" if position < size else "ends"
            raise Corrupt(f"{PATH} {what} at offset {position}, {synced} bytes were synced")
        if position < size:
            metrics.DDL_TORN_BYTES.inc(size - position)
            log.warning("cut an unacknowledged tail", file=PATH, at=position, bytes=size - position)
            await self._file.truncate(position)
        # What an earlier life wrote and did not sync can be read, and a mere sync may do nothing.
        await self._file.rewrite(synced)

    def _read_record(self, position: int, size: int) -> tuple[int, int] | None:
        if position + HEADER.size > size:
            return None
        length, crc = HEADER.unpack(self._file.read(position, HEADER.size))
        if not 0 < length <= JOB_BYTES or position + HEADER.size + length > size:
            return None
        data = self._file.read(position + HEADER.size, length)
        return (_job_id(data, position), length) if crc32c(data) == crc else None

    def _at(self, job_id: int) -> bytes | None:
        place = self._places.of(job_id)
        return None if place is None else self._file.read(*place)

    async def _append(self, asks: list[Append]) -> None:
        """One write and one fdatasync for all; the same job again is acked, another one of its id
        is refused, and one that was planned before the newest came, or that nobody could read."""
        chunks: list[bytes] = []
        fresh: dict[int, bytes] = {}
        accepted: list[Append] = []
        for ask in asks:
            try:
                job_id = _checked(ask.job).id
                if len(ask.job) > min(JOB_BYTES, self._room):
                    raise BadInput(f"DDL job {job_id} has {len(ask.job)} bytes")
                kept = self._at(job_id)
                known = kept or fresh.get(job_id)
                if known is not None and known != ask.job:
                    raise Conflict(f"DDL job {job_id} is kept already, with another content")
                newest = max([self._places.newest, *fresh])
                if known is None and ask.after not in (None, newest):
                    raise Conflict(f"the newest DDL job is {newest}, not {ask.after}")
                if known is None and len(self._places) + len(fresh) >= MAX_JOBS:
                    raise Refused(f"{MAX_JOBS} DDL jobs are kept")
            except (BadInput, Conflict, Refused) as error:
                metrics.DDL_JOBS.labels(type(error).__name__).inc()
                ask.reply.fail(error)
                continue
            if kept is not None:
                ask.reply.set(Empty())
                continue
            accepted.append(ask)
            if known is None:
                fresh[job_id] = ask.job
                chunks += [HEADER.pack(len(ask.job), crc32c(ask.job)), ask.job]
        try:
            if chunks:
                await self._keep(chunks, fresh)
        except DiskFull as error:
            log.warning("no room for DDL jobs", jobs=list(fresh), reason=error.message)
            for ask in accepted:
                metrics.DDL_JOBS.labels(type(error).__name__).inc()
                ask.reply.fail(error)
            return
        for ask in accepted:
            ask.reply.set(Empty())

    async def _keep(self, chunks: list[bytes], fresh: dict[int, bytes]) -> None:
        """Raises DiskFull: nothing of it is kept."""
        if self._full:
            self._close()
            await self._open()
        size = self._file.size
        hit("registry.ddl.before_append")
        try:
            offset = await self._file.append(chunks, sync=True)
        except DiskFull:
            await self._cut(size)
            raise
        hit("registry.ddl.synced")
        for job_id, job in fresh.items():
            self._places.add(job_id, offset + HEADER.size, len(job))
            offset += HEADER.size + len(job)
        self._mark()
        metrics.DDL_JOBS.labels("kept").inc(len(fresh))

    async def _cut(self, size: int) -> None:
        """What was written of jobs that are refused is whole perhaps: no start may take it up."""
        self._file.close()
        self._file = await self._disk.open(PATH)
        await self._file.truncate(size)

    def _mark(self) -> None:
        """All that is in the file is synced."""
        try:
            self._synced.overwrite(pack_length(self._file.size))
        except DiskFull as error:
            # The jobs are durable; the length that was before is true, too.
            log.warning("no room for the synced length", reason=error.message)
            self._full = True

    @property
    def _room(self) -> int:
        """Of an answer, for jobs: what is kept must be told again."""
        return self._bus.max_payload - ANSWER_BYTES

    def _page(self, wanted: DdlList) -> DdlJobs:
        """Oldest first; at least one job, else up to `limit`, PAGE_BYTES and what the bus takes."""
        index = self._places.above(wanted.after_job_id)
        jobs: list[msgspec.Raw] = []
        room = min(PAGE_BYTES, self._room)
        while index < len(self._places) and len(jobs) < max(1, wanted.limit):
            offset, length = self._places[index]
            if jobs and length > room:
                break
            jobs.append(msgspec.Raw(self._file.read(offset, length)))
            room -= length + 1
            index += 1
        return DdlJobs(jobs, more=index < len(self._places))


def _checked(job: bytes) -> DdlJob:
    """What every reader of the history will make of it: once it is kept, nobody passes by one that
    can't be read. Raises BadInput."""
    try:
        found = msgspec.json.decode(job, type=DdlJob)
    except NOT_READABLE as error:
        raise BadInput(f"that is no DDL job: {error}") from error
    if not 0 < found.id <= MAX_ID:
        raise BadInput(f"a DDL job's id is 1 to 2^63-1, not {found.id}")
    return found


def _job_id(job: bytes, position: int) -> int:
    """Of one that is kept there. Raises Corrupt."""
    try:
        return msgspec.json.decode(job, type=_Id).id
    except NOT_READABLE as error:
        raise Corrupt(f"{PATH} has no DDL job at offset {position}: {error}") from error
