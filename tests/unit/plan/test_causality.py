"""Keys in flight against the seed's own algorithm and against what lanes must keep."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidelog.plan.causality import CONFLICT, Causality, lane_of

KEYS = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)
LANES = st.integers(1, 5)


def test_the_seeds_example() -> None:
    """Where the seed flushes for [3], it joins the lane of [3, 4]."""
    causality = Causality(4)
    lane = causality.place([3, 4], 1)
    other = causality.place([5, 2], 2)
    assert lane != other
    assert causality.place([3], 3) == lane
    assert causality.place([3, 5], 4) == CONFLICT


class Seed:
    """The original's causality: key -> relation, until a row's keys belong to two of them."""

    def __init__(self) -> None:
        self.relations: dict[int, int] = {}

    def place(self, keys: list[int]) -> int | None:
        known = {self.relations[key] for key in keys if key in self.relations}
        if len(known) > 1:
            return None
        relation = known.pop() if known else keys[0]
        self.relations |= dict.fromkeys(keys, relation)
        return relation


@given(st.lists(KEYS, max_size=30), LANES)
def test_rows_go_where_the_original_sends_them(rows: list[list[int]], lanes: int) -> None:
    """And conflicts are only where it has some: relations in one lane are none."""
    causality, seed = Causality(lanes), Seed()
    for window, keys in enumerate(rows):
        lane, relation = causality.place(keys, window), seed.place(keys)
        if relation is not None:
            assert lane == lane_of(relation, lanes)
        if lane == CONFLICT:
            assert relation is None
            causality.clear()
            lane = causality.place(keys, window)
            assert lane == lane_of(keys[0], lanes)
        if relation is None:
            return


STEPS = st.lists(st.one_of(KEYS, st.integers(0, 5)), max_size=60)


@given(STEPS, LANES)
def test_what_is_in_flight_in_one_lane_is_joined_there(
    steps: list[list[int] | int], lanes: int
) -> None:
    """Each row a window of its own; a number says which of the windows in flight is applied."""
    causality = Causality(lanes)
    flight: dict[int, tuple[list[int], int]] = {}
    for window, step in enumerate(steps):
        if isinstance(step, int):
            if step < len(flight):
                done = sorted(flight)[step]
                # A lane keeps order: what it has of earlier windows is done too.
                lane = flight[done][1]
                for one in [w for w, (_, of) in flight.items() if w <= done and of == lane]:
                    causality.applied(one)
                    del flight[one]
            continue
        wanted = {lane for keys, lane in flight.values() if set(keys) & set(step)}
        lane = causality.place(step, window)
        if len(wanted) > 1:
            assert lane == CONFLICT
            causality.clear()
            flight.clear()
            continue
        assert lane == (wanted.pop() if wanted else lane_of(step[0], lanes))
        flight[window] = (step, lane)
        assert len(causality) == len({key for keys, _ in flight.values() for key in keys})
    for window in list(flight):
        causality.applied(window)
    assert len(causality) == 0


def test_a_window_shares_keys_freely_and_later_ones_are_warned() -> None:
    causality = Causality(4)
    assert causality.place([("id", 1), "x"], 1) != causality.place([("id", 2), "y"], 1)
    third = causality.place([("id", 3), "x", "y"], 1)
    assert third == lane_of(("id", 3), 4)
    assert causality.place([("id", 3)], 2) == third
    assert causality.place([("id", 4), "x"], 2) == CONFLICT
    causality.clear()
    assert causality.place([("id", 4), "x"], 2) == lane_of(("id", 4), 4)


def test_rows_of_one_window_that_meet_keep_the_lane_of_their_first_key() -> None:
    causality = Causality(4)
    one, other = causality.place([1], 5), causality.place([2], 5)
    assert one != other
    assert causality.place([1, 2], 5) == one
    assert causality.place([1], 6) == one
    # Of the second key both lanes hold a row: whoever needs it waits for both.
    assert causality.place([2], 6) == CONFLICT


def test_lanes_do_not_depend_on_the_process() -> None:
    assert [lane_of(key, 97) for key in ("abc", b"abc", ("abc", 7), -1, 1.5)] == [
        lane_of("abc", 97),
        lane_of("abc", 97),
        *[lane_of(("abc", 7), 97), 96, lane_of(1.5, 97)],
    ]
    assert lane_of("abc", 97) == 891568578 % 97
