"""Retention as a rule: which segments go, where the purge point is then (B.9, C.5, D15, E12)."""

from __future__ import annotations

import pytest

from tidelog.errors import ConfigError
from tidelog.timestamps import TS_MAX, compose
from tidelog_pump.config import PumpConfig, Retention
from tidelog_pump.retention.gc import Held, Limits, decide, hiding, limits, warned_below
from tidelog_pump.retention.now import Now

DAY_S = 86400.0


def held(fid: int, max_ts: int, pointed_ts: int = 0, opened: int = 0, possible_ts: int = 0) -> Held:
    return Held(fid, max_ts, pointed_ts, opened, 100, possible_ts)


def limit(
    age: int = 90,
    cap: int = 0,
    floor: int = TS_MAX,
    resolved: int = TS_MAX,
    newest: int = TS_MAX,
) -> Limits:
    return Limits(age, cap, floor, resolved, newest_ts=newest)


@pytest.mark.parametrize(
    ("segments", "limits_", "going", "purge_ts", "stays"),
    [
        # The original's vector: max ts 90 and 91, gc at 90.
        ([held(0, 90), held(1, 91)], limit(), [0], 90, "younger"),
        ([], limit(), [], 5, ""),
        # The point is what went, not how far it might have gone.
        ([held(0, 40)], limit(), [0], 40, ""),
        ([held(0, 3)], limit(), [0], 5, ""),
        # Each of the limits holds it.
        ([held(0, 50)], limit(floor=49), [], 5, "needed by a reader at 49"),
        ([held(0, 50)], limit(floor=0), [], 5, "may be needed"),
        ([held(0, 50)], limit(resolved=49), [], 5, "not resolved"),
        ([held(0, 50, opened=2)], limit(), [], 5, "2 open Prewrites"),
        ([held(0, 50, pointed_ts=91)], limit(), [], 5, "younger"),
        ([held(0, 50, pointed_ts=90)], limit(), [0], 90, ""),
        # The oldest ones only: nothing behind one that stays.
        ([held(0, 95), held(1, 50)], limit(), [], 5, "younger"),
        ([held(7, 50), held(8, 60, opened=1), held(9, 70)], limit(), [7], 50, "open"),
    ],
)
def test_what_goes_and_why_the_next_one_stays(
    segments: list[Held], limits_: Limits, going: list[int], purge_ts: int, stays: str
) -> None:
    decision = decide(segments, limits_, 5)
    assert [segment.fid for segment in decision.going] == going
    assert decision.purge_ts == purge_ts
    assert stays in decision.stays
    assert bool(stays) == bool(decision.stays)
    assert not decision.forced


@pytest.mark.parametrize(
    ("segments", "limits_", "going", "forced", "purge_ts"),
    [
        # A reader that stands still, nobody who says who reads, a Prewrite open for ever.
        ([held(0, 30), held(1, 60)], limit(cap=40, floor=10), [0], [0], 30),
        ([held(0, 30), held(1, 60)], limit(cap=40, floor=0), [0], [0], 30),
        ([held(0, 30, opened=1)], limit(cap=40, resolved=20), [0], [0], 30),
        # What goes by itself is no loss; behind one that was forced, too.
        ([held(0, 30, opened=1), held(1, 35)], limit(cap=30), [0, 1], [0], 35),
        # Rows of a Commit that is younger than the cap stay.
        ([held(0, 30, pointed_ts=60)], limit(cap=40, floor=10), [], [], 5),
        ([held(0, 30, pointed_ts=40)], limit(cap=40, floor=10), [0], [0], 40),
        # One absurd timestamp in a record, or a footer that can't be read, keeps nothing for ever;
        # and it does not become the purge point.
        ([held(0, TS_MAX), held(1, 30), held(2, 50)], limit(cap=40, floor=10), [0, 1], [0, 1], 30),
        ([held(0, TS_MAX), held(1, 41)], limit(cap=40), [], [], 5),
        # Nor does a Commit at a timestamp that nobody can have allocated, be the rest as it may.
        ([held(0, 30, 1 << 61), held(1, 35)], limit(cap=40, newest=99), [0, 1], [0], 35),
        ([held(0, 30, 99), held(1, 35)], limit(cap=40, newest=99), [], [], 5),
        ([held(0, 45, 1 << 61)], limit(cap=40, newest=99), [], [], 5),
        # What it hides holds as ever, and a reader below it is told.
        ([held(0, 30, 1 << 61, 0, 41), held(1, 35)], limit(cap=40, newest=99), [], [], 5),
        ([held(0, 30, 1 << 61, 0, 40)], limit(cap=40, newest=99), [0], [0], 40),
        ([held(0, 30, 1 << 61, 0, 20)], limit(cap=40, newest=99), [0], [0], 30),
    ],
)
def test_the_hard_cap_takes_what_is_older_whoever_needs_it(
    segments: list[Held], limits_: Limits, going: list[int], forced: list[int], purge_ts: int
) -> None:
    decision = decide(segments, limits_, 5)
    assert [segment.fid for segment in decision.going] == going
    assert [segment.fid for segment in decision.forced] == forced
    assert decision.purge_ts == purge_ts


