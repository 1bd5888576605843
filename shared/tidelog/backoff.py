"""How long to wait before somebody is asked again."""

from __future__ import annotations

from tidelog.ports import Rng

_DOUBLINGS = 10


def backoff_s(failures: int, first_s: float, most_s: float, rng: Rng) -> float:
    """Twice as long after each failure before this one, at most `most_s`; and up to half less, so
    that those who failed together do not come back together."""
    pause_s = min(most_s, first_s * 2.0 ** min(failures, _DOUBLINGS))
    return pause_s * (0.5 + rng.random() / 2)
