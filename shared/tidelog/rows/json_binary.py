"""TiDB's binary JSON, as a datum (flag 10: type byte, then the value) holds it.

Containers: count u32, size u32 (of the whole container), for objects (key offset u32, key length
u16) per key, then (type u8, offset u32 or an inlined literal) per value; little-endian, offsets
from the container's start. Integers stay exact, a double stays a float. Values JSON has no type for
become the text TiDB shows: dates as MySQL text, opaque bytes as `base64:type<n>:…`.
"""

from __future__ import annotations

from base64 import b64encode
from struct import Struct
from typing import Final

from tidelog.rows.datum import put_uvarint, read_uvarint
from tidelog.rows.errors import Malformed
from tidelog.rows.times import date_text, datetime_text, duration_text
from tidelog.rows.values import Value

OBJECT: Final = 0x01
ARRAY: Final = 0x03
LITERAL: Final = 0x04
INT64: Final = 0x09
UINT64: Final = 0x0A
DOUBLE: Final = 0x0B
STRING: Final = 0x0C
OPAQUE: Final = 0x0D
DATE: Final = 0x0E
DATETIME: Final = 0x0F
TIMESTAMP: Final = 0x10
DURATION: Final = 0x11

MAX_DEPTH: Final = 200
"""MySQL allows 100 levels; beyond this a document is called malformed, not recursed into."""

_LITERALS: Final[tuple[Value, ...]] = (None, True, False)
_HEADER = Struct("<II")
_KEY = Struct("<IH")
_VALUE = Struct("<BI")
_I64 = Struct("<q")
_U64 = Struct("<Q")
_F64 = Struct("<d")
_DURATION = Struct("<qI")


def read_json(buf: bytes, p: int) -> tuple[Value, int]:
    """One document at its type byte; also the position behind it."""
    kind = buf[p]
    end = p + 1 + _size(kind, buf, p + 1)
    if end > len(buf):
        raise Malformed("a JSON document is longer than the row")
    reader = _Reader(buf, end)
    return reader.value(kind, p + 1, 0), end


def _size(kind: int, buf: bytes, p: int) -> int:
    """Bytes of a value behind its type byte."""
    if kind in (OBJECT, ARRAY):
        size: int = _HEADER.unpack_from(buf, p)[1]
        return size
    if kind == LITERAL:
        return 1
    if kind == STRING:
        length, at = read_uvarint(buf, p)
        return at - p + length
    if kind == OPAQUE:
        length, at = read_uvarint(buf, p + 1)
        return at - p + length
    return 12 if kind == DURATION else 8


class _Reader:
    """Decodes the values of one document, which ends at `end`.

    Hostile offsets could point many times at one child, so the work is bounded by `budget`: what
    as many bytes can really hold.
    """

    __slots__ = ("budget", "buf", "end")

    def __init__(self, buf: bytes, end: int) -> None:
        self.buf = buf
        self.end = end
        self.budget: int = end

    def value(self, kind: int, p: int, depth: int) -> Value:
        if p + _size(kind, self.buf, p) > self.end:
            raise Malformed("a JSON value leaves its document")
        if kind == STRING:
            length, p = read_uvarint(self.buf, p)
            self.spend(length)
            return str(self.buf[p : p + length], "utf-8")
        if kind in (OBJECT, ARRAY):
            return self.container(kind, p, depth + 1)
        if kind == INT64:
            integer: int = _I64.unpack_from(self.buf, p)[0]
            return integer
        if kind == DOUBLE:
            number: float = _F64.unpack_from(self.buf, p)[0]
            if number - number != 0.0:
                raise Malformed("a JSON number is not finite")
            return number
        if kind == LITERAL:
            return self.literal(self.buf[p])
        return self.rare(kind, p)

    def spend(self, amount: int) -> None:
        self.budget -= amount
        if self.budget < 0:
            raise Malformed("a JSON document refers to its parts more than once")

    def literal(self, code: int) -> Value:
        if code >= len(_LITERALS):
            raise Malformed("unknown JSON literal")
        return _LITERALS[code]

    def container(self, kind: int, p: int, depth: int) -> Value:
        count, size = _HEADER.unpack_from(self.buf, p)
        values_at = p + 8 + (6 * count if kind == OBJECT else 0)
        self.spend(count)
        if depth > MAX_DEPTH or values_at + 5 * count > p + size:
            raise Malformed("a JSON container is inconsistent")
        values: list[Value] = []
        for at in range(values_at, values_at + 5 * count, 5):
            child, offset = _VALUE.unpack_from(self.buf, at)
            if child == LITERAL:
                values.append(self.literal(offset & 255))
            else:
                values.append(self.value(child, p + offset, depth))
        if kind == ARRAY:
            return values
        keys: list[str] = []
        for at in range(p + 8, values_at, 6):
            offset, length = _KEY.unpack_from(self.buf, at)
            start = p + offset
            self.spend(length)
            if start + length > self.end:
                raise Malformed("a JSON key leaves its document")
            keys.append(str(self.buf[start : start + length], "utf-8"))
        return dict(zip(keys, values, strict=True))

    def rare(self, kind: int, p: int) -> Value:
        buf = self.buf
        if kind == UINT64:
            integer: int = _U64.unpack_from(buf, p)[0]
            return integer
        if kind == OPAQUE:
            length, at = read_uvarint(buf, p + 1)
            self.spend(length)
            return f"base64:type{buf[p]}:{b64encode(buf[at : at + length]).decode('ascii')}"
        if kind == DURATION:
            return duration_text(_DURATION.unpack_from(buf, p)[0], 6)
        if kind in (DATE, DATETIME, TIMESTAMP):
            packed = _repack(_U64.unpack_from(buf, p)[0])
            return date_text(packed) if kind == DATE else datetime_text(packed, 6)
        raise Malformed(f"unknown JSON type {kind}")


