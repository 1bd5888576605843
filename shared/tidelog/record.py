"""Framing of log records, as the original's value log has it (original.md B.1; design section 6).

    record := magic u32 | payload length u64 | crc32c of the payload u32 | payload
    footer := max ts u64 | end magic u32          only at the end of a closed segment

All little-endian. No payload is empty: of a torn write the magic alone may be on the disk, and the
zeros behind it would be a whole record, length 0 with the right checksum. The Pump's segments and
the Applier's relay files use it. Pure: bytes in and out.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from crc32c import crc32c

from tidelog.ports import Buffer

MAGIC = 0x823A56E8
END_MAGIC = 0x123AB922
MAX_PAYLOAD = (2 << 30) - 1
"""What gRPC can carry; a longer length is garbage."""

COPIED = 4 << 10
"""Payloads of so many bytes at most are small."""

_HEADER = struct.Struct("<IQI")
_FOOTER = struct.Struct("<QI")
HEADER_BYTES = _HEADER.size
FOOTER_BYTES = _FOOTER.size


class Header(NamedTuple):
    """What stands before a payload: its length in bytes, and its crc32c."""

    length: int
    crc: int


Placed = tuple[int, bytes | memoryview]
"""Offset of a record's header, and its payload."""


class Split(NamedTuple):
    """What `split` found: whole records, the bytes they take, and what stopped it: "" (the data
    ends there or within a record), "magic", "length", "crc"."""

    records: list[Placed]
    consumed: int
    bad: str
    wanted: int
    """Bytes the next record takes in all, if its header is readable and it is cut off; else 0."""


def header(payload: Buffer) -> bytes:
    """The 16 bytes to write before `payload`."""
    return _HEADER.pack(MAGIC, len(payload), crc32c(payload))


def frame(payload: Buffer) -> bytes:
    """A whole record."""
    return b"".join((header(payload), payload))


def footer(max_ts: int) -> bytes:
    """The 12 bytes that close a segment whose largest timestamp is `max_ts`."""
    return _FOOTER.pack(max_ts, END_MAGIC)


def parse_header(data: Buffer, offset: int = 0) -> Header | None:
    """The header at `offset`; None if no record starts there."""
    if len(data) - offset < HEADER_BYTES:
        return None
    magic, length, crc = _HEADER.unpack_from(data, offset)
    if magic != MAGIC or not 0 < length <= MAX_PAYLOAD:
        return None
    return Header(length, crc)


def parse_footer(data: Buffer) -> int | None:
    """The largest timestamp of a segment whose last bytes are `data`; None if it isn't closed."""
    if len(data) < FOOTER_BYTES:
        return None
    max_ts, magic = _FOOTER.unpack_from(data, len(data) - FOOTER_BYTES)
    return int(max_ts) if magic == END_MAGIC else None


def matches(payload: Buffer, crc: int) -> bool:
    """Are these the bytes that were framed?"""
    return bool(crc32c(payload) == crc)


def split(data: bytes, base: int = 0) -> Split:
    """Cut `data`, which starts at offset `base` of its file, into records. Large payloads are
    views; small ones are copies: these cost less, and the garbage collector passes them by."""
    view = memoryview(data)
    records: list[Placed] = []
    position, size = 0, len(data)
    unpack, check = _HEADER.unpack_from, crc32c
    while size - position >= HEADER_BYTES:
        magic, length, crc = unpack(data, position)
        if magic != MAGIC:
            return Split(records, position, "magic", 0)
        if not 0 < length <= MAX_PAYLOAD:
            return Split(records, position, "length", 0)
        start = position + HEADER_BYTES
        if size - start < length:
            return Split(records, position, "", HEADER_BYTES + length)
        end = start + length
        payload = data[start:end] if length <= COPIED else view[start:end]
        if check(payload) != crc:
            return Split(records, position, "crc", 0)
        records.append((base + position, payload))
        position = end
    return Split(records, position, "", 0)
