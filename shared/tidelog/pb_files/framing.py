"""How records stand in pb_binlog files (original.md B.18). Pure.

    record := magic u32 | payload length u64 | payload | crc32c of the payload u32

All little-endian. (`tidelog.record` is the Pump's framing, with another magic and the checksum in
front.)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import BinaryIO, NamedTuple

from crc32c import crc32c

from tidelog.ports import Buffer

MAGIC = 471532804
MAX_PAYLOAD = (2 << 30) - 1
"""What a protobuf can be; a longer length is garbage."""
_HEAD = struct.Struct("<IQ")
_CRC = struct.Struct("<I")
OVERHEAD = _HEAD.size + _CRC.size


class Record(NamedTuple):
    """`bad` says why it can't be read: then it is the last. `torn`: the file ends within it."""

    offset: int
    payload: bytes
    bad: str = ""
    torn: bool = False

    @property
    def end(self) -> int:
        return self.offset + (0 if self.bad else OVERHEAD + len(self.payload))


def frame(payload: Buffer) -> list[Buffer]:
    """What to write, to be joined."""
    return [_HEAD.pack(MAGIC, len(payload)), payload, _CRC.pack(crc32c(payload))]


def records(file: BinaryIO, limit: int | None = None) -> Iterator[Record]:
    """From where the file stands (offset 0 of what is told) up to `limit` bytes, or its end. Stops
    at the first record that is none, and tells it."""
    at = 0
    while limit is None or at < limit:
        head = file.read(_HEAD.size)
        if not head:
            return
        if len(head) < _HEAD.size:
            yield _torn(at)
            return
        magic, length = _HEAD.unpack(head)
        if magic != MAGIC or length > MAX_PAYLOAD:
            why = "no record starts here" if magic != MAGIC else "its length is none of a record"
            yield Record(at, b"", why)
            return
        payload, crc = file.read(length), file.read(_CRC.size)
        if len(crc) < _CRC.size:
            yield _torn(at)
            return
        if _CRC.unpack(crc)[0] != crc32c(payload):
            yield Record(at, b"", "its checksum does not match")
            return
        found = Record(at, payload)
        yield found
        at = found.end


Read = Callable[[int, int], bytes]
"""(offset, length) -> up to so many bytes of a file."""


def told_end(read: Read, offset: int) -> int | None:
    """Where the record ends that begins there, as its header says; None: it has none."""
    head = read(offset, _HEAD.size)
    magic, length = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
    return offset + OVERHEAD + length if magic == MAGIC and length <= MAX_PAYLOAD else None


def is_whole(read: Read, offset: int, size: int) -> bool:
    """Does a record begin there, and is it what was written? The file has `size` bytes."""
    end = told_end(read, offset)
    if end is None or end > size:
        return False
    body = read(offset + _HEAD.size, end - offset - _HEAD.size)
    payload, crc = body[: -_CRC.size], body[-_CRC.size :]
    return bool(_CRC.unpack(crc)[0] == crc32c(payload))


def _torn(at: int) -> Record:
    return Record(at, b"", "the file ends within the record", torn=True)
