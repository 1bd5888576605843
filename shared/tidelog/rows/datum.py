"""TiDB's datum codec: one flag byte, then the value (appendix B.10, "Flags").

Readers take (buffer, position) and return (value, next position); they raise Malformed for bytes
that can't be, and may raise IndexError or struct.error at the end of the buffer, which TableCodec
turns into RowCorrupt. Writers append to a bytearray.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from tidelog.rows.errors import Malformed

NIL: Final = 0
BYTES: Final = 1
COMPACT_BYTES: Final = 2
INT: Final = 3
UINT: Final = 4
FLOAT: Final = 5
DECIMAL: Final = 6
DURATION: Final = 7
VARINT: Final = 8
UVARINT: Final = 9
JSON: Final = 10

SIGN: Final = 1 << 63
MASK64: Final = (1 << 64) - 1

_U64 = Struct(">Q")
_F64 = Struct(">d")
_GROUP: Final = 8
"""Memory-comparable bytes come in groups of 8 and a marker byte, 255 - padding."""


def read_uvarint(buf: bytes, p: int) -> tuple[int, int]:
    """A little-endian base-128 number of at most 64 bits."""
    b = buf[p]
    p += 1
    if b < 128:
        return b, p
    value = b & 127
    shift = 7
    while True:
        b = buf[p]
        p += 1
        if b < 128:
            value |= b << shift
            if value > MASK64:
                raise Malformed("a varint exceeds 64 bits")
            return value, p
        value |= (b & 127) << shift
        shift += 7
        if shift > 63:
            raise Malformed("a varint has more than 10 bytes")


def read_varint(buf: bytes, p: int) -> tuple[int, int]:
    """A zig-zag varint."""
    value, p = read_uvarint(buf, p)
    return (value >> 1) ^ -(value & 1), p


def read_compact_bytes(buf: bytes, p: int) -> tuple[bytes, int]:
    """Zig-zag length, then the bytes."""
    size, p = read_varint(buf, p)
    end = p + size
    if size < 0 or end > len(buf):
        raise Malformed("a string is longer than the row")
    return buf[p:end], end


def read_u64(buf: bytes, p: int) -> tuple[int, int]:
    value: int = _U64.unpack_from(buf, p)[0]
    return value, p + 8


def read_i64(buf: bytes, p: int) -> tuple[int, int]:
    """An int64 written so that its bytes compare like the number: sign bit flipped."""
    value, p = read_u64(buf, p)
    return value - SIGN, p


def read_float(buf: bytes, p: int) -> tuple[float, int]:
    """A float64 in order-preserving form: positive with the sign bit set, negative inverted."""
    bits, p = read_u64(buf, p)
    bits = bits ^ SIGN if bits & SIGN else bits ^ MASK64
    value: float = _F64.unpack(_U64.pack(bits))[0]
    if value - value != 0.0:
        raise Malformed("a float is not a finite number")
    return value, p


def read_group_bytes(buf: bytes, p: int) -> tuple[bytes, int]:
    """Memory-comparable bytes (EncodeKey's form of a string)."""
    parts: list[bytes] = []
    while True:
        pad = 255 - buf[p + _GROUP]
        if pad > _GROUP:
            raise Malformed("a bytes group has a wrong marker")
        parts.append(buf[p : p + _GROUP - pad])
        p += _GROUP + 1
        if pad:
            return b"".join(parts), p


def put_uvarint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def put_varint(out: bytearray, value: int) -> None:
    put_uvarint(out, value << 1 if value >= 0 else (-value << 1) - 1)


def put_compact_bytes(out: bytearray, value: bytes) -> None:
    put_varint(out, len(value))
    out += value


def put_float(out: bytearray, value: float) -> None:
    bits: int = _U64.unpack(_F64.pack(value))[0]
    out += _U64.pack(bits ^ MASK64 if bits & SIGN else bits | SIGN)


def put_i64(out: bytearray, value: int) -> None:
    out += _U64.pack(value + SIGN)


def put_int_datum(out: bytearray, value: int) -> None:
    """EncodeValue of a signed integer."""
    out.append(VARINT)
    put_varint(out, value)


def put_uint_datum(out: bytearray, value: int) -> None:
    """EncodeValue of an unsigned integer (also packed times, ENUM, SET and BIT)."""
    out.append(UVARINT)
    put_uvarint(out, value)


def put_bytes_datum(out: bytearray, value: bytes) -> None:
    """EncodeValue of a string."""
    out.append(COMPACT_BYTES)
    put_compact_bytes(out, value)


def put_key_bytes(out: bytearray, value: bytes) -> None:
    """EncodeKey of a string: groups of 8, each followed by 255 - padding."""
    out.append(BYTES)
    for i in range(0, len(value) + 1, _GROUP):
        group = value[i : i + _GROUP]
        pad = _GROUP - len(group)
        out += group + bytes(pad)
        out.append(255 - pad)


def put_key_int(out: bytearray, value: int) -> None:
    """EncodeKey of a signed integer."""
    out.append(INT)
    put_i64(out, value)


def put_key_uint(out: bytearray, value: int) -> None:
    """EncodeKey of an unsigned integer."""
    out.append(UINT)
    out += _U64.pack(value)
