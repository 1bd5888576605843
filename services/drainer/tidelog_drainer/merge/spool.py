"""Transactions too large for memory: their payloads lie in files of the Drainer's directory (I8).

A file loses its name as soon as it is open: what is no longer used is gone, however the process or
the actor that read it ended.
"""

from __future__ import annotations

from crc32c import crc32c

from tidelog.errors import DiskFull, IoFailed
from tidelog.ports import Disk, File

DIRECTORY = "spool"
KEPT_FREE = 16 << 20
"""Bytes of the volume that are left to what else the Drainer writes."""


class SpoolFull(DiskFull):
    """A transaction has no room in the Drainer's directory: its Pump is asked again, and again."""

    def __init__(self, commit_ts: int, total: int, reason: str) -> None:
        super().__init__(
            f"transaction {commit_ts} of {total} bytes finds no room: {reason}",
            hint=f"free {total + KEPT_FREE} bytes on the volume of the Drainer's data-dir",
        )


class Spooled:
    """A payload in a file; `len` are its bytes."""

    __slots__ = ("_file", "_size")

    def __init__(self, size: int) -> None:
        self._file: File | None = None
        self._size = size

    def __len__(self) -> int:
        return self._size

    def __del__(self) -> None:
        self.close()

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; fewer only at the end. Raises IoFailed."""
        assert self._file is not None
        return self._file.read(offset, length)

    def close(self) -> None:
        """Give its space back. Closing twice is no error."""
        if self._file is not None:
            self._file.close()

    def holds(self, file: File) -> None:
        self._file = file


class Spool:
    """What all cursors of a Drainer keep of large transactions, and what they still need."""

    def __init__(self, disk: Disk, above: int) -> None:
        self.above = above
        self._disk = disk
        self._made = 0
        self.promised = 0
        """Bytes that are still to come of what was begun."""

    async def clear(self) -> None:
        """Remove what a crash left between a file's first and second breath."""
        self._disk.mkdir(DIRECTORY)
        for name in self._disk.listdir(DIRECTORY):
            await self._disk.remove(f"{DIRECTORY}/{name}")

    async def open(self, commit_ts: int, total: int) -> File:
        """A file for `total` bytes. Raises SpoolFull."""
        free = self._disk.free_bytes() - self.promised
        if free < total + KEPT_FREE:
            raise SpoolFull(commit_ts, total, f"{max(free, 0)} bytes are left")
        self.promised += total
        self._made += 1
        path = f"{DIRECTORY}/{self._made}"
        try:
            file = await self._disk.open(path, create=True)
            await self._disk.remove(path)
        except BaseException:
            self.promised -= total
            raise
        return file

    def written(self, size: int) -> None:
        """So much less is still to come."""
        self.promised -= size


class Spooling:
    """One transaction on its way into a file. Pieces are taken at once and written by `flush`."""

    def __init__(self, spool: Spool, commit_ts: int, total: int) -> None:
        self.size = self.crc = 0
        self.payload = Spooled(total)
        self._spool = spool
        self._commit_ts = commit_ts
        self._total = total
        self._pieces: list[bytes] = []
        self._file: File | None = None
        self._promised = 0

    def __del__(self) -> None:
        self.give_up()

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self.crc = crc32c(piece, self.crc)
        self._pieces.append(piece)

    async def flush(self) -> None:
        """Write what was added. Raises SpoolFull; the transaction must then be begun anew."""
        pieces, self._pieces = self._pieces, []
        try:
            if self._file is None:
                self._file = await self._spool.open(self._commit_ts, self._total)
                self._promised = self._total
                self.payload.holds(self._file)
            await self._file.append(pieces, sync=False)
        except (DiskFull, IoFailed) as error:
            if isinstance(error, SpoolFull):
                raise
            raise SpoolFull(self._commit_ts, self._total, error.message) from error
        written = sum(map(len, pieces))
        self._promised -= written
        self._spool.written(written)

    def give_up(self) -> None:
        """It is not continued."""
        self._spool.written(self._promised)
        self._promised = 0
