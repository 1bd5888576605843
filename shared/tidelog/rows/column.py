"""One column's conversion between the datum on the wire and the value applications see."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from struct import Struct
from typing import Final, cast

import msgspec

from tidelog.rows import datum
from tidelog.rows.any_datum import read_datum
from tidelog.rows.decimal import put_decimal
from tidelog.rows.errors import BadValue, Malformed
from tidelog.rows.json_binary import put_json
from tidelog.rows.times import date_text, datetime_text, duration_text, pack_time, parse_duration
from tidelog.rows.values import (
    INT_TYPES,
    STRING_TYPES,
    T_BIT,
    T_DATE,
    T_DATETIME,
    T_DECIMAL,
    T_DOUBLE,
    T_DURATION,
    T_ENUM,
    T_FLOAT,
    T_JSON,
    T_NEWDATE,
    T_SET,
    T_TIMESTAMP,
    T_YEAR,
    TIME_TYPES,
    Value,
)
from tidelog.schema.model import ColumnInfo, FieldType

Convert = Callable[[int], Value]

JSON_NULL: Final = b64encode(b"null").decode()
"""A JSON column that holds the literal `null`: given as base64 of its text and named in `b64`, so
that nobody takes it for SQL NULL."""

_F32 = Struct("<f")
_BIN_COLLATIONS: Final = frozenset(
    ("ascii_bin", "latin1_bin", "utf8_bin", "utf8mb4_bin", "utf8mb4_0900_bin")
)
_DEFAULT_DECIMAL: Final = (10, 0)
_WIDE: Final = Context(prec=100)
"""More digits than a DECIMAL has; Python's own 28 are too few."""


def shortest_float32(value: float) -> float:
    """The double whose shortest text is also the shortest text of the float32 `value`."""
    for digits in (6, 7, 8):
        short = float(f"{value:.{digits}g}")
        if _F32.unpack(_F32.pack(short))[0] == value:
            return short
    return float(f"{value:.9g}")


def base64_text(raw: bytes) -> str:
    return b64encode(raw).decode("ascii")


class _Conversion:
    """Of a column's integers. It does not know the column, which has one of these methods: what
    refers to itself outlives its table. (A method is a sixth faster than a partial, compiled.)"""

    __slots__ = ("column", "elems", "fsp")

    def __init__(self, column: str, fsp: int, elems: tuple[str, ...]) -> None:
        self.column = column
        self.fsp = fsp
        self.elems = elems

    def datetime(self, packed: int) -> Value:
        return datetime_text(packed, self.fsp)

    def duration(self, nanos: int) -> Value:
        return duration_text(nanos, self.fsp)

    def enum(self, number: int) -> Value:
        if number > len(self.elems):
            raise Malformed(f"column {self.column} has no element {number}")
        return self.elems[number - 1] if number else ""

    def set(self, bits: int) -> Value:
        if bits >> len(self.elems):
            raise Malformed(f"column {self.column} has no elements {bits:#x}")
        return ",".join(elem for i, elem in enumerate(self.elems) if bits >> i & 1)


