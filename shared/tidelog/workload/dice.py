"""Seeded draws over the Rng port, and an Rng that only depends on its seed. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from tidelog.ports import Rng

T = TypeVar("T")

_MASK = (1 << 64) - 1
_WORDS = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "harbor",
    "indigo",
    "juniper",
    "kestrel",
    "lumen",
)


class SeededRng:
    """SplitMix64 (Steele, Lea, Flood 2014) as an Rng port: the same seed, the same run."""

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def _next(self) -> int:
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def random(self) -> float:
        return (self._next() >> 11) / (1 << 53)

    def randbelow(self, bound: int) -> int:
        return self._next() % bound

    def token(self) -> str:
        return f"{self._next():016x}"


class Dice:
    def __init__(self, rng: Rng) -> None:
        self._rng = rng

    def chance(self, share: float) -> bool:
        return self._rng.random() < share

    def below(self, bound: int) -> int:
        return self._rng.randbelow(bound)

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + self._rng.randbelow(high - low + 1)

    def pick(self, items: Sequence[T]) -> T:
        return items[self._rng.randbelow(len(items))]

    def weighted(self, items: Sequence[tuple[T, int]]) -> T:
        at = self._rng.randbelow(sum(weight for _, weight in items))
        for item, weight in items:
            at -= weight
            if at < 0:
                return item
        raise AssertionError("weights are not positive")

    def word(self) -> str:
        return self.pick(_WORDS)

    def octets(self, count: int) -> bytes:
        return bytes(self._rng.randbelow(256) for _ in range(count))
