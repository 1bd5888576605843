"""What decides about a plan beside the log: the feed's rules, the history, what is asked for."""

from __future__ import annotations

from functools import cache

import pytest

from tests.unit.backfill.drained import PumpLog, drained
from tests.unit.backfill.test_plan_segments import Recorded, history, log, parsed
from tidelog.decode.config import DecodeConfig
from tidelog.errors import BadInput, Conflict
from tidelog.schema.errors import UnknownJob
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.replay.errors import DdlNotDecided
from tidelog_backfill.replay.plan import Plan
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted


@cache
def whole() -> Plan:
    return plan(log("set-a").facts(), Wanted(), history=history("set-a"))


@pytest.mark.parametrize("number", [300, 900, 1500, 2000])
def test_a_log_that_begins_late_goes_on_with_what_was_known_then(number: int) -> None:
    binlogs = sorted(log("set-a").binlogs, key=lambda one: one.commit_ts)[number:]
    late = PumpLog(sorted(binlogs, key=lambda one: one.start_ts))
    made = plan(late.facts(), Wanted(), history=history("set-a"))
    everything, done = log("set-a").done(whole()), late.done(made)
    assert done == everything[-len(done) :]
    assert made.begins == binlogs[0].commit_ts - 1


def test_what_is_not_replayed_is_counted_by_its_reason() -> None:
    assert whole().left_out == {
        "nothing_left": 1,
        "system": 40,
        "setval": 6,
        "drop_column_first": 3,
        "placement": 3,
        "rolled_back": 2,
    }
    reasons = {reason for one in whole().segments for reason in one.view.spans[0].dropped.values()}
    assert reasons == {"truncated"}


def test_pumps_that_hold_the_same_transactions_are_one_log() -> None:
    twice = log("set-a").facts() + log("set-a").facts((700,))
    made = plan(twice, Wanted(), history=history("set-a"))
    assert [one.ddls for one in made.segments] == [one.ddls for one in whole().segments]
    assert [one.view for one in made.segments] == [one.view for one in whole().segments]


def test_two_ddls_of_one_commit_ts_are_not_of_one_cluster() -> None:
    upstream = Recorded()
    upstream.schema("shop")
    upstream.schema("other")
    upstream.log[1].commit_ts = upstream.log[0].commit_ts
    upstream.log[1].start_ts = upstream.log[0].start_ts - 1
    with pytest.raises(Conflict):
        plan(PumpLog(upstream.log).facts(), Wanted(), history=upstream.tracker)


def test_a_history_that_ends_too_early_is_said() -> None:
    with pytest.raises(UnknownJob):
        plan(log("set-a").facts(), Wanted(), history=SchemaTracker())
    with pytest.raises(BadInput, match="without the DDL history"):
        plan(log("set-a").facts(), Wanted())


def test_a_ddl_that_nobody_decided_about_stops_unless_it_is_not_reached() -> None:
    upstream = Recorded()
    upstream.schema("shop")
    upstream.create("shop", "a")
    upstream.truncate("shop", "a")
    at = upstream.ts
    facts = PumpLog(upstream.log).facts()
    stop = DecodeConfig(ddl_policy={"truncate_table": "stop"})
    with pytest.raises(DdlNotDecided, match=f"truncate_table at {at}") as raised:
        plan(facts, Wanted(), history=upstream.tracker, config=stop)
    assert "rules.ddl-policy" in raised.value.hint
    plan(facts, Wanted(until_ts=at - 1), history=upstream.tracker, config=stop)


def test_so_does_one_whose_columns_rows_have_before_it() -> None:
    upstream = Recorded()
    upstream.schema("shop")
    upstream.create("shop", "a")
    upstream.late_binlog(upstream.add_column("shop", "a", "late"))
    upstream.row("a", 1)
    at = upstream.ts
    upstream.let_go()
    facts = PumpLog(upstream.log).facts()
    stop = DecodeConfig(ddl_policy={"add_column": "stop"})
    with pytest.raises(DdlNotDecided, match=f"add_column at {at}"):
        plan(facts, Wanted(), history=upstream.tracker, config=stop)
    plan(facts, Wanted(until_ts=at - 1), history=upstream.tracker, config=stop)


def test_transactions_that_carry_the_mark_of_our_channel_are_left_out_whole() -> None:
    upstream = Recorded()
    upstream.schema("retl")
    upstream.create("retl", "_drainer_repl_mark", ("id", "channel_id"))
    upstream.schema("shop")
    upstream.create("shop", "a")
    for number, channel in enumerate((5, 6, 5, 7), 10):
        mark = "retl._drainer_repl_mark", "insert", {"id": number, "channel_id": channel}
        row = "shop.a", "insert", {"id": number, "n": 1}
        upstream.log.append(parsed(upstream.txn(mark, row)))
    config = DecodeConfig(loopback_control=True, channel_id=5)
    made = plan(PumpLog(upstream.log).facts(), Wanted(), history=upstream.tracker, config=config)
    done = PumpLog(upstream.log).done(made)
    assert done == drained(upstream.log, upstream.tracker, config)[0]
    assert len([one for one in done if one[0] == "shop.a"]) == 2


def test_transactions_that_the_feed_ignores_are_left_out() -> None:
    upstream = Recorded()
    upstream.schema("shop")
    upstream.create("shop", "a")
    for number in range(3):
        upstream.row("a", number)
    config = DecodeConfig(ignore_txn_commit_ts=(upstream.ts - 1,))
    made = plan(PumpLog(upstream.log).facts(), Wanted(), history=upstream.tracker, config=config)
    assert PumpLog(upstream.log).done(made) == drained(upstream.log, upstream.tracker, config)[0]


def test_tables_are_wanted_by_the_names_that_the_feed_has() -> None:
    made = plan(log("set-a").facts(), Wanted(tables=("types.*",)), history=history("set-a"))
    everything = log("set-a").done(whole())
    rows = [one for one in everything if one[0].startswith("types.")]
    done = log("set-a").done(made)
    assert [one for one in done if one[0] != "ddl"] == rows
    ddls = {version for kind, version, _ in done if kind == "ddl"}
    assert 0 < len(ddls) < len([one for one in everything if one[0] == "ddl"])
    assert len(made.segments) < len(whole().segments) / 2
