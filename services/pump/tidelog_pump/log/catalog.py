"""`value/closed`: what the closed segments were when they were closed.

A footer has no checksum, and a segment that is gone leaves no trace. So each closed segment's size
and largest timestamp are written down a second time, with a crc, replaced atomically and durably:

    closing   footer, then the next segment, then the catalog
    removing  the catalog without them, then the files

At every instant a segment in the catalog is in the directory, unless somebody lost it. One that is
not in the catalog (the original's, or a crash came first) is taken as its footer says.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

import structlog
from crc32c import crc32c

from tidelog.errors import DiskFull
from tidelog.ports import Disk

log = structlog.get_logger()

_ENTRY = struct.Struct("<IQQ")
_CRC = struct.Struct("<I")


class ClosedSegment(NamedTuple):
    """A segment that takes no more records: its number, the largest timestamp in it, its bytes.

    TS_MAX where nothing says it: it is then kept until somebody looks at it.
    """

    fid: int
    max_ts: int
    bytes: int


def pack(closed: Iterable[ClosedSegment]) -> bytes:
    body = b"".join(_ENTRY.pack(*segment) for segment in closed)
    return body + _CRC.pack(crc32c(body))


def unpack(data: bytes) -> list[ClosedSegment] | None:
    """None if these are not the bytes that were written."""
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    if len(crc) != _CRC.size or len(body) % _ENTRY.size or _CRC.unpack(crc)[0] != crc32c(body):
        return None
    return [ClosedSegment(*entry) for entry in _ENTRY.iter_unpack(body)]


class Catalog:
    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path

    def load(self) -> dict[int, ClosedSegment]:
        """Empty if there is none, or none that can be read: it is made anew from the footers."""
        if not self._disk.exists(self._path):
            return {}
        found = unpack(self._disk.read_file(self._path))
        if found is None:
            log.warning("the catalog of closed segments can't be read, their footers are believed")
            return {}
        return {segment.fid: segment for segment in found}

    async def save(self, closed: Iterable[ClosedSegment]) -> None:
        """On a full disk it is deleted: no catalog is better than one that names what is gone, and
        to make room segments must go."""
        try:
            await self._disk.write_file(self._path, pack(closed))
        except DiskFull as error:
            log.warning("no room for the catalog of closed segments", error=error.message)
            if self._disk.exists(self._path):
                await self._disk.remove(self._path)
                await self._disk.sync_dir(self._path.rpartition("/")[0])