class Column:
    """Conversions of one column. `wire` is the flag its datums carry when not NULL (EncodeValue).

    `convert` maps the integer of a packed time, ENUM, SET, BIT; None where the datum's value is
    already ours.
    """

    __slots__ = ("binary", "convert", "flags", "fsp", "info", "name", "tp", "type", "wire")

    def __init__(self, info: ColumnInfo) -> None:
        self.info = info
        self.name: str = info.name.text
        self.type: FieldType = info.type
        self.tp: int = info.type.Tp
        self.fsp: int = max(0, min(info.type.Decimal, 6))
        self.binary: bool = self.tp in STRING_TYPES and info.type.Charset == "binary"
        self.wire: int = _wire_flag(info)
        self.convert: Convert | None = self._integer_conversion()
        # An integer may come with either flag: handles and YEAR are signed whatever the column.
        self.flags: tuple[int, ...] = (self.wire,)
        if self.tp in INT_TYPES:
            self.flags = (datum.VARINT, datum.UVARINT, datum.INT, datum.UINT)
        elif self.tp == T_DURATION:
            # A row holds plain nanoseconds, a key's datum has its own flag.
            self.flags = (datum.VARINT, datum.INT, datum.DURATION)
        elif self.wire == datum.UVARINT:
            self.flags = (datum.UVARINT, datum.UINT)
        elif self.wire == datum.COMPACT_BYTES:
            self.flags = (datum.COMPACT_BYTES, datum.BYTES)

    def value(self, flag: int, raw: Value | bytes, marks: list[str]) -> Value:
        """A datum as a value; appends the name to `marks` if that is base64. Raises Malformed."""
        if flag == datum.NIL:
            return None
        if flag not in self.flags:
            raise Malformed(f"column {self.name} of type {self.tp} has a datum of flag {flag}")
        if isinstance(raw, bytes):
            return self._string(raw, marks)
        if flag == datum.JSON:
            if raw is None:
                marks.append(self.name)
                return JSON_NULL
            return raw
        if isinstance(raw, int):
            return self._integer(raw)
        if isinstance(raw, float):
            return shortest_float32(raw) if self.tp == T_FLOAT else raw
        return raw

    def default(self, marks: list[str]) -> Value:
        """What a column that the row does not carry holds: origin default, NULL, or zero value
        (appendix B.10, reader 3). Raises Malformed."""
        origin = self.info.origin_default
        try:
            if self.tp == T_BIT and (self.info.origin_default_bit or origin == ""):
                return int.from_bytes(b64decode(self.info.origin_default_bit or ""), "big")
            if origin is None:
                return self._zero(marks) if self.info.not_null else None
            out = bytearray()
            self._put(out, self._typed(origin), self.tp == T_JSON)
            return origin if self.tp in (T_ENUM, T_SET) else self._reread(bytes(out), marks)
        except (ValueError, TypeError, ArithmeticError) as error:
            raise Malformed(f"column {self.name}: no such default as {origin!r}") from error

    def put(self, out: bytearray, value: Value | bytes, is_base64: bool) -> None:
        """Append the datum of a value. `is_base64`: the text is base64 of the column's bytes.
        Raises BadValue."""
        try:
            self._put(out, value, is_base64 or (self.binary and isinstance(value, str)))
        except (Malformed, ValueError, TypeError, OverflowError, Base64Error) as error:
            raise BadValue(self.name, str(error)) from error

    @property
    def restored(self) -> bool:
        """A clustered key's handle holds only a sort key of it, so the row carries the value too.
        (TiDB with new collations: VARCHAR of any collation, CHAR and TEXT unless `_bin`.)"""
        if self.tp not in STRING_TYPES or self.binary:
            return False
        return self.tp in (15, 253) or self.type.Collate not in _BIN_COLLATIONS

    def _integer_conversion(self) -> Convert | None:
        if self.tp in (T_DATE, T_NEWDATE):
            return date_text
        conversion = _Conversion(self.name, self.fsp, self.type.Elems or ())
        if self.tp in (T_DATETIME, T_TIMESTAMP):
            return conversion.datetime
        if self.tp == T_DURATION:
            return conversion.duration
        if self.tp == T_ENUM:
            return conversion.enum
        if self.tp == T_SET:
            return conversion.set
        return None

    def _integer(self, number: int) -> Value:
        if self.convert is not None:
            return self.convert(number)
        if number < 0 and self.wire == datum.UVARINT:
            return number & datum.MASK64
        return number

    def _string(self, raw: bytes, marks: list[str]) -> str:
        text = None if self.binary else _text(raw)
        if text is not None:
            return text
        marks.append(self.name)
        return base64_text(raw)

    def _typed(self, origin: str | float) -> Value | bytes:
        """The text of an origin default is as it was typed, so TiDB casts it at each read: numbers
        are rounded, JSON is parsed."""
        if self.binary:
            return str(origin).encode()
        if self.tp == T_JSON:
            return base64_text(str(origin).encode())
        if self.tp in INT_TYPES:
            return _rounded(origin, 0)
        if self.tp == T_DECIMAL:
            return _rounded(origin, self._decimal_shape()[1])
        return origin

    def _zero(self, marks: list[str]) -> Value:
        if self.tp in INT_TYPES or self.tp == T_BIT:
            return 0
        if self.tp in (T_FLOAT, T_DOUBLE):
            return 0.0
        if self.convert is not None:
            return self.convert(1 if self.tp == T_ENUM else 0)
        if self.tp == T_DECIMAL:
            _, scale = self._decimal_shape()
            return f"0.{'0' * scale}" if scale else "0"
        if self.tp == T_JSON or self.binary:
            marks.append(self.name)
        return JSON_NULL if self.tp == T_JSON else ""

    def _reread(self, encoded: bytes, marks: list[str]) -> Value:
        flag, raw, _ = read_datum(encoded, 0)
        return self.value(flag, raw, marks)

    def _decimal_shape(self) -> tuple[int, int]:
        if self.type.Flen < 0 or self.type.Decimal < 0:
            return _DEFAULT_DECIMAL
        return self.type.Flen, self.type.Decimal

    def _put(self, out: bytearray, value: Value | bytes, is_base64: bool) -> None:
        if value is None:
            out.append(datum.NIL)
        elif self.tp in STRING_TYPES:
            datum.put_bytes_datum(out, _as_bytes(value, is_base64))
        elif self.tp == T_JSON:
            out.append(datum.JSON)
            text = _as_bytes(value, True) if is_base64 else None
            put_json(out, msgspec.json.decode(text) if text is not None else cast(Value, value))
        elif self.tp in (T_FLOAT, T_DOUBLE):
            number = float(cast(str | float, value))
            out.append(datum.FLOAT)
            datum.put_float(
                out, _F32.unpack(_F32.pack(number))[0] if self.tp == T_FLOAT else number
            )
        elif self.tp == T_DECIMAL:
            precision, scale = self._decimal_shape()
            out.append(datum.DECIMAL)
            put_decimal(out, str(value), precision, scale)
        elif self.tp == T_DURATION:
            datum.put_int_datum(out, parse_duration(str(value)))
        elif self.wire == datum.VARINT:
            datum.put_int_datum(out, _ranged(int(cast(str | int, value)), -(1 << 63), 1 << 63))
        elif self.wire == datum.UVARINT:
            datum.put_uint_datum(out, _ranged(self._number(value), 0, 1 << 64))
        else:
            raise Malformed(f"type {self.tp} is not known")

    def _number(self, value: Value | bytes) -> int:
        """The integer behind an unsigned, temporal, ENUM, SET or BIT value."""
        if self.tp in TIME_TYPES:
            return pack_time(str(value))
        elems = self.type.Elems or ()
        if self.tp == T_ENUM:
            return elems.index(str(value)) + 1 if value in elems else _zero_enum(value)
        if self.tp == T_SET:
            return sum(1 << elems.index(part) for part in set(str(value).split(",")) if value)
        return int(cast(str | int, value))