def _repack(core: int) -> int:
    """Inside JSON TiDB keeps its in-memory bit fields, not the packed form: year from bit 50,
    month 46, day 41, hour 36, minute 30, second 24, microseconds 4."""
    year_month = (core >> 50) * 13 + (core >> 46 & 15)
    ymd = year_month << 5 | (core >> 41 & 31)
    hms = (core >> 36 & 31) << 12 | (core >> 30 & 63) << 6 | (core >> 24 & 63)
    return (ymd << 17 | hms) << 24 | (core >> 4 & 0xFFFFF)


def put_json(out: bytearray, value: Value) -> None:
    """Append the document for a parsed JSON value, type byte first. Raises Malformed."""
    kind, body = _encode(value, 0)
    out.append(kind)
    out += body


def _encode(value: Value, depth: int) -> tuple[int, bytes]:
    if depth > MAX_DEPTH:
        raise Malformed("a JSON value is nested too deeply")
    if value is None or value is True or value is False:
        return LITERAL, bytes((_LITERALS.index(value),))
    if isinstance(value, int):
        if -(1 << 63) <= value < 1 << 63:
            return INT64, _I64.pack(value)
        if 0 < value < 1 << 64:
            return UINT64, _U64.pack(value)
        raise Malformed("a JSON integer exceeds 64 bits")
    if isinstance(value, float):
        return DOUBLE, _F64.pack(value)
    if isinstance(value, str):
        raw = value.encode()
        head = bytearray()
        put_uvarint(head, len(raw))
        return STRING, bytes(head) + raw
    if isinstance(value, list):
        return ARRAY, _container([], [_encode(item, depth + 1) for item in value])
    # TiDB keeps keys sorted by their bytes, so that it can search them.
    entries = sorted((key.encode(), item) for key, item in value.items())
    items = [_encode(item, depth + 1) for _, item in entries]
    return OBJECT, _container([key for key, _ in entries], items)


def _container(keys: list[bytes], items: list[tuple[int, bytes]]) -> bytes:
    at = 8 + 6 * len(keys) + 5 * len(items)
    head = bytearray()
    for key in keys:
        if len(key) > 0xFFFF:
            raise Malformed("a JSON key exceeds 65535 bytes")
        head += _KEY.pack(at, len(key))
        at += len(key)
    for kind, body in items:
        if kind == LITERAL:
            head += _VALUE.pack(kind, body[0])
        else:
            head += _VALUE.pack(kind, at)
            at += len(body)
    bodies = [body for kind, body in items if kind != LITERAL]
    return _HEADER.pack(len(items), at) + bytes(head) + b"".join(keys) + b"".join(bodies)
