"""The allocator: strictly increasing, below its durable bound, over crashes at any step."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.timestamps import compose, physical_ms
from tidelog_registry.oracle.allocator import AHEAD_MS, MAX_COUNT, Allocator

steps = st.lists(
    st.one_of(
        st.tuples(st.just("take"), st.integers(1, MAX_COUNT)),
        st.tuples(st.just("clock"), st.integers(-5000, 5000)),
        st.tuples(st.just("write"), st.just(0)),
        st.tuples(st.just("confirm"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("floor"), st.integers(-100, 100)),
    ),
    max_size=80,
)


@given(steps)
@settings(max_examples=400, deadline=None)
def test_no_timestamp_is_given_twice_or_after_a_larger_one(script: list[tuple[str, int]]) -> None:
    wall, durable, highest = 1_700_000_000_000, 0, 0
    pending: int | None = None
    allocator = Allocator(0)
    for what, amount in script:
        match what:
            case "clock":
                wall += amount
            case "write":
                # From here on the bound is on disk; a crash may come before anybody knows it.
                pending = allocator.target(wall)
                durable = pending
            case "confirm" if pending is not None:
                allocator.extend(pending)
            case "crash":
                allocator, pending = Allocator(durable), None
            case "floor":
                allocator.raise_floor(highest + amount)
                highest = max(highest, highest + amount)
            case "take":
                last = allocator.take(amount, wall)
                if last is not None:
                    assert last - amount + 1 > highest
                    assert last <= durable
                    highest = last


def test_it_follows_the_clock_and_never_runs_far_ahead() -> None:
    wall = 1_700_000_000_000
    allocator = Allocator(0)
    assert allocator.take(1, wall) is None
    allocator.extend(allocator.target(wall))
    assert allocator.take(1, wall) == compose(wall)
    for _ in range(50):
        # Crash after crash at one instant: each life starts above the last bound.
        allocator = Allocator(allocator.bound)
        allocator.extend(allocator.target(wall))
        assert allocator.take(1, wall) is not None
    assert physical_ms(allocator.last) - wall <= AHEAD_MS + 50 * 51


def test_it_asks_for_more_before_asks_have_to_wait() -> None:
    wall = 1_700_000_000_000
    allocator = Allocator(0)
    allocator.extend(allocator.target(wall))
    assert not allocator.wants_more(wall + 1000)
    assert allocator.wants_more(wall + 2000)
    assert allocator.take(1000, wall + 2000) is not None
