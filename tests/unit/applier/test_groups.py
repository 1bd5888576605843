"""Grouping: whole batches, order per table, DDL alone."""

from __future__ import annotations

import msgspec

from tests.unit.applier.shapes import created, ddl
from tidelog.change_reader import Change
from tidelog.changes import MarkedTxn, RowMessage
from tidelog_applier.groups import groups


def rows(commit_ts: int, *messages: tuple[str, int, int]) -> Change:
    """(table, schema version, number of rows) each."""
    found = [RowMessage("d", t, v, [created({"id": i}) for i in range(n)]) for t, v, n in messages]
    return Change(commit_ts, [MarkedTxn(commit_ts, commit_ts - 1, 1)], found)


def test_batches_are_joined_until_the_group_is_full() -> None:
    found = groups([rows(ts, ("t", 1, 2)) for ts in range(1, 6)], 4, 1 << 20)
    assert [(g.commit_ts, g.rows) for g in found] == [(2, 4), (4, 4), (5, 2)]


def test_a_batch_is_never_cut() -> None:
    (found,) = groups([rows(7, ("t", 1, 100))], 10, 10)
    assert (found.rows, found.commit_ts) == (100, 7)


def test_a_ddl_is_alone() -> None:
    changes = [rows(1, ("t", 1, 1)), Change(2, [], [], [ddl("add_column")]), rows(3, ("t", 2, 1))]
    found = groups(changes, 100, 1 << 20)
    assert [(g.commit_ts, len(g.ddls), g.rows) for g in found] == [
        (1, 0, 1),
        (2, 1, 0),
        (3, 0, 1),
    ]


def test_an_early_ddl_stays_with_its_rows_only() -> None:
    early = msgspec.structs.replace(rows(2, ("t", 2, 1)), ddls=[ddl("add_column")] * 2)
    found = groups([rows(1, ("t", 1, 1)), early, rows(3, ("t", 2, 1))], 100, 1 << 20)
    assert [(g.commit_ts, len(g.ddls), g.rows) for g in found] == [(1, 0, 1), (2, 2, 1), (3, 0, 1)]


def test_a_table_keeps_its_order_when_its_version_goes_back() -> None:
    changes = [rows(1, ("t", 5, 1), ("u", 5, 1)), rows(2, ("t", 6, 2)), rows(3, ("t", 5, 3))]
    (found,) = groups(changes, 100, 1 << 20)
    assert [(r.table, r.version, len(r.events)) for r in found.runs] == [
        ("t", 5, 1),
        ("u", 5, 1),
        ("t", 6, 2),
        ("t", 5, 3),
    ]


def test_watermarks_move_the_position_only() -> None:
    (found,) = groups([Change(4), Change(9)], 100, 1 << 20)
    assert found.only_moves
    assert found.commit_ts == 9


def test_bytes_count() -> None:
    wide = RowMessage("d", "t", 1, [created({"v": "x" * 1000}) for _ in range(10)])
    found = groups([Change(ts, [], [wide]) for ts in (1, 2, 3)], 1000, 15_000)
    assert [g.commit_ts for g in found] == [2, 3]
