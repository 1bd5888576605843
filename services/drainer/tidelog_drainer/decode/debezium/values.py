"""Our values -> Debezium's, where nothing is lost by it. Pure.

Source: Debezium's MySQL connector, "Data type mappings", with time.precision.mode
adaptive_time_microseconds, decimal.handling.mode string, binary.handling.mode base64. What these
can't hold keeps our form: a date that is none (0000-00-00) is MySQL's text, an unsigned BIGINT its
number.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, timedelta

import msgspec

from tidelog.rows.times import parse_duration
from tidelog.rows.values import (
    T_BIT,
    T_DATE,
    T_DATETIME,
    T_DURATION,
    T_JSON,
    T_NEWDATE,
    T_TIMESTAMP,
    Value,
)
from tidelog.schema.model import FieldType

Convert = Callable[[Value], Value]

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 (a DATETIME has no zone)
_EPOCH_DAY = _EPOCH.date()
_MILLISECOND = timedelta(milliseconds=1)
_MICROSECOND = timedelta(microseconds=1)
MILLIS_FSP = 3
"""Up to so many fraction digits a DATETIME is in milliseconds, with more in microseconds."""


def conversion(field: FieldType) -> Convert | None:
    """None: the value is the same in both. NULL is never converted."""
    if field.Tp == T_DATETIME:
        return _millis if field.Decimal <= MILLIS_FSP else _micros
    if field.Tp == T_BIT:
        return _flag if field.Flen <= 1 else _bits((field.Flen + 7) // 8)
    return _BY_TYPE.get(field.Tp)


def _days(value: Value) -> Value:
    """io.debezium.time.Date."""
    try:
        return (date.fromisoformat(str(value)) - _EPOCH_DAY).days
    except ValueError:
        return value


def _millis(value: Value) -> Value:
    """io.debezium.time.Timestamp."""
    return _since_epoch(value, _MILLISECOND)


def _micros(value: Value) -> Value:
    """io.debezium.time.MicroTimestamp."""
    return _since_epoch(value, _MICROSECOND)


def _since_epoch(value: Value, unit: timedelta) -> Value:
    try:
        return (datetime.fromisoformat(str(value)) - _EPOCH) // unit
    except ValueError:
        return value


def _zoned(value: Value) -> Value:
    """io.debezium.time.ZonedTimestamp, in UTC."""
    text = str(value)
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return value
    return text.replace(" ", "T") + "Z"


def _duration(value: Value) -> Value:
    """io.debezium.time.MicroTime."""
    return parse_duration(str(value)) // 1000


def json_text(value: Value) -> Value:
    """io.debezium.data.Json."""
    return msgspec.json.encode(value).decode()


def _flag(value: Value) -> Value:
    return value == 1


def _bits(width: int) -> Convert:
    def convert(value: Value) -> Value:
        """io.debezium.data.Bits: little-endian bytes."""
        assert isinstance(value, int)
        return b64encode(value.to_bytes(width, "little")).decode()

    return convert


_BY_TYPE: dict[int, Convert] = {
    T_DATE: _days,
    T_NEWDATE: _days,
    T_TIMESTAMP: _zoned,
    T_DURATION: _duration,
    T_JSON: json_text,
}
