"""Who was refused comes back later each time, and not with the others."""

from __future__ import annotations

from tidelog.backoff import backoff_s
from tidelog.sim.rng import SimRng

FIRST_S, MOST_S = 0.05, 2.0


def test_twice_as_long_each_time_and_never_longer_than_the_most() -> None:
    rng = SimRng(1, "backoff")
    for failures in (0, 1, 2, 5, 6, 40, 10**9):
        worst = min(MOST_S, FIRST_S * 2 ** min(failures, 40))
        found = [backoff_s(failures, FIRST_S, MOST_S, rng) for _ in range(100)]
        assert worst / 2 <= min(found) < max(found) <= worst
        assert max(found) - min(found) > worst / 3, "those who failed together come apart"
