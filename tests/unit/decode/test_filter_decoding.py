"""Filters, event filters and loopback on the way from binlogs to what is published."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.decode.upstream import Upstream
from tidelog.decode.config import DecodeConfig
from tidelog.decode.errors import Undecodable
from tidelog.decode.transactions import RowTxn
from tidelog.filter.settings import (
    BinlogFilterRule,
    TableMigrateRule,
    TableName,
    TableWildcards,
)
from tidelog.schema.tracker import BRIEF_ABOVE, SYSTEM_SCHEMAS

ONE = {"id": 1, "n": 1}
TWO = {"id": 2, "n": 2}


def ops(txn: RowTxn | None) -> dict[str, str]:
    """`db.table` -> the ops of its events, in order."""
    assert txn is not None
    return {
        table.route.label: "".join(msgspec.json.decode(event)["op"] for event in table.events)
        for table in txn.tables
    }


def test_mutations_of_filtered_tables_are_dropped_the_others_stay_one_transaction() -> None:
    up = Upstream(ignore_table=(TableName("app", "~LOG.*"),))
    assert up.schema("app") is not None
    assert up.create("app", "t") is not None
    assert up.create("app", "log1") is None
    both = up.commit(("app.t", "insert", ONE), ("app.log1", "insert", ONE))
    assert ops(both) == {"app.t": "c"}
    assert up.commit(("app.log1", "insert", TWO)) is None
    assert up.dropped == {"filter": 3}


def test_rows_of_a_filtered_table_are_never_read() -> None:
    up = Upstream(replicate_do_db=("app",))
    up.create("app", "t")
    up.create("other", "x")
    commit_ts, start_ts, payload = up.txn(("other.x", "insert", TWO))
    assert isinstance(payload, bytes)
    row = b"\x08\x04\x08\x04\x08\x04"
    assert row in payload, "the row to damage"
    assert up.decoder.decode((commit_ts, start_ts, payload.replace(row, b"\xff" * 6))) is None


def test_an_ignored_transaction_is_dropped_whatever_it_holds() -> None:
    up = Upstream(ignore_txn_commit_ts=(3, 4, 5))
    up.schema("app")
    up.create("app", "t")
    assert up.commit(("app.t", "insert", ONE)) is None
    assert up.decoder.decode((4, 3, b"no binlog")) is None
    up.ts = 4
    assert up.alter("app", "t", "added") is None, "the DDL at 5"
    assert up.dropped == {"ignored_txn": 3}
    txn = up.commit(("app.t", "insert", ONE | {"added": 7}))
    assert txn is not None
    assert not txn.ddls, "the ignored DDL was passed, so it isn't published early either"
    assert b'"added":7' in txn.tables[0].events[0]
    assert txn.tables[0].route.structure.version == up.version


def rule(
    schema: str, table: str = "", *filters: str, to: tuple[str, str] = ("", "")
) -> TableMigrateRule:
    return TableMigrateRule(TableWildcards(schema, table), TableWildcards(*to), filters)


def test_event_filters_by_kind_of_row() -> None:
    up = Upstream(
        table_migrate_rule=(rule("app", "t*", "no-deletes"), rule("app", "t2", "no-rows")),
        binlog_filter_rule={
            "no-deletes": BinlogFilterRule(("Delete",)),
            "no-rows": BinlogFilterRule(("all dml",)),
        },
    )
    for name in ("t1", "t2", "u"):
        assert up.create("app", name) is not None
    every = [
        (f"app.{name}", op, ONE)
        for name in ("t1", "t2", "u")
        for op in ("insert", "update", "delete", "insert")
    ]
    assert ops(up.commit(*every)) == {"app.t1": "cuc", "app.u": "cudc"}
    assert up.dropped == {"event_filter": 1 + 4}
    assert up.commit(("app.t2", "delete", ONE), ("app.t1", "delete", ONE)) is None
    assert up.dropped == {"event_filter": 7}


def test_event_filters_of_ddls_and_rows_behind_them() -> None:
    up = Upstream(
        table_migrate_rule=(rule("app", "t", "quiet"), rule("gone", "", "no-drop")),
        binlog_filter_rule={
            "quiet": BinlogFilterRule(("truncate table",), ("add column AAA",)),
            "no-drop": BinlogFilterRule(("drop database",)),
        },
    )
    up.create("app", "t")
    assert up.truncate("app", "t") is None
    assert up.alter("app", "t", "aaa") is None
    assert up.alter("app", "t", "bbb") is not None
    assert up.dropped == {"event_filter": 2}
    txn = up.commit(("app.t", "insert", ONE | {"aaa": 5}))
    assert txn is not None
    names = [column.name for column in txn.tables[0].route.structure.columns]
    assert names == ["id", "n", "aaa", "bbb"], "readers find the columns of a DDL they never saw"
    assert up.schema("gone") is not None
    assert up.schema("gone", "drop_schema", "DROP DATABASE gone") is None


def test_a_filtered_ddl_is_not_published_early_either() -> None:
    up = Upstream(sync_ddl=False)
    up.create("app", "t")
    job = up.add_column("app", "t", "x")
    txn = up.commit(("app.t", "insert", ONE | {"x": 3}))
    assert txn is not None
    assert not txn.ddls
    assert b'"x":3' in txn.tables[0].events[0]
    assert up.decoder.decode(up.binlog(job)) is None
    assert up.dropped == {"sync_ddl": 2}


def test_a_rename_out_of_the_feed_is_told_one_into_it_stops() -> None:
    up = Upstream(ignore_table=(TableName("app", "~hidden.*"),))
    up.create("app", "t")
    up.create("app", "hidden1")
    assert up.rename("app", ("hidden1", "hidden2")) is None
    gone = up.rename("app", ("t", "hidden_t"))
    assert gone is not None
    assert [(t.before.name, t.after.name) for t in gone.message.tables if t.before and t.after] == [
        ("t", "hidden_t")
    ]
    assert up.commit(("app.hidden_t", "insert", ONE)) is None
    with pytest.raises(Undecodable, match="brings rows into the feed that were filtered") as stop:
        up.rename("app", ("hidden_t", "t"))
    assert "binlog-filter-rule" in stop.value.hint


def test_such_a_stop_is_passed_by_an_event_filter() -> None:
    up = Upstream(
        ignore_table=(TableName("app", "hidden"),),
        table_migrate_rule=(rule("app", "t", "no-rename"),),
        binlog_filter_rule={"no-rename": BinlogFilterRule(("rename table",))},
    )
    up.create("app", "hidden")
    assert up.rename("app", ("hidden", "t")) is None
    assert ops(up.commit(("app.t", "insert", ONE))) == {"app.t": "c"}


def test_of_a_rename_of_several_tables_the_filtered_ones_are_left_out() -> None:
    up = Upstream(ignore_table=(TableName("app", "~h.*"),))
    up.create("app", "t")
    up.create("app", "h1")
    left = up.rename("app", ("t", "u"), ("h1", "h2"))
    assert left is not None
    assert len(left.message.tables) == 1
    assert left.message.query == "RENAME TABLE `app`.`t` TO `app`.`u`"


def test_a_dropped_schema_names_only_the_tables_that_readers_know() -> None:
    up = Upstream(replicate_do_table=(TableName("app", "t"),))
    assert up.schema("app") is not None, "who reads app.t needs it"
    up.create("app", "t")
    up.create("app", "x")
    dropped = up.schema("app", "drop_schema", "DROP DATABASE app")
    assert dropped is not None
    assert [one.before.name for one in dropped.message.tables if one.before] == ["t"]


def test_a_schema_that_is_flashed_back_is_there_though_readers_know_none_of_its_tables() -> None:
    """They have it for what is created in it from then on."""
    up = Upstream(replicate_do_table=(TableName("app", "t"),))
    up.schema("app")
    up.create("app", "x")
    assert up.schema("app", "drop_schema", "DROP DATABASE app") is not None
    back = up.schema("app", "recover_schema", "FLASHBACK DATABASE app")
    assert back is not None
    assert not back.message.tables


def test_a_schema_of_very_many_tables_is_dropped_briefly() -> None:
    up = Upstream(ignore_table=(TableName("app", "t0"),))
    columns = tuple(f"column_{at}" for at in range(20))
    for at in range(BRIEF_ABOVE + 1):
        up.create("app", f"t{at}", columns)
    dropped = up.schema("app", "drop_schema", "DROP DATABASE app")
    assert dropped is not None
    assert dropped.message.brief
    befores = [one.before for one in dropped.message.tables]
    assert [b.name for b in befores if b] == [f"t{at}" for at in range(1, BRIEF_ABOVE + 1)]
    assert not any(b.columns or b.keys for b in befores if b)
    assert not dropped.structures, "what readers find in SCHEMAS_<FEED> stays whole"


# Loopback

MARK = ("id", "channel_id", "val", "channel_info")


def looping(**config: object) -> Upstream:
    up = Upstream(loopback_control=True, channel_id=7, **config)
    up.create("app", "t")
    assert up.schema("RETL") is None
    assert up.create("RETL", "_Drainer_Repl_Mark", MARK) is None
    up.dropped.clear()
    return up


def mark(channel: int) -> tuple[str, str, dict[str, int]]:
    return "RETL._Drainer_Repl_Mark", "update", {"id": 1, "channel_id": channel, "val": 5}


@pytest.mark.parametrize("first", [True, False])
def test_what_our_channel_wrote_is_dropped_whole(first: bool) -> None:
    up = looping()
    changes = [mark(7), ("app.t", "insert", ONE)]
    assert up.commit(*(changes if first else changes[::-1])) is None
    assert up.dropped == {"loopback": 1}
    assert ops(up.commit(("app.t", "insert", TWO))) == {"app.t": "c"}


def test_marks_of_other_channels_pass_and_the_mark_table_is_not_published() -> None:
    up = looping()
    assert ops(up.commit(mark(8), ("app.t", "insert", ONE))) == {"app.t": "c"}
    assert up.commit(mark(8)) is None
    assert up.dropped == {"mark": 2}


def test_a_mark_is_seen_though_its_schema_is_filtered() -> None:
    up = looping(ignore_schemas=("retl", *SYSTEM_SCHEMAS))
    assert up.commit(mark(7), ("app.t", "insert", ONE)) is None
    assert up.dropped == {"loopback": 1}


def test_marks_are_where_the_other_directions_applier_has_them() -> None:
    up = Upstream(loopback_control=True, channel_id=7, mark_schema="Mine")
    up.create("app", "t")
    assert up.schema("mine") is None
    assert up.create("mine", "_drainer_repl_mark", MARK) is None
    up.dropped.clear()
    change = "mine._drainer_repl_mark", "insert", {"id": 1, "channel_id": 7, "val": 1}
    assert up.commit(change, ("app.t", "insert", ONE)) is None
    assert up.dropped == {"loopback": 1}
    assert ops(up.commit(("app.t", "insert", TWO))) == {"app.t": "c"}


def test_without_loopback_control_the_mark_table_is_a_table() -> None:
    up = Upstream(channel_id=7)
    up.create("retl", "_drainer_repl_mark", MARK)
    change = ("retl._drainer_repl_mark", "insert", {"id": 1, "channel_id": 7})
    assert ops(up.commit(change)) == {"retl._drainer_repl_mark": "c"}


def test_checkpoints_of_the_other_direction_never_pass() -> None:
    up = looping(ignore_schemas=())
    up.create("tidb_binlog", "checkpoint")
    assert up.commit(("tidb_binlog.checkpoint", "insert", ONE)) is None
    assert up.dropped == {"system": 2}


def test_the_origin_is_the_cluster_s_name_unless_it_is_given() -> None:
    assert DecodeConfig(cluster="east").origin_name == "east"
    assert DecodeConfig(cluster="east", origin="dc 1").origin_name == "dc 1"
