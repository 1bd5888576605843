"""What a start finds of the relay: its files, where the last one's whole batches end, and that
one's mending.

Only the end of the last file can be torn: a file is whole and synced before the next one is made,
and that one's header is, before anything follows it. What may not be on the disk although it can be
read (a failed fsync, see the Pump's segments) is written once more. Pieces of a batch that never
became whole are cut off too: they come again from the stream.
"""

from __future__ import annotations

import asyncio

import structlog

from tidelog import record
from tidelog.errors import Corrupt
from tidelog.record_walk import walk
from tidelog.relay.files import HINT, Folder, Owner, Part, corrupt, parsed, read_header
from tidelog.synced import UNKNOWN, Synced

log = structlog.get_logger()

HEADER_NUMBERS = 40
"""A header takes less beside the feed's name."""


class Opening:
    """`run` it; then `parts` are the files, oldest first, and `end` is the commit_ts of the last
    whole batch, or what the header says where there is none."""

    def __init__(self, folder: Folder, owner: Owner, synced: Synced | None) -> None:
        self._folder = folder
        self._owner = owner
        self._synced = synced or UNKNOWN
        self.parts: list[Part] = []
        self.end = 0
        self.truncated_bytes = 0

    def close(self) -> None:
        for part in self.parts:
            part.file.close()

    async def run(self) -> None:
        """Raises Corrupt, ForeignDirectory, ForeignCluster."""
        numbers = self._folder.numbers()
        newest = numbers[-1] if numbers else -1
        if self._synced != UNKNOWN and self._synced.fid > newest:
            raise Corrupt(
                f"{self._folder.path(self._synced.fid)}: it was written and is gone", hint=HINT
            )
        for number in numbers:
            part = await self._folder.open(number)
            self.parts.append(part)  # whoever gives up closes it
            owner = read_header(part)
            if owner is not None:
                self._owner.check(part.path, *owner)
            else:
                await self._without_header(part, is_newest=number == newest)
                self.parts.pop()
        if self.parts:
            await self._mend(self.parts[-1])

    async def _without_header(self, part: Part, *, is_newest: bool) -> None:
        """A power loss may take the header of a file that was just made, with nothing behind it."""
        longest = record.HEADER_BYTES + len(self._owner.feed.encode()) + HEADER_NUMBERS
        if not is_newest or self._known(part).offset or part.file.size > longest:
            raise corrupt(part.path, 0, "its header is damaged")
        log.warning("a relay file was begun and has nothing", file=part.path)
        part.file.close()
        await self._folder.disk.remove(part.path)
        await self._folder.sync()

    def _known(self, part: Part) -> Synced:
        return self._synced if self._synced.fid == part.number else UNKNOWN

    async def _mend(self, part: Part) -> None:
        file, known = part.file, self._known(part)
        if file.size < known.offset:
            raise corrupt(part.path, file.size, f"the file ends here, {known.offset} were synced")
        good, found = await whole_up_to(part, max(part.begin, known.offset))
        self.end = max(part.prev_commit_ts, known.max_ts or 0, found)
        if good < file.size:
            self.truncated_bytes = file.size - good
            log.warning(
                "cut what is no whole batch", file=part.path, offset=good, bytes=file.size - good
            )
            await file.truncate(good)
        await file.rewrite(known.offset)  # a mere sync may say yes and do nothing
        await self._folder.sync()


async def whole_up_to(part: Part, begin: int) -> tuple[int, int]:
    """From offset `begin` on: where the last whole batch ends, and its commit_ts; `begin` and 0 if
    there is none. What can't be read ends it. Raises Corrupt for a whole record that is no relay
    record."""
    good, commit_ts = begin, 0
    for step in walk(part.file.read, begin, part.file.size):
        await asyncio.sleep(0)
        for offset, payload in step.records:
            one = parsed(part.path, offset, payload)
            if one.WhichOneof("content") == "batch":
                good = offset + record.HEADER_BYTES + len(payload)
                commit_ts = one.batch.commit_ts
    return good, commit_ts
