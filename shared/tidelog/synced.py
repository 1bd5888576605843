"""Up to where the records of a log's last file are surely on the disk: a small file beside them.

Overwritten in place after each fdatasync, without a sync of its own: of the process that died it
says exactly what was synced, after a power loss it is a lower bound. With the file's
number and the offset goes the largest timestamp of the records up to there, so that they needn't be
read again. The Pump's segments and the Applier's relay files have one.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import structlog
from crc32c import crc32c

from tidelog.ports import Disk, File

log = structlog.get_logger()

_BODY = struct.Struct("<IQQ")
_BODY_BEFORE = struct.Struct("<IQ")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


class Synced(NamedTuple):
    """A file, the offset where its synced records end (a footer lies behind), the largest timestamp
    in them; None if this is of the time before that was kept."""

    fid: int
    offset: int
    max_ts: int | None


UNKNOWN = Synced(0, 0, None)


def pack(synced: Synced) -> bytes:
    body = _BODY.pack(*synced)
    return body + _CRC.pack(crc32c(body))


def unpack(data: bytes) -> Synced | None:
    """None if these are not the bytes that were written."""
    for layout in (_BODY, _BODY_BEFORE):
        body, crc = data[: layout.size], data[layout.size :]
        if len(crc) == _CRC.size and _CRC.unpack(crc)[0] == crc32c(body):
            fid, offset, *rest = layout.unpack(body)
            return Synced(fid, offset, rest[0] if rest else None)
    return None


def pack_length(size: int) -> bytes:
    """For a log of one file: up to where it is surely on the disk."""
    body = _LENGTH.pack(size)
    return body + _CRC.pack(crc32c(body))


def unpack_length(data: bytes) -> int:
    """0 if these are not the bytes that were written: nothing is known then. An earlier release
    wrote no checksum."""
    body, crc = data[: _LENGTH.size], data[_LENGTH.size :]
    if len(body) < _LENGTH.size or (crc and crc != _CRC.pack(crc32c(body))):
        return 0
    size: int = _LENGTH.unpack(body)[0]
    return size


class SyncedFile:
    """The file; `load`, then `begin` once the segments are mended, then `note`."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._file: File | None = None

    def load(self) -> Synced | None:
        """None if there is no such file: nobody of ours wrote here. UNKNOWN if it is damaged."""
        if not self._disk.exists(self._path):
            return None
        found = unpack(self._disk.read_file(self._path))
        if found is None:
            log.warning("the synced offset can't be read, nothing is known to be synced")
            return UNKNOWN
        return found

    async def begin(self, synced: Synced) -> None:
        """The first file is made durably: who finds none may believe that there never was one."""
        if not self._disk.exists(self._path):
            await self._disk.write_file(self._path, pack(synced))
        self._file = await self._disk.open(self._path)
        self.note(synced)

    def note(self, synced: Synced) -> None:
        """After the sync of what it says."""
        if self._file is not None:
            self._file.overwrite(pack(synced))

    async def sync(self) -> None:
        """What was noted survives a power loss too."""
        if self._file is not None:
            await self._file.sync()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
