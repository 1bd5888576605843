"""Up to where everything is applied, whichever lane is through first."""

from __future__ import annotations

from tidelog_applier.apply.flight import Flight, Window


def test_the_position_is_the_end_of_the_last_window_before_which_none_is_missing() -> None:
    flight = Flight()
    first, second = Window(5, rows=2, waiting=2), Window(9, rows=1, waiting=1)
    flight.begin(first)
    flight.begin(second)
    assert flight.finish(second)
    assert not flight.finish(first)
    assert (flight.applied, flight.begun, len(flight)) == (0, 9, 2)
    assert flight.finish(first)
    assert (flight.applied, flight.begun, len(flight), flight.rows) == (9, 9, 0, 3)


def test_positions_that_come_while_a_lane_is_busy_take_no_room() -> None:
    flight = Flight()
    window = Window(5, rows=1, waiting=1)
    flight.begin(window)
    for commit_ts in range(6, 1000):
        flight.begin(Window(commit_ts))
    assert (flight.applied, flight.begun, len(flight)) == (0, 999, 1)
    assert flight.finish(window)
    assert (flight.applied, len(flight)) == (999, 0)


def test_a_position_alone_is_reached_at_once() -> None:
    flight = Flight(3)
    flight.begin(Window(7))
    assert (flight.applied, len(flight)) == (7, 0)
