"""What is replayed of pb_binlog files whose DDLs are told by their texts alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from msgspec import json

from tests.unit.backfill.pb_logs import SECOND, ddl, facts, inserted, ints, write
from tests.unit.schema import jobs
from tidelog.changes import RowMessage
from tidelog.errors import Stopped
from tidelog.pb_files import savepoint
from tidelog.pb_files.savepoint import Savepoint
from tidelog.schema import jobs as kinds
from tidelog.schema.model import DdlJob, TableInfo
from tidelog.schema.structure import KeyPart, KeyStructure, TableStructure
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chain import in_order
from tidelog_backfill.files.inputs import found
from tidelog_backfill.replay.errors import DdlNotTold
from tidelog_backfill.replay.plan import Plan
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted

S = SECOND
CREATE = ddl(1 * S, "CREATE TABLE `t` (`id` INT PRIMARY KEY,`v` VARCHAR(9) DEFAULT _UTF8MB4'x')")
NOT_TOLD = ddl(3 * S, "ALTER TABLE `t` CHANGE COLUMN `v` `w` INT")


def done(made: Plan) -> list[tuple[list[str], dict[str, tuple[str, ...]]]]:
    """Of each segment kinds of DDLs, and the columns of the tables that have rows."""
    return [
        (
            [one.kind for one in segment.ddls],
            {
                f"{db}.{shape.name}": tuple(column.name for column in shape.columns)
                for db, shape in segment.view.spans[0].named
            },
        )
        for segment in made.segments
    ]


def test_texts_tell_structures(tmp_path: Path) -> None:
    log = facts(
        tmp_path,
        ddl(S - 1, "CREATE DATABASE `shop`", ""),
        CREATE,
        inserted(2 * S, "t", id=1, v=2),
        ddl(3 * S, "ALTER TABLE `t` ADD COLUMN `a` INT, DROP COLUMN `v`, ADD INDEX `k`(`a`)"),
        inserted(4 * S, "t", id=1, a=2),
        ddl(5 * S, "ALTER TABLE `t` RENAME AS `t2`"),
        inserted(6 * S, "t2", id=2, a=2),
        ddl(7 * S, "DROP TABLE `t2`"),
    )
    made = plan(log, Wanted())
    assert done(made) == [
        (["create_schema", "create_table"], {"shop.t": ("id", "v")}),
        (["multi_schema_change"], {"shop.t": ("id", "a")}),
        (["rename_table"], {"shop.t2": ("id", "a")}),
        (["drop_table"], {}),
    ]
    first = made.segments[0].ddls[1].tables[0].after
    assert first is not None
    assert (first.key_columns, first.columns[1].default, first.id) == (("id",), "x", 0)
    assert made.segments[2].ddls[0].db == "shop"
    versions = [one.schema_version for segment in made.segments for one in segment.ddls]
    assert versions == sorted(set(versions))
    assert (made.begins, made.until) == (S - 2, 7 * S)


def test_a_ddl_that_its_text_does_not_tell_is_named(tmp_path: Path) -> None:
    log = facts(tmp_path, CREATE, inserted(2 * S, "t", id=1, v=2), NOT_TOLD)
    with pytest.raises(DdlNotTold, match=rf"0-\d+ at offset \d+: .*{3 * S}.*CHANGE") as raised:
        plan(log, Wanted())
    assert "ddl-history" in raised.value.hint
    assert len(plan(log, Wanted(until_ts=3 * S - 1)).segments) == 1


def _job(version: int, kind: int, info: TableInfo, finished_ts: int, query: str) -> DdlJob:
    made = jobs.job(version, kind, info, schema=(1, "shop"), query=query)
    assert made.binlog is not None
    ended = msgspec.structs.replace(made.binlog, finished_ts=finished_ts)
    return msgspec.structs.replace(made, binlog=ended)


def test_a_history_tells_tables_where_they_are_there(tmp_path: Path) -> None:
    """One that is made later and one that is gone by the end, too."""
    tracker = SchemaTracker()
    old, new = jobs.table_info(7, "old", "id", "v"), jobs.table_info(8, "new", "id")
    dropped, created = "DROP TABLE `old`", "CREATE TABLE `new` (`id` INT PRIMARY KEY)"
    tracker.add_jobs(
        [
            jobs.create_schema(1, 1, "shop"),
            _job(2, kinds.CREATE_TABLE, old, S, "CREATE TABLE `old` (`id` INT, `v` INT)"),
            _job(3, kinds.CREATE_TABLE, new, 4 * S + 1, created),
            _job(4, kinds.DROP_TABLE, old, 6 * S + 1, dropped),
        ]
    )
    log = facts(
        tmp_path,
        inserted(3 * S, "old", id=1, v=2),
        ddl(4 * S, created),
        inserted(5 * S, "new", id=1),
        ddl(6 * S, dropped),
        inserted(7 * S, "new", id=2),
    )
    assert done(plan(log, Wanted(), history=tracker)) == [
        ([], {"shop.old": ("id", "v")}),
        (["create_table"], {"shop.new": ("id",)}),
        (["drop_table"], {"shop.new": ("id",)}),
    ]


def test_what_is_done_needs_not_be_told(tmp_path: Path) -> None:
    """Behind it the table is as the downstream has it."""
    log = facts(tmp_path, CREATE, NOT_TOLD, inserted(4 * S, "t", id=1, w=2))
    present = {("shop", "t"): ints("t", "id", "w")}
    made = plan(log, Wanted(after_ts=3 * S), present=present)
    assert done(made) == [([], {"shop.t": ("id", "w")})]


def test_tables_older_than_the_files_are_as_the_downstream_has_them(tmp_path: Path) -> None:
    key = KeyStructure("PRIMARY", (KeyPart("id"),), unique=True, primary=True)
    old = TableStructure("t", 0, columns=ints("t", "id").columns, keys=(key,), key_columns=("id",))
    log = facts(
        tmp_path,
        inserted(1 * S, "t", id=1),
        ddl(2 * S, "ALTER TABLE `t` ADD COLUMN `a` INT"),
        inserted(3 * S, "t", id=1, a=2),
    )
    present = {("shop", "t"): old}
    made = plan(log, Wanted(), present=present)
    assert done(made) == [
        ([], {"shop.t": ("id",)}),
        (["add_column"], {"shop.t": ("id", "a")}),
    ]
    (table,) = made.segments[1].ddls[0].tables
    assert table.after is not None
    assert table.after.key_columns == ("id",)
    with pytest.raises(Stopped, match=r"nothing tells the structure of shop\.t"):
        plan(log, Wanted(until_ts=S))
    with pytest.raises(DdlNotTold, match=r"no table shop\.t"):
        plan(log, Wanted())
    with pytest.raises(DdlNotTold, match="it was begun"):
        plan(log, Wanted(after_ts=S, begun_ts=2 * S), present=present)


def test_a_ddl_of_tables_that_are_not_wanted_need_not_be_told(tmp_path: Path) -> None:
    log = facts(
        tmp_path,
        CREATE,
        NOT_TOLD,
        inserted(4 * S, "t", id=1, w=2),
        ddl(5 * S, "CREATE TABLE `u` (`id` INT PRIMARY KEY)"),
        inserted(6 * S, "u", id=1),
    )
    made = plan(log, Wanted(tables=("shop.u",)))
    assert [kinds for kinds, _ in done(made)][-1] == ["create_table"]
    assert done(made)[-1][1] == {"shop.u": ("id",)}


def test_a_ddl_is_early_where_rows_of_its_own_time_stand_behind_it(tmp_path: Path) -> None:
    """As our files have it."""
    log = facts(
        tmp_path,
        CREATE,
        ddl(2 * S, "ALTER TABLE `t` ADD COLUMN `a` INT"),
        inserted(2 * S, "t", id=1, v=2, a=3),
    )
    made = plan(log, Wanted())
    assert done(made) == [(["create_table", "add_column"], {"shop.t": ("id", "v", "a")})]
    alter = made.segments[0].ddls[1]
    assert alter.early
    again = plan(log, Wanted(after_ts=2 * S - 1, ddls_done=(alter.schema_version,)))
    assert done(again) == [([], {"shop.t": ("id", "v", "a")})]


@pytest.mark.parametrize(("late", "early"), [(30 * S, True), (90 * S, False)])
def test_a_ddl_is_early_where_rows_ahead_of_it_have_its_column(
    tmp_path: Path, late: int, early: bool
) -> None:
    """As the original's files have it; a column of long before was one that was being dropped."""
    log = facts(
        tmp_path,
        CREATE,
        inserted(2 * S, "t", id=1, v=2),
        inserted(3 * S, "t", id=1, v=2, a=3),
        ddl(late, "ALTER TABLE `t` ADD COLUMN `a` INT"),
        inserted(late + S, "t", id=1, v=2, a=4),
    )
    made = plan(log, Wanted())
    moved = [(one.commit_ts, one.early) for segment in made.segments for one in segment.ddls][1:]
    assert moved == [(3 * S, True) if early else (late, False)]
    assert [len(shapes["shop.t"]) for _, shapes in done(made)] == [2, 3]


