"""For who has no relay: large batches on the disk, unsynced, only as long as they are in hand.

Each has a file of its own, removed once it is applied; what an earlier life left is removed at the
start. Nothing here survives anything, and nothing needs to.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from tidelog.errors import InvariantBroken
from tidelog.ports import Disk
from tidelog.relay import records
from tidelog.relay.batches import Handed, Incoming, Piece, Structures, Whole, small
from tidelog.relay.files import Folder, Part
from tidelog.relay.spill import Spill


class Spool:
    """A BatchLog that keeps nothing: `end` only tells what was applied when it was opened."""

    kept = False

    def __init__(self, disk: Disk, directory: str) -> None:
        self._folder = Folder(disk, directory)
        self._spill: Spill | None = None
        self._held: list[tuple[int, Part]] = []
        """By commit_ts, batches that are not applied yet."""
        self._next = 0
        self._end = 0

    @property
    def end(self) -> int:
        return self._end

    async def open(self, after: int) -> None:
        await self._folder.make()
        for commit_ts, part in self._held:
            if commit_ts > after:  # of an append that failed: nobody has it, it comes again
                part.file.close()
        self._held = [(commit_ts, part) for commit_ts, part in self._held if commit_ts <= after]
        in_hand = {part.number for _, part in self._held}
        for number in self._folder.numbers():
            if number not in in_hand:
                await self._folder.disk.remove(self._folder.path(number))
        if self._spill is not None:
            self._spill.part.file.close()
        self._end, self._spill = after, None

    async def append(self, items: Sequence[Incoming], structures: Structures) -> list[Handed]:
        handed: list[Handed] = []
        for item in items:
            if isinstance(item, Piece):
                await self._piece(item, structures)
            else:
                handed.append(await self._whole(item, structures))
        return handed

    async def _piece(self, item: Piece, structures: Structures) -> None:
        if self._spill is None or not item.number:
            await self._give_up()
            self._spill = Spill(await self._create(), 0, item.attempt)
        self._spill.add(item, structures)
        await self._spill.part.file.append(records.piece(item, (), structures), sync=False)

    async def _whole(self, item: Whole, structures: Structures) -> Handed:
        spill = self._spill
        if not item.pieces:
            await self._give_up()
            return small(item, structures)
        if spill is None:
            raise InvariantBroken(f"no piece of attempt {item.attempt} is there")
        self._spill = None
        self._held.append((item.commit_ts, spill.part))
        return spill.close(item, spill.part.file.size)

    async def _create(self) -> Part:
        part = await self._folder.open(self._next, create=True)
        self._next += 1
        return part

    async def _give_up(self) -> None:
        spill, self._spill = self._spill, None
        if spill is not None:
            await self._remove(spill.part)

    async def _remove(self, part: Part) -> None:
        part.file.close()
        await self._folder.disk.remove(part.path)

    async def batches(self, after: int) -> AsyncGenerator[Handed, None]:
        """There are none."""
        for batch in list[Handed]():
            yield batch

    async def purge(self, below: int) -> int:
        gone = [part for commit_ts, part in self._held if commit_ts <= below]
        self._held = self._held[len(gone) :]
        for part in gone:
            await self._remove(part)
        return len(gone)

    def status(self) -> dict[str, object]:
        size = sum(part.file.size for _, part in self._held)
        return {"relay": "", "relay_files": len(self._held), "relay_bytes": size}

    def close(self) -> None:
        for _, part in self._held:
            part.file.close()
        if self._spill is not None:
            self._spill.part.file.close()
        self._held, self._spill = [], None
