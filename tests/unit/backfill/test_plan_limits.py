"""Up to where a plan may go by what the logs and the history tell."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.backfill.drained import PumpLog
from tests.unit.backfill.test_plan_segments import Recorded
from tidelog.errors import Stopped
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.replay.plan import Plan
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted


def upstream(rows: int) -> Recorded:
    found = Recorded()
    found.schema("shop")
    found.create("shop", "a")
    for number in range(rows):
        found.row("a", number)
    return found


def with_open(found: Recorded, start_ts: int) -> list[Facts]:
    """And a Prewrite nobody has judged."""
    (facts,) = PumpLog(found.log).facts()
    return [msgspec.structs.replace(facts, open=1, open_at=[7], open_ts=start_ts)]


def rows_until(made: Plan) -> int:
    return max(segment.view.spans[0].until_ts for segment in made.segments)


def test_a_prewrite_without_a_verdict_may_be_committed_right_after_it() -> None:
    found = upstream(4)
    start_ts = found.log[-2].start_ts
    facts, history = with_open(found, start_ts), found.tracker
    made = plan(facts, Wanted(), history=history)
    assert made.until == rows_until(made) == start_ts < found.ts
    assert f"ends at {start_ts} at the latest: 1 Prewrites have neither" in made.warnings[0]
    with pytest.raises(Stopped, match=f"after {start_ts}: 1 Prewrites") as raised:
        plan(facts, Wanted(until_ts=start_ts + 1), history=history)
    assert f"at {start_ts} by until-ts" in raised.value.hint
    asked = plan(facts, Wanted(until_ts=start_ts), history=history)
    assert (asked.until, asked.warnings) == (start_ts, [])


def test_it_is_left_out_where_that_is_asked_for_and_where_nobody_goes_on() -> None:
    found = upstream(2)
    facts = with_open(found, found.log[-2].start_ts)
    skipped = plan(facts, Wanted(on_corrupt="skip"), history=found.tracker)
    assert skipped.until == rows_until(skipped) == found.ts
    assert skipped.warnings[0].endswith("they are left out")
    read = plan(facts, Wanted(goes_on=False), history=found.tracker)
    assert (read.until, read.warnings) == (found.ts, [])


def test_a_replay_does_not_begin_behind_a_prewrite_without_a_verdict() -> None:
    found = upstream(1)
    start_ts = found.log[0].commit_ts - 5
    made = plan(with_open(found, start_ts), Wanted(), history=found.tracker)
    assert (made.begins, made.until, made.segments) == (start_ts, start_ts, [])


def test_rows_newer_than_the_history_are_not_decoded_by_it() -> None:
    found = upstream(2)
    known = found.ts
    found.version += 1  # of a DDL that still runs
    found.row("a", 5)
    facts, history = PumpLog(found.log).facts(), found.tracker
    made = plan(facts, Wanted(), history=history)
    assert made.until == rows_until(made) == found.ts - 1
    assert "up to 3 from" in made.warnings[0]
    assert "the DDL history ends at 2" in made.warnings[0]
    assert plan(facts, Wanted(until_ts=known), history=history).warnings == []
    for wanted in (Wanted(until_ts=found.ts), Wanted(goes_on=False)):
        with pytest.raises(Stopped, match="history ends at 2"):
            plan(facts, wanted, history=history)
    skipped = plan(facts, Wanted(on_corrupt="skip"), history=history)
    assert skipped.until == found.ts
    assert skipped.warnings[0].endswith("they are decoded as it says")


def test_of_several_pumps_the_log_that_ends_first_is_the_limit() -> None:
    found = upstream(4)
    end = found.ts
    (newer,) = PumpLog(found.log).facts()
    (older,) = PumpLog(found.log[:-2]).facts()
    other = msgspec.structs.replace(older.chunk, path="other/value/000000.vlog")
    older = msgspec.structs.replace(older, chunk=other)
    made = plan([newer, older], Wanted(), history=found.tracker)
    assert made.until == rows_until(made) == older.last_ts < end
    assert "other/value ends there" in made.warnings[0]
    with pytest.raises(Stopped, match="other/value ends there"):
        plan([newer, older], Wanted(until_ts=end), history=found.tracker)
    idle = msgspec.structs.replace(older, fake_ts=end + 7)
    for facts in ([newer, idle], [newer], [newer, newer]):
        assert plan(facts, Wanted(), history=found.tracker).until == end
        assert plan(facts, Wanted(), history=found.tracker).warnings == []
