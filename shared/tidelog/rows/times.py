"""TiDB's packed date and time values, and MySQL's text for them.

Packed time (u64): ((year * 13 + month) << 5 | day) << 17 | hour << 12 | minute << 6 | second, all
<< 24 | microseconds. TIMESTAMP is packed in UTC. Duration: signed nanoseconds.
"""

from __future__ import annotations

import re
from typing import Final

from tidelog.rows.errors import Malformed

_MICRO_MASK: Final = (1 << 24) - 1
_TIME = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})(?:[ T](\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?)?", re.ASCII
)
_TWO: Final = tuple(f"{number:02d}" for number in range(100))
_DURATION = re.compile(r"(-?)(\d{2,3}):(\d{2}):(\d{2})(?:\.(\d{1,6}))?", re.ASCII)


def date_text(packed: int) -> str:
    """`2024-02-29`, `0000-00-00`."""
    ymd = packed >> 41
    year_month = ymd >> 5
    year = year_month // 13
    if year > 9999:
        raise Malformed("a year is above 9999")
    return f"{_TWO[year // 100]}{_TWO[year % 100]}-{_TWO[year_month % 13]}-{_TWO[ymd & 31]}"


def datetime_text(packed: int, fsp: int) -> str:
    """`2024-02-29 12:00:00`, with `fsp` fraction digits if fsp > 0."""
    hms = packed >> 24
    hour = hms >> 12 & 31
    minute = hms >> 6 & 63
    second = hms & 63
    if hour > 23 or minute > 59 or second > 59:
        raise Malformed("a time of day is out of range")
    text = f"{date_text(packed)} {_TWO[hour]}:{_TWO[minute]}:{_TWO[second]}"
    micros = packed & _MICRO_MASK
    if micros > 999_999:
        raise Malformed("microseconds are out of range")
    # The millionth in front of them keeps the zeros.
    return f"{text}.{str(1_000_000 + micros)[1 : 1 + fsp]}" if fsp > 0 else text


def duration_text(nanos: int, fsp: int) -> str:
    """`-838:59:59`, with `fsp` fraction digits if fsp > 0."""
    sign = ""
    if nanos < 0:
        sign = "-"
        nanos = -nanos
    seconds, nanos = divmod(nanos, 1_000_000_000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    if hour > 838:
        raise Malformed("a duration is out of range")
    text = f"{sign}{hour:02d}:{minute:02d}:{second:02d}"
    return f"{text}.{nanos // 1000:06d}"[: len(text) + 1 + fsp] if fsp > 0 else text


def pack_time(text: str) -> int:
    """The packed form of a DATE, DATETIME or TIMESTAMP text. Raises Malformed."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise Malformed(f"{text!r} is no date or time")
    year, month, day, hour, minute, second = (int(g or 0) for g in match.groups()[:6])
    if month > 12 or day > 31 or hour > 23 or minute > 59 or second > 59:
        raise Malformed(f"{text!r} is out of range")
    micros = int((match[7] or "0").ljust(6, "0"))
    ymd = (year * 13 + month) << 5 | day
    return (ymd << 17 | hour << 12 | minute << 6 | second) << 24 | micros


def parse_duration(text: str) -> int:
    """Nanoseconds of a TIME text. Raises Malformed."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise Malformed(f"{text!r} is no time")
    hour, minute, second = int(match[2]), int(match[3]), int(match[4])
    if hour > 838 or minute > 59 or second > 59:
        raise Malformed(f"{text!r} is out of range")
    nanos = ((hour * 60 + minute) * 60 + second) * 1_000_000_000
    nanos += int((match[5] or "0").ljust(6, "0")) * 1000
    return -nanos if match[1] else nanos
