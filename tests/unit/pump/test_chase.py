"""The chaser's decisions from times alone, against the seed's sentences."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import InvariantBroken
from tidelog_pump.index.chase import COOLDOWN_S, LOCKED_S, POLL_S, SHORT_S, Chase
from tidelog_pump.log.place import Pointer


def test_the_numbers_are_the_seeds() -> None:
    assert (POLL_S, SHORT_S, LOCKED_S, COOLDOWN_S) == (0.5, 1.0, 1.0, 60.0)


def test_a_long_catch_up_or_a_recent_try_holds_nobody() -> None:
    chase = Chase()
    assert not chase.may_hold(0.0, 100.0)
    chase.turn_on(Pointer(1, 40))
    assert chase.may_hold(0.99, 100.0)
    assert not chase.may_hold(1.0, 100.0)
    chase.tried(100.0)
    assert not chase.may_hold(0.0, 160.0)
    assert chase.may_hold(0.0, 160.1)


def test_off_only_where_the_log_ends_and_the_cool_down_outlives_it() -> None:
    chase = Chase()
    chase.turn_on(Pointer(0, 16))
    with pytest.raises(InvariantBroken):
        chase.turn_on(Pointer(0, 16))
    chase.read_to(Pointer(1, 8))
    with pytest.raises(InvariantBroken):
        chase.read_to(Pointer(1, 7))
    with pytest.raises(InvariantBroken):
        chase.turn_off(Pointer(1, 9))
    chase.tried(5.0)
    chase.turn_off(Pointer(1, 8))
    with pytest.raises(InvariantBroken):
        chase.read_to(Pointer(1, 9))
    chase.turn_on(Pointer(2, 0))
    assert not chase.may_hold(0.0, 64.0)
    chase.reset()
    assert not chase.on


STEP = st.tuples(
    st.floats(0, 90), st.sampled_from(["slow", "round"]), st.floats(0, 3), st.booleans()
)


@given(st.lists(STEP, max_size=60))
def test_any_history_of_rounds_keeps_the_rules(steps: list[tuple[float, str, float, bool]]) -> None:
    """Log positions are numbers: what is written while it is on is unread until a round reads it;
    off, nothing is; between two tries lies more than a minute."""
    chase, now = Chase(), 0.0
    tries: list[float] = []
    for end, (pause, what, took, in_time) in enumerate(steps, 1):
        now += pause
        if what == "slow" and not chase.on:
            chase.turn_on(Pointer(0, end - 1))
        elif what == "round" and chase.on:
            chase.read_to(Pointer(0, end))
            now += took
            if chase.may_hold(took, now):
                assert took < SHORT_S
                tries.append(now)
                chase.tried(now)
                if in_time:
                    chase.turn_off(Pointer(0, end))
            else:
                assert took >= SHORT_S or now - tries[-1] <= COOLDOWN_S
        assert not chase.on or chase.unread <= Pointer(0, end)
    assert all(b - a > COOLDOWN_S for a, b in pairwise(tries))
