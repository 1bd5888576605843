"""Tables that readers meet under other names than the upstream's."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from tests.unit.decode.upstream import Upstream, table_info
from tidelog.change_reader import Change, ChangeAssembler
from tidelog.changes import DdlMessage, DdlTable, structure_key
from tidelog.decode.errors import Undecodable
from tidelog.decode.transactions import DdlTxn, RowTxn
from tidelog.downstreams.ddl_mysql import Facts, plan
from tidelog.downstreams.structure_ddl import Flavor
from tidelog.filter.settings import BinlogFilterRule, TableMigrateRule, TableWildcards
from tidelog.ports import Message
from tidelog.schema.model import HistoryInfo
from tidelog.schema.structure import TableStructure
from tidelog.subscriber.tables import Tables
from tidelog_drainer.publish.batcher import Batcher

ONE, TWO = {"id": 1, "n": 1}, {"id": 2, "n": 2}


def route(source: tuple[str, str], target: tuple[str, str], *filters: str) -> TableMigrateRule:
    return TableMigrateRule(TableWildcards(*source), TableWildcards(*target), filters)


def moved(**config: object) -> Upstream:
    """The schema `app` is called `copy`, its table `t` `u`."""
    rules = (route(("app", ""), ("copy", "")), route(("app", "t"), ("copy", "u")))
    return Upstream(table_migrate_rule=rules, **config)


def shards(**config: object) -> Upstream:
    """Every `shard_*.t_*` is called `shop.t`."""
    rules = (route(("shard_*", ""), ("shop", "")), route(("shard_*", "t_*"), ("shop", "t")))
    up = Upstream(table_migrate_rule=rules, **config)
    for number in (1, 2):
        assert up.schema(f"shard_{number}") is not None
        assert up.create(f"shard_{number}", f"t_{number}") is not None
    return up


def read(*txns: RowTxn | DdlTxn | None) -> list[Change]:
    """As readers get them, each in a batch of its own if it has to."""
    batcher = Batcher("main", "1:d", max_messages=1000, max_bytes=4 << 20, origin="east")
    assembler, found, prev, sequence = ChangeAssembler("main", 0), [], 0, 0
    for txn in txns:
        assert txn is not None
        if isinstance(txn, DdlTxn):
            batch = batcher.ddl(txn, prev)
        else:
            batcher.add(txn)
            batch = batcher.finish(prev, 0)
        prev = batch.last_ts
        for out in batch.chunks[0]:
            assert out.headers["Tidelog-Origin"] == "east"
            sequence += 1
            found += assembler.feed([Message(out.subject, out.data, out.headers, sequence)])
    return found


def test_rows_subjects_labels_and_structures_have_the_target_s_names() -> None:
    up = moved()
    up.schema("app")
    up.create("app", "t")
    txn = up.commit(("app.t", "insert", ONE))
    assert txn is not None
    taken = txn.tables[0].route
    assert taken.subject == "changes.main.row.copy.u"
    assert structure_key(taken.db, taken.structure) == f"copy.u.{up.version}"
    (change,) = read(txn)
    assert [(rows.db, rows.table) for rows in change.rows] == [("copy", "u")]
    assert change.txns[0].tables == {"copy.u": 1}


def test_ddls_are_told_under_the_target_s_names() -> None:
    up = moved()
    created = up.schema("app")
    assert created is not None
    assert (created.subject, created.message.db) == ("changes.main.ddl.copy.=", "copy")
    assert created.message.query == "CREATE DATABASE `copy`"
    table = up.create("app", "t")
    assert table is not None
    assert table.subject == "changes.main.ddl.copy.u"
    assert table.message.query == "CREATE TABLE `copy`.`u` (id bigint primary key)"
    (one,) = table.message.tables
    assert one.after is not None
    assert (one.db_after, one.after.name) == ("copy", "u")
    assert list(table.structures) == [f"copy.u.{up.version}"]
    renamed = up.rename("app", ("t", "x"))
    assert renamed is not None
    assert renamed.message.query == "RENAME TABLE `copy`.`u` TO `copy`.`x`"
    (one,) = renamed.message.tables
    assert one.before is not None
    assert one.after is not None
    assert (one.db_before, one.before.name) == ("copy", "u")
    assert (one.db_after, one.after.name) == ("copy", "x"), "the rule for t is none for x"


def test_a_ddl_whose_names_can_t_be_found_stops_if_it_is_routed() -> None:
    up = moved()
    unknown = "DROP DATABASE; what next"
    up.schema("other")
    dropped = up.schema("other", "drop_schema", unknown)
    assert dropped is not None
    assert dropped.message.query == unknown
    up.schema("app")
    with pytest.raises(Undecodable, match="no DDL of a known form"):
        up.schema("app", "drop_schema", unknown)


def test_two_sources_of_one_target_are_one_table_in_commit_order() -> None:
    up = shards()
    both = up.commit(("shard_1.t_1", "insert", ONE), ("shard_2.t_2", "insert", TWO))
    changes = read(both, up.commit(("shard_1.t_1", "delete", ONE)))
    seen = [
        (rows.db, rows.table, rows.schema_version, event.op, event.key)
        for change in changes
        for rows in change.rows
        for event in rows.events
    ]
    first, second = up.version - 2, up.version  # the versions of the two CREATE TABLE
    assert seen == [
        ("shop", "t", first, "c", {"id": 1}),
        ("shop", "t", second, "c", {"id": 2}),
        ("shop", "t", first, "d", {"id": 1}),
    ]
    assert [change.txns[0].tables for change in changes] == [{"shop.t": 2}, {"shop.t": 1}]


def test_what_would_take_other_sources_rows_away_is_not_told() -> None:
    up = shards()
    assert up.truncate("shard_1", "t_1") is None
    assert up.drop("shard_1", "t_1") is None
    assert up.schema("shard_1", "drop_schema", "DROP DATABASE shard_1") is None
    assert up.dropped == {"merged": 3}
    assert up.alter("shard_2", "t_2", "x") is not None


@pytest.mark.parametrize(
    ("dropped", "rules"),
    [
        (
            "old",
            (route(("old", ""), ("shop", "")), route(("crm", "customer"), ("shop", "customer"))),
        ),
        ("old", (route(("old", ""), ("SHOP", "")), route(("crm", "c*"), ("shop", "")))),
        ("shop", (route(("crm", "customer"), ("shop", "customer")),)),
    ],
)
def test_a_schema_into_which_others_tables_get_is_not_dropped(
    dropped: str, rules: tuple[TableMigrateRule, ...]
) -> None:
    """A downstream would drop the database with the rows of crm.customer, which is still there."""
    up = Upstream(table_migrate_rule=rules)
    for db, table in ((dropped, "x"), ("crm", "customer")):
        up.schema(db)
        up.create(db, table)
    assert up.schema(dropped, "drop_schema", f"DROP DATABASE {dropped}") is None
    assert up.dropped == {"merged": 1}
    assert up.schema("crm", "drop_schema", "DROP DATABASE crm") is not None


def test_a_dropped_schema_s_tables_go_wherever_readers_have_them() -> None:
    rules = (route(("app", ""), ("copy", "")), route(("app", "t"), ("other", "u")))
    up = Upstream(table_migrate_rule=rules)
    up.schema("app")
    for table in ("t", "x"):
        up.create("app", table)
    dropped = up.schema("app", "drop_schema", "DROP DATABASE app")
    assert dropped is not None
    gone = {(one.db_before, one.before.name) for one in dropped.message.tables if one.before}
    assert gone == {("other", "u"), ("copy", "x")}
    assert Tables(["other.u"]).touched_by(dropped.message)


def test_in_a_brief_drop_the_tables_elsewhere_do_not_go_with_the_database() -> None:
    tables = [
        DdlTable(db, "", TableStructure(id=at, name="t", version=1, columns=()))
        for at, db in enumerate(("copy", "other"), 1)
    ]
    ddl = DdlMessage(5, "DROP DATABASE `copy`", "drop_schema", "copy", 2, None, tables, brief=True)
    steps = [
        step.attempts[-1].sql
        for step in plan(ddl, Facts(Flavor("mariadb", frozenset()), keep_dropped=False))
    ]
    assert steps == ["DROP TABLE IF EXISTS `other`.`t`", "DROP DATABASE IF EXISTS `copy`"]


def test_a_source_stays_in_its_target_when_it_is_renamed_within() -> None:
    up = shards()
    assert up.rename("shard_1", ("t_1", "t_9")) is None
    assert up.dropped == {"merged": 1}
    with pytest.raises(Undecodable, match="renames one source of a merged table"):
        up.rename("shard_1", ("t_9", "alone"))


def test_later_sources_ddls_can_be_filtered() -> None:
    rules = (
        route(("shard_*", "t_*"), ("shop", "t")),
        route(("shard_[!1]", "t_*"), ("", ""), "no-ddl"),
    )
    up = Upstream(
        table_migrate_rule=rules, binlog_filter_rule={"no-ddl": BinlogFilterRule(("all ddl",))}
    )
    assert up.create("shard_1", "t_1") is not None
    assert up.create("shard_2", "t_2") is None
    assert up.alter("shard_2", "t_2", "x") is None
    txn = up.commit(("shard_2.t_2", "insert", ONE | {"x": 4}))
    assert txn is not None
    assert msgspec.json.decode(txn.tables[0].events[0])["after"] == ONE | {"x": 4}


def renamed_by_one_job(up: Upstream, columns: tuple[str, ...]) -> RowTxn | DdlTxn | None:
    up.create("shard_1", "t_3", columns)
    assert up.rename("shard_1", ("t_1", "t_5"), ("t_3", "t_6")) is None
    return up.commit(("shard_1.t_5", "insert", ONE), ("shard_1.t_6", "insert", {"id": 2}))


def created_by_one_job(up: Upstream, columns: tuple[str, ...]) -> RowTxn | DdlTxn | None:
    up.version += 1
    infos = (table_info(900, "t_3"), table_info(901, "t_4", columns))
    made = HistoryInfo(up.version, table_infos=infos)
    return up.decoded(up.job("create_tables", "shard_1", 0, "CREATE TABLE t_3 (id int)", made))


@pytest.mark.parametrize("changed", [renamed_by_one_job, created_by_one_job])
def test_sources_that_one_job_changed_have_one_structure_or_stop_the_feed(
    changed: Callable[[Upstream, tuple[str, ...]], RowTxn | DdlTxn | None],
) -> None:
    assert changed(shards(), ("id", "n")) is not None
    up = shards()
    with pytest.raises(Undecodable, match=r"shop\.t\.\d+ can't be both") as stop:
        changed(up, ("id", "m"))
    assert (stop.value.commit_ts, "targets of their own" in stop.value.hint) == (up.ts, True)
