"""An open file of a simulated disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tidelog.errors import DiskFull, IoFailed
from tidelog.ports import Buffer
from tidelog.sim.inode import Inode
from tidelog.sim.life import Life

if TYPE_CHECKING:
    from tidelog.sim.disk import SimDisk

HINT_SYNC_CHANCE = 0.3
"""How often the kernel has written a hint back by itself before the next call."""


class SimFile:
    """A File; `read` sees what was written, synced or not, as the page cache does."""

    def __init__(self, disk: SimDisk, life: Life, path: str, inode: Inode) -> None:
        self._disk = disk
        self._life = life
        self._path = path
        self._inode = inode
        self._closed = False
        self._broken = False
        """This open file takes no more; a process that opens it anew may (as on a real disk)."""

    @property
    def size(self) -> int:
        return len(self._inode.data)

    async def append(self, chunks: Sequence[Buffer], *, sync: bool) -> int:
        self._usable()
        disk, inode = self._disk, self._inode
        data = b"".join(chunks)
        fault = disk._fault(self._path, grows=True, size=len(data))
        offset = len(inode.data)
        if fault:
            # A failed write may have written a part, and a failed sync everything.
            part = len(data) // 2 if fault == "short" else disk._rng.randrange(len(data) + 1)
            inode.write(offset, data[:part])
            disk.on_change()
            self._broken = True
            kind = DiskFull if fault == "full" else IoFailed
            raise kind(f"{self._path}: append failed (injected)")
        inode.write(offset, data)
        disk.on_change()
        disk._trace.event(disk.name, "disk.append", f"{self._path} {offset}+{len(data)} {sync}")
        await disk._take_time(disk.faults.write_s)
        self._life.check()
        if sync:
            await self.sync()
        return offset

    async def sync(self) -> None:
        self._usable()
        disk, inode = self._disk, self._inode
        written = inode.written
        fault = disk._fault(self._path, grows=False)
        if fault:
            self._broken = True
            if fault == "lost" or disk._rng.random() < 0.5:
                inode.forgotten()
                disk.on_change()
            raise IoFailed(f"{self._path}: fdatasync failed (injected)")
        await disk._take_time(disk.faults.sync_s)
        self._life.check()
        # What was written while the sync ran is not covered by it.
        inode.synced_up_to(written)
        disk.on_change()
        disk._trace.event(disk.name, "disk.sync", f"{self._path} {len(inode.durable)}")

    def read(self, offset: int, length: int) -> bytes:
        self._life.check()
        return bytes(memoryview(self._inode.data)[offset : offset + length])

    async def truncate(self, size: int) -> None:
        self._usable()
        self._inode.truncate(size)
        self._disk.on_change()
        await self.sync()

    async def rewrite(self, start: int) -> None:
        self._usable()
        if start < self.size:
            self._inode.write(start, bytes(self._inode.data[start:]))
            self._disk.on_change()
        await self.sync()

    def overwrite(self, data: bytes) -> None:
        self._usable()
        inode = self._inode
        if inode.pending and self._disk._rng.random() < HINT_SYNC_CHANCE:
            inode.synced_up_to(inode.written)
        inode.write(0, data)
        self._disk.on_change()

    def close(self) -> None:
        self._closed = True

    def _usable(self) -> None:
        self._life.check()
        if self._closed:
            raise IoFailed(f"{self._path}: the file is closed")
        if self._broken:
            raise IoFailed(f"{self._path}: an earlier write failed")
