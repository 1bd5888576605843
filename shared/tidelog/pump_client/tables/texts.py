"""Text, bytes, ENUM, SET and JSON as columns take them: never cut, padded or replaced."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from tidelog.pump_client.tables.errors import OutOfRange, WrongType
from tidelog.rows.column import base64_text
from tidelog.rows.values import T_STRING, T_VAR_STRING, T_VARCHAR, Value
from tidelog.schema.model import ColumnInfo

_BY_CHARACTERS: Final = frozenset((T_VARCHAR, T_VAR_STRING, T_STRING))
"""Their length counts characters; that of the others, the TEXT types, bytes."""
_CODECS: Final = {"ascii": "ascii", "latin1": "cp1252", "gbk": "gbk"}
JSON_DEPTH: Final = 100
"""MySQL's limit."""


def text(column: ColumnInfo, value: object) -> str:
    """CHAR, VARCHAR and the TEXT types."""
    name, shape = column.name.text, column.type
    if not isinstance(value, str):
        raise WrongType(name, f"{type(value).__name__} is no str")
    try:
        size = len(value.encode())
        value.encode(_CODECS.get(shape.Charset, "utf-8"))
    except UnicodeEncodeError as error:
        raise OutOfRange(name, f"not {shape.Charset}: {error.reason}") from None
    if shape.Charset in ("utf8", "utf8mb3") and any(ord(letter) > 0xFFFF for letter in value):
        raise OutOfRange(name, "utf8 holds no character above U+FFFF: use utf8mb4")
    length = len(value) if shape.Tp in _BY_CHARACTERS else size
    if 0 <= shape.Flen < length:
        unit = "characters" if shape.Tp in _BY_CHARACTERS else "bytes"
        raise OutOfRange(name, f"{length} {unit}, {shape.Flen} are possible")
    if shape.Tp == T_STRING and value.endswith(" "):
        raise OutOfRange(name, "CHAR does not keep spaces at the end: use VARCHAR")
    return value


def octets(column: ColumnInfo, value: object) -> str:
    """BINARY, VARBINARY and the BLOB types, from bytes; BINARY(n) from exactly n."""
    name, shape = column.name.text, column.type
    if not isinstance(value, bytes | bytearray | memoryview):
        raise WrongType(name, f"{type(value).__name__} is no bytes")
    data = bytes(value)
    if 0 <= shape.Flen < len(data):
        raise OutOfRange(name, f"{len(data)} bytes, {shape.Flen} are possible")
    if shape.Tp == T_STRING and len(data) < shape.Flen:
        raise OutOfRange(name, f"{len(data)} bytes; BINARY({shape.Flen}) takes no fewer")
    return base64_text(data)


def element(column: ColumnInfo, value: object) -> str:
    """ENUM, by name."""
    elements = column.type.Elems or ()
    if not isinstance(value, str):
        raise WrongType(column.name.text, f"{type(value).__name__} is no str")
    if value not in elements:
        raise OutOfRange(column.name.text, f"{value!r} is none of {', '.join(elements)}")
    return value


def elements(column: ColumnInfo, value: object) -> str:
    """SET, from text with commas or from names in any order."""
    known = column.type.Elems or ()
    if isinstance(value, str):
        given = value.split(",") if value else []
    elif isinstance(value, Iterable) and all(isinstance(one, str) for one in value):
        given = list(value)
    else:
        raise WrongType(column.name.text, f"{type(value).__name__} is no str or set of str")
    strange = [one for one in given if one not in known]
    if strange:
        raise OutOfRange(column.name.text, f"{strange[0]!r} is none of {', '.join(known)}")
    return ",".join(one for one in known if one in given)


def json(column: ColumnInfo, value: object, depth: int = 0) -> Value:
    """What JSON can hold. None inside it is JSON's null; None alone is SQL's NULL."""
    name = column.name.text
    if depth > JSON_DEPTH:
        raise OutOfRange(name, f"JSON nested more than {JSON_DEPTH} deep")
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        _encodable(name, value)
        return value
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise OutOfRange(name, f"{value} is no 64-bit integer")
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise OutOfRange(name, f"JSON has no {value}")
        return value
    if isinstance(value, list | tuple):
        return [json(column, one, depth + 1) for one in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        for key in value:
            _encodable(name, key)
        return {key: json(column, one, depth + 1) for key, one in value.items()}
    raise WrongType(name, f"JSON is not made from {type(value).__name__}")


def _encodable(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise OutOfRange(name, f"not UTF-8: {error.reason}") from None
