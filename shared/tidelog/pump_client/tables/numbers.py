"""Numbers as columns take them: never rounded, never wrapped, never cut."""

from __future__ import annotations

import math
import struct
from decimal import Decimal, InvalidOperation
from typing import Final

from tidelog.pump_client.tables.errors import OutOfRange, WrongType
from tidelog.rows.values import T_FLOAT, T_INT24, T_LONG, T_LONGLONG, T_SHORT, T_TINY
from tidelog.schema.model import ColumnInfo

_BITS: Final = {T_TINY: 8, T_SHORT: 16, T_INT24: 24, T_LONG: 32, T_LONGLONG: 64}
_F32 = struct.Struct("<f")
_DEFAULT_DECIMAL: Final = (10, 0)


def integer(column: ColumnInfo, value: object) -> int:
    """TINYINT to BIGINT; True and False are 1 and 0."""
    number = _int(column, value)
    bits = _BITS[column.type.Tp]
    low, above = (0, 1 << bits) if column.unsigned else (-(1 << bits - 1), 1 << bits - 1)
    if not low <= number < above:
        raise OutOfRange(column.name.text, f"{number} is not in {low} to {above - 1}")
    return number


def year(column: ColumnInfo, value: object) -> int:
    number = _int(column, value)
    if number != 0 and not 1901 <= number <= 2155:
        raise OutOfRange(column.name.text, f"{number} is no YEAR: 0, or 1901 to 2155")
    return number


def bits(column: ColumnInfo, value: object) -> int:
    """BIT(n), as an integer."""
    number, width = _int(column, value), max(1, column.type.Flen)
    if number < 0 or number >> width:
        raise OutOfRange(column.name.text, f"{number} does not fit into BIT({width})")
    return number


def real(column: ColumnInfo, value: object) -> float:
    """FLOAT and DOUBLE: the nearest number of that size, as these types are."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise WrongType(column.name.text, f"{type(value).__name__} is no int or float")
    try:
        number = float(value)
        if column.type.Tp == T_FLOAT:
            _F32.pack(number)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise OutOfRange(column.name.text, f"{value} is too large, or no number")
    if column.unsigned and number < 0:
        raise OutOfRange(column.name.text, f"{value} is below 0")
    return number


def decimal(column: ColumnInfo, value: object) -> str:
    """DECIMAL(p, s) from an int, a Decimal or its text: exactly `s` fraction digits."""
    name, shape = column.name.text, column.type
    precision, scale = shape.Flen, shape.Decimal
    if precision < 0 or scale < 0:
        precision, scale = _DEFAULT_DECIMAL
    if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
        hint = "; give a Decimal, which is exact" if isinstance(value, float) else ""
        raise WrongType(name, f"{type(value).__name__} is no int, Decimal or str{hint}")
    try:
        number = Decimal(value)
    except InvalidOperation:
        raise WrongType(name, f"{value!r} is no number") from None
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int):
        raise OutOfRange(name, f"{value} is no number")
    if not any(digits):
        return f"0.{'0' * scale}" if scale else "0"
    if number.adjusted() >= precision - scale:
        raise OutOfRange(name, f"{value} has too many digits for DECIMAL({precision},{scale})")
    written = "".join(map(str, digits)).rstrip("0")
    exponent += len(digits) - len(written)
    if exponent < -scale:
        raise OutOfRange(name, f"{value} would be rounded in DECIMAL({precision},{scale})")
    if sign and column.unsigned:
        raise OutOfRange(name, f"{value} is below 0")
    text = (written + "0" * (exponent + scale)).rjust(scale + 1, "0")
    whole, fraction = text[: len(text) - scale], text[len(text) - scale :]
    return ("-" if sign else "") + (f"{whole}.{fraction}" if scale else whole)


def _int(column: ColumnInfo, value: object) -> int:
    if not isinstance(value, int):
        raise WrongType(column.name.text, f"{type(value).__name__} is no int")
    return int(value)
