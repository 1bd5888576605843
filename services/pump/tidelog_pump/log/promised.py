"""`promised`: up to which timestamp readers were told that nothing more will come (I2), and how
much of the log that rested on.

Under an oracle the log alone does not tell: W in it, and the first resolved_ts of a new run, lie
below what was promised before. Overwritten in place without a sync, as `value/synced` is: of the
process that died it says exactly what it had promised, after a power loss it is a lower bound.

Timestamp and place are of one moment: what lies before the place was readable when it was promised,
what lies behind it was not counted on. So a first Commit at or behind the place that is at or below
the timestamp is a second copy, also where an index that is built again reads it once more.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import structlog
from crc32c import crc32c

from tidelog.ports import Disk, File
from tidelog_pump.log.place import Place, Pointer

log = structlog.get_logger()

PROMISED_FILE = "promised"
_BODY = struct.Struct("<QIQ")
_CRC = struct.Struct("<I")


class Promise(NamedTuple):
    ts: int
    at: Pointer

    def broken_by(self, commit_ts: int, place: Place) -> bool:
        """Is this Commit, whose record lies at `place`, too late for who was promised this?"""
        return commit_ts <= self.ts and place[:2] >= self.at


NOTHING = Promise(0, Pointer(0, 0))


def pack(promise: Promise) -> bytes:
    body = _BODY.pack(promise.ts, *promise.at)
    return body + _CRC.pack(crc32c(body))


def unpack(data: bytes) -> Promise | None:
    """None if these are not the bytes that were written."""
    body, crc = data[: _BODY.size], data[_BODY.size :]
    if len(crc) != _CRC.size or _CRC.unpack(crc)[0] != crc32c(body):
        return None
    ts, fid, offset = _BODY.unpack(body)
    return Promise(ts, Pointer(fid, offset))


class PromisedFile:
    """The sorter loads and notes it, before it tells anybody; the indexer reads `now`."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._file: File | None = None
        self.now = NOTHING
        self.began = False
        """There was none at the start: the directory is new, or an operator took it away."""

    async def load(self) -> None:
        self._let_go()
        self.began = not self._disk.exists(PROMISED_FILE)
        if not self.began:
            found = unpack(self._disk.read_file(PROMISED_FILE))
            if found is None:
                log.warning("what was promised to readers can't be read; they tell it themselves")
            self.now = found or NOTHING
        else:
            await self._disk.write_file(PROMISED_FILE, pack(self.now))
        self._file = await self._disk.open(PROMISED_FILE)

    def note(self, promise: Promise) -> None:
        if self._file is not None and promise != self.now:
            self._file.overwrite(pack(promise))
            self.now = promise

    async def close(self) -> None:
        """A clean end: no power loss takes it back."""
        if self._file is not None:
            await self._file.sync()
        self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None
