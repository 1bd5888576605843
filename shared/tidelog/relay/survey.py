"""What a relay's directory holds, told and read by itself: no stream, no bucket of structures, no
log that is open on it, and nothing there is changed.

    found = await survey(disk, "relay")
    if not found.missing(checkpoint.commit_ts):
        async for batch in found.batches(checkpoint.commit_ts):
            ...
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from tidelog.errors import NotFound
from tidelog.ports import Disk
from tidelog.relay import reading
from tidelog.relay.batches import Handed
from tidelog.relay.files import Folder, Owner, Part, corrupt, read_header
from tidelog.relay.opening import whole_up_to
from tidelog.synced import SyncedFile


@dataclass
class Survey:
    """`begins`: what was committed up to there stands elsewhere, or is applied. `first` and `last`:
    commit_ts of the first and the last whole batch, 0 where there is none. `gaps`: (above, up to)
    what is not here in between; harmless where the checkpoint is not below its end."""

    feed: str
    cluster_id: int
    begins: int
    first: int = 0
    last: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    parts: list[tuple[Part, int]] = field(default_factory=list)
    """The files, and where the last whole batch of each ends."""

    def missing(self, checkpoint: int) -> list[tuple[int, int]]:
        """What a downstream at `checkpoint` needs up to `last` and is not here, as (above, up to);
        empty: all of it is, perhaps nothing."""
        before = [(checkpoint, self.begins)] if checkpoint < self.begins else []
        return before + [
            (max(above, checkpoint), upto) for above, upto in self.gaps if upto > checkpoint
        ]

    async def batches(self, after: int) -> AsyncGenerator[Handed, None]:
        """Those above `after`, in order. Raises RelayGap, Corrupt."""
        reached = after
        for part, end in self.parts:
            async for batch in reading.batches(part, end, after, reached):
                yield batch
                reached = batch.commit_ts

    def close(self) -> None:
        for part, _ in self.parts:
            part.file.close()


async def survey(disk: Disk, directory: str) -> Survey:
    """Reads all of it once. Raises NotFound where no relay is, Corrupt, ForeignDirectory and
    ForeignCluster for files that don't belong together."""
    folder = Folder(disk, directory)
    found: Survey | None = None
    numbers = folder.numbers()
    for number in numbers:
        part = await folder.open(number)
        owner = read_header(part)
        if owner is None:
            if number != numbers[-1]:
                raise corrupt(part.path, 0, "its header is damaged")
            part.file.close()  # it was just made
            break
        if found is None:
            found = Survey(*owner, begins=part.prev_commit_ts)
        Owner(found.feed, found.cluster_id).check(part.path, *owner)
        end = await _end(folder, part) if number == numbers[-1] else part.file.size
        found.parts.append((part, end))
    if found is None:
        raise NotFound(f"there is no relay in {directory or 'this directory'}")
    await _look(found)
    return found


async def _end(folder: Folder, part: Part) -> int:
    """Of the last file: what is not whole at its end may be torn, or being written, unless it was
    synced."""
    end, _ = await whole_up_to(part, part.begin)
    synced = SyncedFile(folder.disk, folder.synced).load()
    if synced is not None and synced.fid == part.number and end < synced.offset:
        raise corrupt(part.path, end, f"no whole batch, {synced.offset} bytes were synced")
    return end


async def _look(found: Survey) -> None:
    reached = found.begins
    for part, end in found.parts:
        async for step in reading.records(part, part.begin, end):
            for offset, one in step:
                batch = reading.learned(part, offset, one, {})
                if batch is None:
                    continue
                if batch.after > reached:
                    found.gaps.append((reached, batch.after))
                found.first = found.first or batch.commit_ts
                found.last = reached = batch.commit_ts