@pytest.mark.parametrize("reached", [2 * S - 1, 2 * S])
def test_an_early_ddl_that_was_run_is_gone_on_behind(tmp_path: Path, reached: int) -> None:
    """Its own binlog is ahead of the checkpoint, and only the downstream tells its table."""
    log = facts(
        tmp_path,
        inserted(1 * S, "t", id=1),
        inserted(2 * S, "t", id=2, a=3),
        ddl(3 * S, "ALTER TABLE `t` ADD COLUMN `a` INT"),
        inserted(4 * S, "t", id=4, a=3),
        ddl(5 * S, "ALTER TABLE `t` ADD COLUMN `b` INT"),
        inserted(6 * S, "t", id=5, a=3, b=4),
    )
    first = plan(log, Wanted(until_ts=2 * S), present={("shop", "t"): ints("t", "id")})
    (early,) = [one for segment in first.segments for one in segment.ddls]
    assert (early.commit_ts, early.early) == (2 * S, True)
    present = {("shop", "t"): ints("t", "id", "a")}
    wanted = Wanted(after_ts=reached, ddls_done=(early.schema_version,))
    assert done(plan(log, wanted, present=present)) == [
        ([], {"shop.t": ("id", "a")}),
        (["add_column"], {"shop.t": ("id", "a", "b")}),
    ]
    with pytest.raises(DdlNotTold, match="there is a column a already"):
        plan(log, Wanted(after_ts=reached), present=present)


