"""What a suite says at its end is true of it."""

from __future__ import annotations

from tests.last_line import ZEROS, last_line, verdict


def test_zeros_are_said_of_what_was_tried_and_whole_alone() -> None:
    zeros = "0 lost, 0 duplicated, 0 out of order"
    assert last_line("soak", 7, "seed 1") == f"soak: 7 cases, {zeros} (seed 1)"
    assert last_line("soak", 7, "seed 1", wrong=2) == "soak: 7 cases, 2 WRONG (seed 1)"
    assert last_line("soak", 0, "seed 1") == "soak: 0 cases, NOTHING WAS TRIED (seed 1)"


def test_kinds_that_were_found_stand_in_the_place_of_the_zeros() -> None:
    assert verdict({"loss": 0, "rule": 0}, 3) == ZEROS
    assert verdict({"loss": 1, "rule": 2, "gap": 0}, 3) == "1 lost, 2 rule"
    assert verdict({"loss": 0}, 0) == "NOTHING WAS TRIED"
