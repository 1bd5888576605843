"""What a measurement says. Pure.

A figure is only worth something beside a limit of the same run: absolute figures of one machine
move up to twofold between runs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec

ENOUGH = 100
"""Calls that have a p99: of fewer it is their maximum."""


class Spread(msgspec.Struct, frozen=True):
    """Of single calls, in milliseconds."""

    n: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    @property
    def tail(self) -> tuple[str, float]:
        """The p99, or the most where so few calls have none; its name first."""
        return ("p99", self.p99_ms) if self.n >= ENOUGH else ("most", self.max_ms)


class Range(msgspec.Struct, frozen=True):
    """Of the same measurement in `n` runs: the least, the middle one, the most."""

    n: int
    low: float
    median: float
    high: float


class Growth(msgspec.Struct, frozen=True):
    """The figure is a point of a curve: what grows (`of`), by what, and where it stands there."""

    of: str
    by: str
    x: float


class Limit(msgspec.Struct, frozen=True):
    """What a building block does by itself on this machine."""

    name: str
    value: float
    unit: str
    spread: Spread | None = None
    runs: Range | None = None


class Usage(msgspec.Struct, frozen=True):
    """By process: cores it was busy with, and the share of the time that its main thread was ready
    and had no core (others used the machine)."""

    cores: Mapping[str, float]
    starved: Mapping[str, float]


class Figure(msgspec.Struct, frozen=True):
    """One measured figure. `aim` in `unit`; `aim_of_limit` is a share of the limit instead.
    `original`: the Go original on the reference machine, as text."""

    section: str
    name: str
    value: float
    unit: str
    limit: Limit | None = None
    aim: float | None = None
    aim_of_limit: float | None = None
    lower_is_better: bool = False
    bound: bool = False
    """Its aim holds on any machine: memory does not depend on speed."""
    original: str = ""
    spread: Spread | None = None
    usage: Usage | None = None
    units_per_s: float = 0.0
    """What the usage is divided by; 0 = `value`."""
    note: str = ""
    growth: Sequence[Growth] = ()
    runs: Range | None = None
    ratios: Range | None = None
    """Of several runs, each beside its own limit; `median` is that of the run that is shown."""

    @property
    def ratio(self) -> float | None:
        """Figure / limit; None without a limit."""
        return self.value / self.limit.value if self.limit and self.limit.value else None

    @property
    def reached(self) -> bool | None:
        """Whether the aim is met; None without one."""
        if self.aim_of_limit is not None and self.ratio is not None:
            return self.ratio >= self.aim_of_limit
        if self.aim is None:
            return None
        return self.value <= self.aim if self.lower_is_better else self.value >= self.aim

    @property
    def exceeded(self) -> bool:
        return self.bound and self.reached is False


def quantile(ordered: Sequence[float], share: float) -> float:
    """Of ascending values, by nearest rank: the smallest that `share` of all do not exceed."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def spread(seconds: Sequence[float]) -> Spread:
    """Of call times in seconds, in any order."""
    ms = sorted(s * 1000 for s in seconds)
    return Spread(len(ms), quantile(ms, 0.5), quantile(ms, 0.99), quantile(ms, 1.0))


def median(values: Sequence[float]) -> float:
    return quantile(sorted(values), 0.5)
