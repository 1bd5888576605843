"""A column's type in SQL -> TiDB's FieldType, with TiDB's default lengths (`mysql/util.go`)."""

from __future__ import annotations

from typing import Final

from tidelog.pump_client.ddl.errors import DdlNotSupported
from tidelog.pump_client.ddl.parse import Tree, refuse
from tidelog.rows.values import STRING_TYPES
from tidelog.schema.model import FLAG_BINARY, FLAG_UNSIGNED, FieldType

_INTS: Final = {
    "TINYINT": (1, 4, 3),
    "SMALLINT": (2, 6, 5),
    "MEDIUMINT": (9, 9, 8),
    "INT": (3, 11, 10),
    "BIGINT": (8, 20, 20),
}
"""Tp, display width signed and unsigned."""
_REALS: Final = {"FLOAT": (4, 12), "DOUBLE": (5, 22)}
_TIMES: Final = {
    "DATETIME": (12, 19),
    "TIMESTAMP": (7, 19),
    "TIMESTAMPTZ": (7, 19),
    "TIME": (11, 10),
}
_TEXTS: Final = {
    "TINYTEXT": (249, 255, False),
    "TEXT": (252, 65535, False),
    "MEDIUMTEXT": (250, 16777215, False),
    "LONGTEXT": (251, 4294967295, False),
    "TINYBLOB": (249, 255, True),
    "BLOB": (252, 65535, True),
    "MEDIUMBLOB": (250, 16777215, True),
    "LONGBLOB": (251, 4294967295, True),
}
_PLAIN: Final = {
    "DATE": (10, 10, FLAG_BINARY),
    "YEAR": (13, 4, FLAG_BINARY | FLAG_UNSIGNED),
    "JSON": (245, 4294967295, FLAG_BINARY),
}
_CHARS: Final = {
    "CHAR": (254, False, 255),
    "VARCHAR": (15, False, 16383),
    "BINARY": (254, True, 255),
    "VARBINARY": (15, True, 65535),
}
COLLATIONS: Final = {
    "utf8mb4": "utf8mb4_bin",
    "utf8": "utf8_bin",
    "utf8mb3": "utf8_bin",
    "latin1": "latin1_bin",
    "ascii": "ascii_bin",
}
"""TiDB's default for each character set that we know how to check."""


def field_type(tree: Tree, charset: str, collate: str) -> FieldType:
    """`tree` is sqlglot's DataType. Raises DdlNotSupported."""
    name = tree.this.name
    numbers = [int(one.name) for one in tree.expressions if one.name.isdigit()]
    is_unsigned = name[1:] in _INTS or name in ("UDECIMAL", "UDOUBLE", "UFLOAT")
    base = name[1:] if is_unsigned else name
    unsigned = FLAG_UNSIGNED if is_unsigned else 0
    if base == "BOOLEAN":
        return _numeric(1, 0, 1)
    if base in _INTS:
        tp, width, width_unsigned = _INTS[base]
        width = width_unsigned if is_unsigned else width
        if numbers and numbers[0] > 255:
            raise refuse(tree, "is wider than 255")
        return _numeric(tp, unsigned, numbers[0] if numbers else width)
    if base in _REALS and not numbers:
        return _numeric(_REALS[base][0], unsigned, _REALS[base][1], -1)
    if base == "DECIMAL":
        return _decimal(tree, unsigned, numbers)
    if base in _TIMES:
        return _time(tree, *_TIMES[base], numbers)
    if base in _PLAIN and (not numbers or (base == "YEAR" and numbers == [4])):
        tp, width, flag = _PLAIN[base]
        return _numeric(tp, flag & FLAG_UNSIGNED, width)
    if base == "BIT":
        return _bits(tree, numbers)
    if base in ("ENUM", "SET"):
        return _elements(tree, charset, collate)
    return _string(tree, base, numbers, charset, collate)


def _string(tree: Tree, base: str, numbers: list[int], charset: str, collate: str) -> FieldType:
    if base in _TEXTS and not numbers:
        tp, length, is_binary = _TEXTS[base]
    elif base in _CHARS:
        tp, is_binary, limit = _CHARS[base]
        if not numbers and tp == 15:
            raise refuse(tree, "needs a length")
        length = numbers[0] if numbers else 1
        if not 0 <= length <= limit:
            raise refuse(tree, f"is longer than {limit}")
    else:
        raise refuse(tree)
    if is_binary:
        return FieldType(tp, FLAG_BINARY, length, 0, "binary", "binary")
    return FieldType(tp, 0, length, 0, charset, collate)


def _decimal(tree: Tree, unsigned: int, numbers: list[int]) -> FieldType:
    precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
    if not 0 < precision <= 65 or not scale <= min(30, precision):
        raise refuse(tree, "has no such precision and scale")
    return _numeric(246, unsigned, precision, scale)


def _time(tree: Tree, tp: int, width: int, numbers: list[int]) -> FieldType:
    digits = numbers[0] if numbers else 0
    if digits > 6:
        raise refuse(tree, "keeps at most 6 fraction digits")
    return _numeric(tp, 0, width + (digits + 1 if digits else 0), digits)


def _bits(tree: Tree, numbers: list[int]) -> FieldType:
    width = numbers[0] if numbers else 1
    if not 0 < width <= 64:
        raise refuse(tree, "has no such width")
    return _numeric(16, FLAG_UNSIGNED, width)


def _elements(tree: Tree, charset: str, collate: str) -> FieldType:
    elements = tuple(one.name.rstrip(" ") for one in tree.expressions)
    is_set = tree.this.name == "SET"
    if not elements or len(set(elements)) < len(elements):
        raise refuse(tree, "names an element twice, or none")
    if is_set and (len(elements) > 64 or any("," in one for one in elements)):
        raise refuse(tree, "has more than 64 elements, or one with a comma")
    widths = [len(one) for one in elements]
    width = sum(widths) + len(elements) - 1 if is_set else max(widths)
    return FieldType(248 if is_set else 247, 0, width, 0, charset, collate, elements)


def _numeric(tp: int, flag: int, width: int, scale: int = 0) -> FieldType:
    return FieldType(tp, flag | FLAG_BINARY, width, scale, "binary", "binary")


def collation(charset: str, collate: str, default: tuple[str, str]) -> tuple[str, str]:
    """Character set and collation, either of which may be left out. Raises DdlNotSupported."""
    charset, collate = charset.lower(), collate.lower()
    if not charset and not collate:
        return default
    charset = charset or collate.split("_")[0]
    if charset not in COLLATIONS or (
        collate and not collate.startswith(charset.removesuffix("mb3"))
    ):
        known = ", ".join(COLLATIONS)
        raise DdlNotSupported(f"character set {charset} {collate}", hint=f"one of {known}")
    return charset, collate or COLLATIONS[charset]


def is_text(field: FieldType) -> bool:
    return field.Tp in STRING_TYPES or field.Tp in (247, 248)
