"""Dates and times as columns take them, in MySQL's text."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta
from typing import Final

from tidelog.pump_client.tables.errors import OutOfRange, WrongType
from tidelog.rows.values import T_TIMESTAMP
from tidelog.schema.model import ColumnInfo

_MAX_TIME: Final = timedelta(hours=838, minutes=59, seconds=59)
_FIRST_STAMP: Final = datetime(1970, 1, 1, 0, 0, 1)  # noqa: DTZ001 (TIMESTAMP's text is UTC)
_LAST_STAMP: Final = datetime(2038, 1, 19, 3, 14, 7, 999_999)  # noqa: DTZ001
_TIME = re.compile(r"(-?)(\d{1,3}):([0-5]\d):([0-5]\d)(?:\.(\d{1,6}))?", re.ASCII)
_DATETIME = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?", re.ASCII)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
ZERO_DATE: Final = "0000-00-00"
ZERO_TIME: Final = "00:00:00"


def day(column: ColumnInfo, value: object) -> str:
    """DATE, from a date or its text; the zero date as text."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value.isoformat()
    if not isinstance(value, str):
        raise WrongType(column.name.text, f"{type(value).__name__} is no date or str")
    if value == ZERO_DATE:
        return value
    try:
        if _DATE.fullmatch(value) is None:
            raise ValueError
        return date.fromisoformat(value).isoformat()
    except ValueError:
        raise OutOfRange(column.name.text, f"{value!r} is no date, as 2024-02-29") from None


def moment(column: ColumnInfo, value: object) -> str:
    """DATETIME and TIMESTAMP, from a datetime or its text; the zero one as text.

    TIMESTAMP is UTC: one with a zone is converted, one without is taken as UTC. DATETIME has no
    zone and takes none.
    """
    name, digits = column.name.text, max(0, column.type.Decimal)
    is_stamp = column.type.Tp == T_TIMESTAMP
    if isinstance(value, str):
        parsed = _parse(name, value)
        if parsed is None:
            return f"{ZERO_DATE} {ZERO_TIME}" + _fraction(name, 0, digits)
    elif isinstance(value, datetime):
        parsed = value
    else:
        raise WrongType(name, f"{type(value).__name__} is no datetime or str")
    if parsed.tzinfo is not None:
        if not is_stamp:
            raise WrongType(name, "DATETIME has no time zone: give a datetime without one")
        parsed = parsed.astimezone(UTC).replace(tzinfo=None)
    if is_stamp and not _FIRST_STAMP <= parsed <= _LAST_STAMP:
        raise OutOfRange(name, f"{parsed} is no TIMESTAMP: 1970 to 2038")
    text = f"{parsed.date().isoformat()} {parsed:%H:%M:%S}"
    return text + _fraction(name, parsed.microsecond, digits)


def duration(column: ColumnInfo, value: object) -> str:
    """TIME, from a timedelta, a time of day or its text."""
    name, digits = column.name.text, max(0, column.type.Decimal)
    if isinstance(value, timedelta):
        span = value
    elif isinstance(value, time) and value.tzinfo is None:
        span = timedelta(0, value.second, value.microsecond, 0, value.minute, value.hour)
    elif isinstance(value, str):
        span = _span(name, value)
    else:
        raise WrongType(name, f"{type(value).__name__} is no timedelta, time or str")
    if abs(span) > _MAX_TIME:
        raise OutOfRange(name, f"{value} is not within 838:59:59")
    micros = abs(span) // timedelta(microseconds=1)
    seconds, micros = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return ("-" if span < timedelta(0) else "") + clock + _fraction(name, micros, digits)


def _parse(name: str, value: str) -> datetime | None:
    """None for the zero date and time."""
    match = _DATETIME.fullmatch(value)
    if match is None and _DATE.fullmatch(value) is None:
        raise OutOfRange(name, f"{value!r} is no time, as 2024-02-29 12:00:00")
    day, clock, fraction = match.groups() if match is not None else (value, ZERO_TIME, None)
    micros = (fraction or "").ljust(6, "0")
    if day == ZERO_DATE and clock == ZERO_TIME and not int(micros):
        return None
    try:
        return datetime.fromisoformat(f"{day} {clock}.{micros}")
    except ValueError:
        raise OutOfRange(name, f"{value!r} is no time that was or will be") from None


def _span(name: str, value: str) -> timedelta:
    match = _TIME.fullmatch(value)
    if match is None:
        raise OutOfRange(name, f"{value!r} is no TIME, as -12:59:59.5")
    sign, hours, minutes, seconds, fraction = match.groups()
    micros = int((fraction or "").ljust(6, "0"))
    span = timedelta(0, int(seconds), micros, 0, int(minutes), int(hours))
    return -span if sign else span


def _fraction(name: str, micros: int, digits: int) -> str:
    """`.125` with as many digits as the column has, which must hold all."""
    text = f"{micros:06d}"
    if text[digits:].strip("0"):
        raise OutOfRange(name, f"the column keeps {digits} fraction digits, the value has more")
    return f".{text[:digits]}" if digits else ""
