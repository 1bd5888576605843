"""The relay log (design section 6; docs of the package): append, read, purge.

`relay-%06d` in one directory, records framed by `tidelog.record`; what stands in them is said in
proto/tidelog_proto/relay.proto. A file begins with a header that says what stands before it, and
with the first rows of a table comes its structure: so that each file can be read alone. The next
one begins after a whole batch, once `max_file_bytes` are reached. Pieces of a large batch are
written as they come, and synced with the record that closes it; those of an attempt that was given
up stay where they are and are passed over.

After a failed write or sync the log takes no more: open another one, which mends what is there.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from tidelog.errors import IoFailed
from tidelog.failpoints import hit
from tidelog.ports import Disk
from tidelog.relay import reading, records
from tidelog.relay.batches import Handed, Incoming, Piece, Structures, TableKey
from tidelog.relay.files import Folder, Owner, Part
from tidelog.relay.opening import Opening
from tidelog.relay.spill import Spill
from tidelog.relay.writing import Writing
from tidelog.synced import Synced, SyncedFile

MAX_FILE_BYTES = 10 << 20
"""The original's."""


class BatchLog(Protocol):
    """What RelayLog and Spool have in common."""

    @property
    def end(self) -> int:
        """What lies at or below it is here, or applied: the stream is read from there on."""

    @property
    def kept(self) -> bool:
        """An earlier life left its log here. Whether all that was applied is in it, its epochs
        tell: the log may be younger than the rows."""

    async def open(self, after: int) -> None:
        """`after`: up to where everything is applied. It may be called again after an error of
        `append`: what was handed on stays readable. Raises Corrupt, ForeignDirectory,
        ForeignCluster, RelayGap, IoFailed, DiskFull."""

    async def append(self, items: Sequence[Incoming], structures: Structures) -> list[Handed]:
        """With one gathered write and one sync; the batches among `items`, which may be applied
        now. `structures`: of all tables that the items name, at least. Raises IoFailed, DiskFull;
        then this log takes no more."""

    def batches(self, after: int) -> AsyncGenerator[Handed, None]:
        """What an earlier life left above `after`, in order. One at a time. Raises RelayGap,
        Corrupt."""

    async def purge(self, below: int) -> int:
        """Everything with commit_ts <= `below` is applied, and will not be asked for again: remove
        the files that hold nothing else, never the current one. Returns how many went."""

    def status(self) -> dict[str, object]: ...
    def close(self) -> None: ...


class RelayLog:
    """Open with `open`; one reader, one writer. `directory` is made when missing; "" = the disk's
    own. `cluster_id` 0 = unknown."""

    def __init__(
        self,
        disk: Disk,
        directory: str,
        *,
        feed: str,
        cluster_id: int = 0,
        max_file_bytes: int = MAX_FILE_BYTES,
    ) -> None:
        self._folder = Folder(disk, directory)
        self._owner = Owner(feed, cluster_id)
        self._max_file_bytes = max_file_bytes
        self._synced = SyncedFile(disk, self._folder.synced)
        self._parts: list[Part] = []
        self._stored: set[TableKey] = set()
        """Tables whose structure stands in the current file."""
        self._spill: Spill | None = None
        self._reading: Part | None = None
        self._end = 0
        self._failed = False
        """An append, and it is not open again: `_end` is what is here, whatever was handed on."""
        self.kept = False
        self.truncated_bytes = 0

    @property
    def end(self) -> int:
        return self._end

    async def open(self, after: int) -> None:
        # Positions without changes are handed on and not kept: what follows them follows `_end`.
        reached = self._end if self._failed else after
        self._close()
        await self._folder.make()
        opening = Opening(self._folder, self._owner, self._synced.load())
        try:
            await opening.run()
        except BaseException:
            opening.close()
            raise
        self._parts = opening.parts  # only now: of what is half opened nothing may be purged
        self.truncated_bytes = opening.truncated_bytes
        self._end = max(reached, opening.end)
        self.kept = bool(self._parts)
        if self.kept:  # else the first append makes one: until then nothing can be recovered
            if after < self._parts[0].prev_commit_ts:
                raise reading.RelayGap(after, self._parts[0].prev_commit_ts)
            current = self._parts[-1]
            await self._synced.begin(Synced(current.number, current.file.size, opening.end))
        self._failed = False

    def close(self) -> None:
        self._failed = False
        self._close()

    def _close(self) -> None:
        for part in self._parts:
            part.file.close()
        self._synced.close()
        self._parts, self._stored, self._spill, self._reading = [], set(), None, None

    async def _create(self, number: int) -> None:
        part = await self._folder.open(number, create=True)
        try:
            await self._begin(part)
        except BaseException:
            part.file.close()
            raise
        self._parts.append(part)  # only now: those before it may be purged from here on
        self._stored.clear()
        self._synced.note(Synced(number, part.begin, self._end))

    async def _begin(self, part: Part) -> None:
        """Its header is durable, and its name."""
        part.prev_commit_ts = self._end
        if part.file.size:
            raise IoFailed(f"{part.path} was begun, and that failed")
        header = records.header(self._owner.feed, self._owner.cluster_id, self._end)
        await part.file.append(header, sync=True)
        hit("applier.relay.before_directory_sync")
        await self._folder.sync()
        part.begin = part.file.size
        if not self._parts:
            await self._synced.begin(Synced(part.number, part.begin, self._end))

    async def append(self, items: Sequence[Incoming], structures: Structures) -> list[Handed]:
        if not items:
            return []
        self._failed = True  # until it has not
        await self._rotate_if_full(items[0])
        part = self._parts[-1]
        writing = Writing(part, structures, self._stored, self._spill, self._end)
        for item in items:
            writing.add(item)
        await part.file.append(writing.chunks, sync=bool(writing.handed))
        hit("applier.relay.after_sync")
        self._spill, self._end = writing.spill, writing.end
        self._failed = False
        if writing.handed:
            self._synced.note(Synced(part.number, writing.whole_up_to, self._end))
        return writing.handed

    async def _rotate_if_full(self, first: Incoming) -> None:
        if not self._parts:
            await self._create(0)
        current = self._parts[-1]
        goes_on = first.number > 0 if isinstance(first, Piece) else first.pieces > 0
        if current.file.size < self._max_file_bytes or goes_on:
            return
        if self._spill is not None:  # given up, and not synced: only the last file may be torn
            await current.file.sync()
            self._spill = None
        hit("applier.relay.before_rotation")
        await self._create(current.number + 1)

    async def batches(self, after: int) -> AsyncGenerator[Handed, None]:
        first = max((one.number for one in self._parts if one.prev_commit_ts <= after), default=0)
        reached, parts = after, [(one, one.file.size) for one in self._parts if one.number >= first]
        try:
            for part, end in parts:
                self._reading = part
                async for batch in reading.batches(part, end, after, reached):
                    yield batch
                    reached = batch.commit_ts
        finally:
            self._reading = None

    async def purge(self, below: int) -> int:
        gone = 0
        while len(self._parts) > 1 and self._parts[1].prev_commit_ts <= below:
            if self._parts[0] is self._reading:
                break
            part = self._parts.pop(0)
            part.file.close()
            hit("applier.relay.before_removal")
            # Without a sync: one that a power loss brings back is removed again.
            await self._folder.disk.remove(part.path)
            gone += 1
        return gone

    def status(self) -> dict[str, object]:
        return {
            "relay": self._folder.directory or ".",
            "relay_files": len(self._parts),
            "relay_bytes": sum(part.file.size for part in self._parts),
            "relay_end": self._end,
        }
