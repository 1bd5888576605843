"""MySQL's functions of dates that partition a table, for SQLite, which has none of them. Pure.

They are the connection's only: no index or column may use them, which other programs read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, date, datetime

Function = Callable[[str], float | None]

_YEAR_0 = 365
"""Days of the year 0, with which MySQL's begin."""


def register(db: sqlite3.Connection) -> None:
    for name, function in _FUNCTIONS.items():
        db.create_function(name, 1, _of_text(function))


def _of_text(function: Function) -> Callable[[object], float | None]:
    def called(value: object) -> float | None:
        """NULL of what is no date, as of 0000-00-00."""
        try:
            return function(value) if isinstance(value, str) else None
        except ValueError:
            return None

    return called


def _day(text: str) -> date:
    return date.fromisoformat(text[:10])


def _unix_timestamp(text: str) -> float:
    """Of a TIMESTAMP, which the stream has in UTC; 0 of zeros."""
    if text.startswith("0000"):
        return 0
    seconds, _, fraction = text.partition(".")
    whole = int(datetime.fromisoformat(seconds).replace(tzinfo=UTC).timestamp())
    return whole + float(f"0.{fraction}") if fraction else whole


_FUNCTIONS: dict[str, Function] = {
    "year": lambda text: int(text[:4]),
    "quarter": lambda text: (int(text[5:7]) + 2) // 3,
    "month": lambda text: int(text[5:7]),
    "day": lambda text: int(text[8:10]),
    "dayofmonth": lambda text: int(text[8:10]),
    "dayofyear": lambda text: _day(text).timetuple().tm_yday,
    "dayofweek": lambda text: _day(text).isoweekday() % 7 + 1,
    "weekday": lambda text: _day(text).weekday(),
    "to_days": lambda text: _day(text).toordinal() + _YEAR_0,
    "unix_timestamp": _unix_timestamp,
}
