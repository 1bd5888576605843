"""A replay's checkpoints say what the feed's Applier may rely on."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.backfill.logs import ddl
from tidelog.ddl_pending import DdlPending
from tidelog.downstream import DDLS_KEPT, Checkpoint
from tidelog_backfill.replay.position import Position

FEED = "f"
TS = st.integers(0, 30)


def test_of_an_empty_downstream_nothing_is_known() -> None:
    position = Position(FEED, None)
    assert (position.commit_ts, position.ddls_done) == (0, ())
    assert position.at(7) == Checkpoint(7, consistent=True, feed=FEED)


@given(TS, TS, TS, TS)
def test_it_is_consistent_only_where_no_row_above_it_may_be_there(
    reach: int, unsure: int, commit_ts: int, to: int
) -> None:
    saved = Checkpoint(5, reach=reach, unsure=unsure, feed=FEED)
    made = Position(FEED, saved).at(commit_ts, reach=to)
    doubtful = max(reach, unsure)
    assert made.consistent == (commit_ts >= max(doubtful, to))
    assert made.unsure == (doubtful if doubtful > commit_ts else 0)
    assert made.reach == (0 if made.consistent else max(to, commit_ts))


def test_doubts_of_an_earlier_life_last_until_they_are_passed() -> None:
    position = Position(FEED, Checkpoint(5, reach=20, feed=FEED))
    for commit_ts in (10, 15):
        position.saved = position.at(commit_ts)
        assert (position.saved.consistent, position.saved.unsure) == (False, 20)
    assert position.at(20) == Checkpoint(20, consistent=True, feed=FEED)


def test_what_the_checkpoint_says_beside_is_kept() -> None:
    pending = DdlPending(12)
    saved = Checkpoint(
        5, consistent=True, ts_map={"primary-ts": 1}, ddl_pending=pending, ddls_done=(3,), epoch=9
    )
    position = Position(FEED, saved)
    before, behind = position.at(11), position.at(12)
    assert (before.ts_map, before.ddls_done, before.ddl_pending) == (saved.ts_map, (3,), pending)
    assert behind == msgspec.structs.replace(before, commit_ts=12, ddl_pending=None)


def test_a_ddl_that_is_done_is_pending_no_more_and_remembered_if_it_has_a_version() -> None:
    done = tuple(range(1, 1 + DDLS_KEPT))
    saved = Checkpoint(5, consistent=True, ddl_pending=DdlPending(9), ddls_done=done, feed=FEED)
    position = Position(FEED, saved)
    plain = position.after(ddl(7, 100), 7)
    assert (plain.commit_ts, plain.ddl_pending) == (7, None)
    assert plain.ddls_done == (*done[1:], 100)
    assert position.after(ddl(7, 0), 7).ddls_done == done
