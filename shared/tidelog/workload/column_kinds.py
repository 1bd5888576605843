"""Column types the workload uses: SQL text, TiDB's FieldType, and random values. Pure.

Values have the forms of design section 5, exactly as the codecs give them back.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import msgspec

from tidelog.rows.values import (
    T_BIT,
    T_BLOB,
    T_DATE,
    T_DATETIME,
    T_DECIMAL,
    T_DOUBLE,
    T_DURATION,
    T_ENUM,
    T_FLOAT,
    T_JSON,
    T_LONG,
    T_LONG_BLOB,
    T_LONGLONG,
    T_SET,
    T_TIMESTAMP,
    T_VARCHAR,
    T_YEAR,
    Value,
)
from tidelog.schema.model import FLAG_BINARY, FLAG_UNSIGNED, FieldType
from tidelog.workload.dice import Dice

CI = "utf8mb4_general_ci"
BIN = "utf8mb4_bin"
_ELEMS = ("red", "green", "blue", "it's")


class ColumnKind(msgspec.Struct, frozen=True):
    """`sql` as TiDB normalises it. `default`: text of a DEFAULT for ADD COLUMN and its value."""

    sql: str
    type: FieldType
    draw: Callable[[Dice], Value]
    default: tuple[str, str, Value] | None = None
    """(SQL literal, TiDB's origin_default, value)"""


def _text(length: int, collate: str = BIN) -> FieldType:
    return FieldType(T_VARCHAR, 0, length, 0, "utf8mb4", collate)


def _plain(tp: int, flen: int, decimal: int = 0, flag: int = FLAG_BINARY) -> FieldType:
    return FieldType(tp, flag, flen, decimal, "binary", "binary")


def _name(dice: Dice) -> str:
    text = f"{dice.word()}-{dice.below(1000)}"
    return dice.pick((text, text.upper(), text.title(), f"{text} ß✓ \\ ' \""))


def _decimal(dice: Dice) -> str:
    sign = "-" if dice.chance(0.3) else ""
    whole = dice.below(10 ** dice.between(1, 14))
    fraction = dice.below(10_000)
    return f"{sign if whole or fraction else ''}{whole}.{fraction:04d}"


def _date(dice: Dice) -> str:
    return f"{dice.between(1970, 2035):04d}-{dice.between(1, 12):02d}-{dice.between(1, 28):02d}"


def _clock(dice: Dice) -> str:
    return f"{dice.below(24):02d}:{dice.below(60):02d}:{dice.below(60):02d}"


def _datetime(dice: Dice) -> str:
    if dice.chance(0.05):
        return "0000-00-00 00:00:00.000"
    return f"{_date(dice)} {_clock(dice)}.{dice.below(1000):03d}"


def _stamp(dice: Dice) -> str:
    return f"{dice.between(1971, 2035):04d}-07-{dice.between(1, 28):02d} {_clock(dice)}"


def _duration(dice: Dice) -> str:
    return (
        f"{'-' if dice.chance(0.2) else ''}{dice.between(1, 838):02d}:{dice.below(60):02d}:11.250"
    )


def _json(dice: Dice) -> Value:
    return {
        "n": dice.between(-1000, 1000),
        "tags": [dice.word() for _ in range(dice.below(3))],
        "deep": {"ok": dice.chance(0.5), "none": None, "x": dice.below(8) / 4 + 0.25},
    }


def _set(dice: Dice) -> str:
    return ",".join(elem for elem in _ELEMS if dice.chance(0.4))


def _blob(dice: Dice) -> str:
    return b64encode(dice.octets(dice.below(24))).decode()


INT = ColumnKind(
    "INT",
    _plain(T_LONG, 11, flag=0),
    lambda d: d.between(-(1 << 31), (1 << 31) - 1),
    ("9", "9", 9),
)
SMALL = ColumnKind("INT", _plain(T_LONG, 11, flag=0), lambda d: d.below(5))
BIGINT = ColumnKind(
    "BIGINT", _plain(T_LONGLONG, 20, flag=0), lambda d: d.below(1 << 63) - d.below(1 << 62)
)
UNSIGNED = ColumnKind(
    "BIGINT UNSIGNED",
    _plain(T_LONGLONG, 20, flag=FLAG_UNSIGNED),
    lambda d: (1 << 64) - 1 - d.below(1 << 20) if d.chance(0.5) else d.below(1 << 63),
    ("18446744073709551615", "18446744073709551615", (1 << 64) - 1),
)
NAME = ColumnKind("VARCHAR(64)", _text(64), _name, ("_UTF8MB4'none'", "none", "none"))
NAME_CI = ColumnKind(
    "VARCHAR(64) CHARACTER SET UTF8MB4 COLLATE utf8mb4_general_ci", _text(64, CI), _name
)
LONGTEXT = ColumnKind("LONGTEXT", FieldType(T_LONG_BLOB, 0, 4294967295, 0, "utf8mb4", BIN), _name)
DECIMAL = ColumnKind(
    "DECIMAL(18,4)", _plain(T_DECIMAL, 18, 4), _decimal, ("1.5", "1.5000", "1.5000")
)
DOUBLE = ColumnKind(
    "DOUBLE", _plain(T_DOUBLE, 22, -1), lambda d: d.between(-(10**9), 10**9) / d.between(1, 997)
)
FLOAT = ColumnKind("FLOAT", _plain(T_FLOAT, 12, -1), lambda d: d.between(-40_000, 40_000) / 8)
DATETIME = ColumnKind("DATETIME(3)", _plain(T_DATETIME, 23, 3), _datetime)
TIMESTAMP = ColumnKind("TIMESTAMP NULL", _plain(T_TIMESTAMP, 19, 0), _stamp)
DATE = ColumnKind("DATE", _plain(T_DATE, 10), _date)
TIME = ColumnKind("TIME(3)", _plain(T_DURATION, 14, 3), _duration)
YEAR = ColumnKind("YEAR", _plain(T_YEAR, 4, flag=FLAG_UNSIGNED), lambda d: d.between(1901, 2155))
JSON = ColumnKind("JSON", _plain(T_JSON, 4294967295), _json)
BLOB = ColumnKind("BLOB", _plain(T_BLOB, 65535), _blob)
ENUM = ColumnKind(
    "ENUM('red','green','blue','it''s')",
    FieldType(T_ENUM, 0, 5, 0, "utf8mb4", BIN, _ELEMS),
    lambda d: d.pick(_ELEMS),
)
SET = ColumnKind(
    "SET('red','green','blue','it''s')",
    FieldType(T_SET, 0, 19, 0, "utf8mb4", BIN, _ELEMS),
    _set,
)
BIT = ColumnKind("BIT(12)", _plain(T_BIT, 12, flag=FLAG_UNSIGNED), lambda d: d.below(1 << 12))

PAYLOADS = (
    INT, BIGINT, UNSIGNED, NAME, NAME_CI, DECIMAL, DOUBLE, FLOAT, DATETIME, TIMESTAMP, DATE, TIME,
    YEAR, JSON, BLOB, ENUM, SET, BIT,
)  # fmt: skip
ADDED = (INT, UNSIGNED, NAME, DECIMAL, JSON, DATETIME)
"""Kinds that ADD COLUMN draws from."""