def _wire_flag(info: ColumnInfo) -> int:
    """The flag of the column's datums; -1 for a type we don't know, which no datum matches."""
    tp = info.type.Tp
    if tp in STRING_TYPES:
        return datum.COMPACT_BYTES
    if tp in INT_TYPES:
        return datum.UVARINT if info.unsigned and tp != T_YEAR else datum.VARINT
    if tp in TIME_TYPES or tp in (T_ENUM, T_SET, T_BIT):
        return datum.UVARINT
    flags = {
        T_FLOAT: datum.FLOAT,
        T_DOUBLE: datum.FLOAT,
        T_DECIMAL: datum.DECIMAL,
        T_DURATION: datum.VARINT,
        T_JSON: datum.JSON,
    }
    return flags.get(tp, -1)


def _text(raw: bytes) -> str | None:
    """The text, or None for bytes that are not UTF-8."""
    try:
        return str(raw, "utf-8")
    except UnicodeDecodeError:
        return None


def _as_bytes(value: Value | bytes, is_base64: bool) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Malformed(f"{type(value).__name__} is no text")
    return b64decode(value, validate=True) if is_base64 else value.encode()


def _ranged(number: int, low: int, above: int) -> int:
    if not low <= number < above:
        raise Malformed(f"{number} is out of range")
    return number


def _rounded(number: str | float, scale: int) -> str:
    """Raises InvalidOperation."""
    step = Decimal(1).scaleb(-scale)
    return f"{Decimal(str(number)).quantize(step, ROUND_HALF_UP, _WIDE):f}"


def _zero_enum(value: Value | bytes) -> int:
    """MySQL stores the empty text for a value that was no element: number 0."""
    if value != "":
        raise Malformed(f"{value!r} is no element")
    return 0
