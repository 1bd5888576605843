"""Does something grow? Lines through what was sampled of a process, and how sure they are. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt
from typing import NamedTuple

HOUR_S = 3600.0
SURE = 3.0
"""Standard errors that a slope must be above its limit: what is less is noise."""


class Sample(NamedTuple):
    """`life`: which process of that name, from 0; `age_s`: how old it was."""

    at_s: float
    life: int
    age_s: float
    value: float


class Slope(NamedTuple):
    """In parts of the mean per hour, and its standard error; `mean` in what was sampled."""

    per_hour: float
    error: float
    mean: float

    def above(self, limit: float) -> bool:
        """Surely? `limit` as `per_hour`."""
        return self.per_hour - SURE * self.error > limit

    def tells(self, limit: float) -> bool:
        """Is it so sure that growth by `limit`, as `per_hour`, is told from none?"""
        return SURE * self.error <= limit

    def __str__(self) -> str:
        return f"{self.per_hour * 100:+.1f} ± {self.error * 100:.1f} %/h"


def warm(samples: Sequence[Sample], warm_up_s: float, settled_s: float = 0.0) -> list[Sample]:
    """Without what was taken while a process was younger, or before the run had settled."""
    return [one for one in samples if one.age_s >= warm_up_s and one.at_s >= settled_s]


def slope(samples: Sequence[Sample]) -> Slope:
    """Least squares over time, of one process name: across all its lives. Samples near each other
    are not independent: each life is one point at its middle or, where there are few, each three
    minutes of one."""
    points = _points(samples)
    mean = sum(value for _, value in points) / len(points)
    middle = sum(at for at, _ in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    if spread == 0 or mean == 0:
        return Slope(0.0, inf, mean)
    rise = sum((at - middle) * (value - mean) for at, value in points) / spread
    left = sum((value - mean - rise * (at - middle)) ** 2 for at, value in points)
    error = sqrt(left / max(1, len(points) - 2) / spread)
    return Slope(rise * HOUR_S / mean, error * HOUR_S / mean, mean)


FEW_LIVES = 8
STRETCH_S = 180.0


def _points(samples: Sequence[Sample]) -> list[tuple[float, float]]:
    few = len({sample.life for sample in samples}) < FEW_LIVES
    stretches: dict[tuple[int, int], list[Sample]] = {}
    for sample in samples:
        stretch = int(sample.age_s // STRETCH_S) if few else 0
        stretches.setdefault((sample.life, stretch), []).append(sample)
    return [
        (sum(s.at_s for s in some) / len(some), sum(s.value for s in some) / len(some))
        for some in stretches.values()
    ]


def is_flat(samples: Sequence[Sample], slack: float) -> bool:
    """The most of the last third is at most the most of what was before, and `slack`."""
    third = len(samples) * 2 // 3
    before, after = samples[:third], samples[third:]
    if not before or not after:
        return True
    return max(s.value for s in after) <= max(s.value for s in before) + slack