def test_what_an_impossible_commit_hides_is_looked_up_once_the_hard_cap_reaches_its_segment() -> (
    None
):
    segments = [held(0, 30, 1 << 61), held(1, 30, 99), held(2, 41, 1 << 61), held(3, 45, 1 << 61)]
    assert hiding(segments, limit(cap=41, newest=99)) == {0, 2}
    assert not hiding(segments, limit(cap=29, newest=99))
    assert not hiding(segments, limit(cap=41))


def test_the_limits_are_ages_of_the_clock_and_the_slowest_reader() -> None:
    now_ms = 100 * 86_400_000
    found = limits(now_ms, 7 * DAY_S, 14 * DAY_S, {"a": 30, "b": 20, "c": 25}, 99)
    assert found == Limits(compose(93 * 86_400_000), compose(86 * 86_400_000), 20, 99, "b")
    assert found.target == 20
    assert limits(now_ms, DAY_S, DAY_S, {}, 99).floor == 0
    assert limits(5, DAY_S, DAY_S, {"a": TS_MAX}, 99).target == 0


def test_a_reader_is_named_twenty_hours_ahead_of_a_long_gc_and_half_of_a_short_one() -> None:
    now_ms = 100 * 86_400_000
    assert warned_below(now_ms, 7 * DAY_S) == compose(now_ms - (7 * 24 - 20) * 3_600_000)
    assert warned_below(now_ms, 600) == compose(now_ms - 300_000)


def test_gc_and_its_hard_cap_as_they_are_configured() -> None:
    assert PumpConfig().retention == Retention(7 * DAY_S, 14 * DAY_S, 3600)
    assert PumpConfig(gc="168h").retention.age_s == 7 * DAY_S
    assert PumpConfig(gc="10m", gc_interval="5s").retention == Retention(600, 1200, 5)
    assert PumpConfig(gc=3, gc_hard_cap=3).retention == Retention(3 * DAY_S, 3 * DAY_S, 3600)
    for wrong in ({"gc": 0}, {"gc": "soon"}, {"gc": 3, "gc_hard_cap": "71h"}, {"gc_interval": "0"}):
        with pytest.raises(ConfigError) as raised:
            PumpConfig(**wrong)
        assert raised.value.hint


def test_what_time_it_is_at_most() -> None:
    now = Now()
    assert (now.ms(5_000_000), now.ahead_s(5_000_000)) == (0, 0)
    now.saw(0, 90)
    assert (now.ms(5_000_000), now.ahead_s(5_000_000)) == (0, 0)
    now.saw(compose(1_000_000), 100)
    assert now.ms(1_000_300) == 1_000_000
    assert now.ms(999_000) == 999_000
    # The same W later: what passed is known. A newer one that is less than that changes nothing.
    now.saw(compose(1_000_000), 160)
    assert now.ms(9_000_000) == 1_060_000
    now.saw(compose(1_030_000), 160)
    assert (now.ms(9_000_000), now.ahead_s(9_000_000)) == (1_060_000, 7940)
    now.saw(compose(1_500_000), 161)
    assert (now.ms(9_000_000), now.ahead_s(1_400_000)) == (1_500_000, 0)
    assert (now.latest_ms(9_000_000), now.latest_ms(1_400_000)) == (9_000_000, 1_500_000)
