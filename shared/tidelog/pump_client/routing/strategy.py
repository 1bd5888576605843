"""Which Pump takes a Prewrite (appendix A.2). Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tidelog.errors import ConfigError
from tidelog.pump_client.routing.pump_list import Pump

Strategy = Callable[[Sequence[Pump], int, int, Collection[str]], Pump]
"""(candidates sorted by node, start_ts, number of this try from 0, nodes tried before)."""


def make_strategy(name: str) -> Strategy:
    """`range` (in turn) or `hash` ((start_ts + try) mod n). Raises ConfigError."""
    if name == "range":
        return Turn()
    if name == "hash":
        return by_hash
    raise ConfigError(f"strategy {name!r} is not known", hint="range or hash")


class Turn:
    """The original's `range`: one after the other."""

    def __init__(self) -> None:
        self._next = 0

    def __call__(
        self, pumps: Sequence[Pump], start_ts: int, attempt: int, tried: Collection[str]
    ) -> Pump:
        self._next = at = (self._next + 1) % len(pumps)
        return pumps[at] if not tried else _fresh(pumps, at, tried)


def by_hash(pumps: Sequence[Pump], start_ts: int, attempt: int, tried: Collection[str]) -> Pump:
    """The original's `hash`: one transaction always finds the same Pump first."""
    at = (start_ts + attempt) % len(pumps)
    return pumps[at] if not tried else _fresh(pumps, at, tried)


def _fresh(pumps: Sequence[Pump], at: int, tried: Collection[str]) -> Pump:
    """The first from `at` on that was not tried; the one at `at` when all were."""
    turned = [pumps[(at + step) % len(pumps)] for step in range(len(pumps))]
    return next((pump for pump in turned if pump.node not in tried), pumps[at])