def test_what_a_drainer_wrote_twice_is_replayed_once(tmp_path: Path) -> None:
    """It began again from its savepoint. A large transaction is several records."""
    large = [inserted(3 * S, "t", id=at, v=2) for at in range(2)]
    row = inserted(2 * S, "t", id=9, v=2)
    log = facts(tmp_path, CREATE, row, *large, CREATE, row, *large, inserted(4 * S, "t", id=8, v=2))
    made = plan(log, Wanted())
    assert done(made) == [(["create_table"], {"shop.t": ("id", "v")})]
    (segment,) = made.segments
    (chunk,) = segment.chunks
    shown = [json.decode(one.body, type=RowMessage) for one in bodies(chunk, segment.view)]
    assert [one.events[0].key["id"] for one in shown if one.events[0].key] == [9, 0, 1, 8]
    assert segment.rows == 4


def _shown(directory: Path) -> list[tuple[int, int]]:
    """commit_ts in seconds and id of all rows of a keyless table."""
    log = in_order(found(directory).chunks())
    (segment,) = plan(log, Wanted(), present={("shop", "t"): ints("t", "id")}).segments
    shown = [
        one
        for chunk in segment.chunks
        for body in bodies(chunk, segment.view)
        for one in json.decode(body.body, type=RowMessage).events
    ]
    assert segment.rows == len(shown)
    return [(one.commit_ts // S, (one.after or {})["id"]) for one in shown]


def test_what_was_written_again_behind_a_rotation_is_replayed_once(tmp_path: Path) -> None:
    """The drainer died just after it, and began again in the empty file."""
    first = [inserted(at * S, "t", id=at) for at in range(1, 4)]
    write(tmp_path, *first, number=0)
    write(tmp_path, *first[1:], number=1)
    write(tmp_path, number=2)
    write(tmp_path, *first[1:], inserted(4 * S, "t", id=4), number=3)
    write(tmp_path, inserted(4 * S, "t", id=5), inserted(5 * S, "t", id=6), number=4)
    assert _shown(tmp_path) == [(1, 1), (2, 2), (3, 3), (4, 4), (4, 5), (5, 6)]


@pytest.mark.parametrize("rotated", [False, True])
def test_of_a_transaction_that_was_half_written_the_rest_is_replayed(
    tmp_path: Path, rotated: bool
) -> None:
    row, *large = [inserted(2 * S, "t", id=9), *(inserted(3 * S, "t", id=at) for at in range(3))]
    lives = [[row, *large[:1]], [row, *large[:2]], [row, *large, inserted(4 * S, "t", id=8)]]
    files = lives if rotated else [[one for life in lives for one in life]]
    for number, records in enumerate(files):
        write(tmp_path, *records, number=number)
    assert _shown(tmp_path) == [(2, 9), (3, 0), (3, 1), (3, 2), (4, 8)]


ORIGINALS = b"consistent = false\ncommitTS = 1\nschema-version = 1\n"


def _saved(directory: Path, content: bytes) -> None:
    """b"": the original's drainer keeps its savepoint somewhere else."""
    if content:
        (directory / "savepoint").write_bytes(content)


@pytest.mark.parametrize(
    "files",
    ["abb", "abbb", "ab bc", "ab  bbc", "ab b bc", "ab a bc", "ab abbc"],
)
def test_the_last_transaction_written_again_alone_is_replayed_once(
    tmp_path: Path, files: str
) -> None:
    """On a quiet cluster the savepoint is just before it."""
    _saved(tmp_path, ORIGINALS)
    for number, each in enumerate(files.split(" ")):
        ids = ["abc".index(one) for one in each]
        write(tmp_path, *(inserted((1 + at) * S, "t", id=at) for at in ids), number=number)
    assert _shown(tmp_path) == [(1, 0), (2, 1), (3, 2)][: len(set(files) - {" "})]


def test_the_original_has_one_record_for_each_transaction(tmp_path: Path) -> None:
    """Whatever it makes of it the second time."""
    _saved(tmp_path, ORIGINALS)
    write(tmp_path, *(inserted(2 * S, "t", id=at) for at in (1, 2)))
    assert _shown(tmp_path) == [(2, 1)]


@pytest.mark.parametrize("alone", [False, True])
def test_a_transaction_of_ours_in_several_equal_records_is_whole(
    tmp_path: Path, alone: bool
) -> None:
    """Of a table without a key, and behind a rotation, too."""
    equal = inserted(2 * S, "t", id=7)
    first = write(tmp_path, inserted(1 * S, "t", id=1), equal, equal, number=0)
    last = write(tmp_path, equal, inserted(3 * S, "t", id=3), number=1)
    saved = Savepoint(3 * S, feed="f", file=1, offset=last.stat().st_size)
    _saved(tmp_path, savepoint.dump(saved))
    rows = [(1, 1), (2, 7), (2, 7)]
    assert _shown(first if alone else tmp_path) == (rows if alone else [*rows, (2, 7), (3, 3)])


@pytest.mark.parametrize("rotated", [False, True])
def test_a_transaction_in_several_records_is_whole_without_a_savepoint(
    tmp_path: Path, rotated: bool
) -> None:
    records = [inserted(1 * S, "t", id=1), *(inserted(2 * S, "t", id=at) for at in (7, 8, 8, 9))]
    files = [records[:2], [], records[2:3], records[3:]] if rotated else [records]
    for number, each in enumerate(files):
        write(tmp_path, *each, number=number)
    assert _shown(tmp_path) == [(1, 1), (2, 7), (2, 8), (2, 8), (2, 9)]


def test_a_file_named_alone_beside_a_savepoint_that_is_none_is_read(tmp_path: Path) -> None:
    """As one without a savepoint."""
    _saved(tmp_path, b"\xff")
    row = inserted(1 * S, "t", id=1)
    assert _shown(write(tmp_path, row, row)) == [(1, 1), (1, 1)]


def test_where_it_ends_does_not_change_what_is_early(tmp_path: Path) -> None:
    log = facts(
        tmp_path,
        CREATE,
        inserted(2 * S, "t", id=1, v=2, a=3),
        ddl(4 * S, "ALTER TABLE `t` ADD COLUMN `a` INT"),
        ddl(5 * S, "ALTER TABLE `t` CHANGE COLUMN `v` `w` INT"),
    )
    made = plan(log, Wanted(until_ts=3 * S))
    assert done(made) == [(["create_table", "add_column"], {"shop.t": ("id", "v", "a")})]
    again = plan(log, Wanted(after_ts=3 * S, until_ts=4 * S))
    assert done(again) == []
