"""`reserve`: room on the data disk for the few small files without which a full one can't be left.

`.node` (to start), `purged.json` (to delete segments) and `late.json` are replaced durably, and for
a moment that needs room. Where there is none the reserve is deleted first; it is made again once
there is plenty. Its bytes are such that no file system can store them in less.
"""

from __future__ import annotations

import asyncio
from hashlib import shake_256

import structlog

from tidelog.errors import DiskFull
from tidelog.ports import Disk

log = structlog.get_logger()

RESERVE_FILE = "reserve"
RESERVE_BYTES = 1 << 20
SHARE = 1 << 10
"""Of a disk below a GiB a part: one SHAREth."""


class Reserve:
    """One a Pump. `write_file` is the Disk's, with the reserve at hand."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._one = asyncio.Lock()
        self.size = min(RESERVE_BYTES, disk.capacity_bytes() // SHARE)

    @property
    def there(self) -> bool:
        return self._disk.exists(RESERVE_FILE)

    async def write_file(self, path: str, data: bytes) -> None:
        """Raises DiskFull if the reserve is gone too, or is not enough."""
        async with self._one:
            try:
                await self._disk.write_file(path, data)
            except DiskFull:
                if not self.there:
                    raise
                log.warning("the disk is full: the reserve is used", file=path, bytes=self.size)
                await self._disk.remove(RESERVE_FILE)
                await self._disk.write_file(path, data)

    async def keep(self) -> None:
        """Make it, if it is not there and that leaves as much again."""
        if self.there or self._disk.free_bytes() < 2 * self.size:
            return
        async with self._one:
            body = shake_256(RESERVE_FILE.encode()).digest(self.size)
            try:
                await self._disk.write_file(RESERVE_FILE, body)
            except DiskFull as error:
                log.warning("no room for the reserve", error=error.message)
