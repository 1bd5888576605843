"""Which Pump takes a Prewrite (appendix A.2; ADR 11 says where we leave the original). Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from tidelog.errors import BadInput
from tidelog.pump_client.routing.pump_list import Pump

Strategy = Callable[[Sequence[Pump], int, int, Collection[str]], Pump]
"""(candidates sorted by node, start_ts, number of this try from 0, nodes tried before)."""

_MASK = (1 << 64) - 1


def make_strategy(name: str) -> Strategy:
    """`range` (in turn), `hash` (by start_ts) or `score` (weighted by what Pumps announce). Raises
    BadInput."""
    strategies: dict[str, Callable[[], Strategy]] = {
        "range": Turn,
        "hash": lambda: by_hash,
        "score": Weighted,
    }
    if name not in strategies:
        known = ", ".join(strategies)
        raise BadInput(
            f"strategy {name!r} is not known",
            hint=f"one of {known}; labels go with each of them",
        )
    return strategies[name]()


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
    """One transaction always finds the same Pump first, whichever client writes it."""
    at = (mixed(start_ts) + attempt) % len(pumps)
    return pumps[at] if not tried else _fresh(pumps, at, tried)


def mixed(start_ts: int) -> int:
    """All 64 bits of a timestamp in each bit of the result (the finaliser of splitmix64).

    The original takes start_ts itself modulo n. Its low 18 bits count within a millisecond and are
    mostly the same few numbers: of 8 Pumps one gets 7 times its share.
    """
    bits = start_ts & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


class Weighted:
    """Smooth weighted round robin (nginx's) by NodeStatus.score: shares follow the scores exactly
    over one round, and one Pump's turns are spread over it. A score of 0, also of a Pump that
    announces none, counts as 1: nobody is left without any."""

    def __init__(self) -> None:
        self._of: Sequence[Pump] = ()
        self._credit: dict[str, int] = {}

    def __call__(
        self, pumps: Sequence[Pump], start_ts: int, attempt: int, tried: Collection[str]
    ) -> Pump:
        if pumps is not self._of:
            self._of = pumps
            self._credit = {pump.node: self._credit.get(pump.node, 0) for pump in pumps}
        chosen = at = total = 0
        most: int | None = None
        credit = self._credit
        for at, pump in enumerate(pumps):
            weight = max(1, pump.score)
            total += weight
            credit[pump.node] = have = credit[pump.node] + weight
            if most is None or have > most:
                most, chosen = have, at
        credit[pumps[chosen].node] -= total
        return pumps[chosen] if not tried else _fresh(pumps, chosen, tried)


def _fresh(pumps: Sequence[Pump], at: int, tried: Collection[str]) -> Pump:
    """The first from `at` on that was not tried; the one at `at` when all were."""
    turned = [pumps[(at + step) % len(pumps)] for step in range(len(pumps))]
    return next((pump for pump in turned if pump.node not in tried), pumps[at])
