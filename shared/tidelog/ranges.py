"""Which numbers a configuration takes, said beside the key and checked in one place.

    segment_bytes: Annotated[int, Range(1, 1 << 40, "bytes")] = 500 << 20

A struct calls `check(self)` in its `__post_init__`, so that no way to make one passes by it.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec

from tidelog.errors import ConfigError
from tidelog.timestamps import TS_MAX


class Range(NamedTuple):
    """Both ends are taken; `unit` is for people."""

    low: float
    high: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{_plain(self.low)} to {_plain(self.high)} {self.unit}".rstrip()

    def takes(self, value: float) -> bool:
        """Not a number is none of any range."""
        return self.low <= value <= self.high


def _plain(number: float) -> str:
    return str(int(number)) if number == int(number) else str(number)


DAY_S = 86400
Period = Annotated[float, Range(0.001, DAY_S, "seconds")]
"""Seconds between two of something, or that something is waited for."""
Span = Annotated[float, Range(0, DAY_S, "seconds")]
"""A time that may be none."""
Bytes = Annotated[int, Range(1, 1 << 40, "bytes")]
Timestamp = Annotated[int, Range(0, TS_MAX)]


def bare(kind: Any) -> Any:
    """The type, without its range."""
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def range_of(kind: Any) -> Range | None:
    if get_origin(kind) is not Annotated:
        return None
    return next((extra for extra in get_args(kind)[1:] if isinstance(extra, Range)), None)


def within(name: str, value: float, allowed: Range) -> None:
    """Raises ConfigError."""
    if not allowed.takes(value):
        raise ConfigError(f"{name} is {value!r}", hint=f"{name} takes {allowed}")


def check(config: msgspec.Struct) -> None:
    """Raises ConfigError, which names the key, its value and its range."""
    for attribute, key, allowed in _ranges(type(config)):
        within(key, getattr(config, attribute), allowed)


@cache
def _ranges(cls: type[msgspec.Struct]) -> list[tuple[str, str, Range]]:
    return [
        (field.name, field.encode_name, allowed)
        for field in msgspec.structs.fields(cls)
        if (allowed := range_of(field.type)) is not None
    ]
