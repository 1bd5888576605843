"""What is kept beside the checkpoint, by a database that speaks nearly the same."""

from __future__ import annotations

import sqlite3

from tidelog.downstreams.state_tables import MarkTable


def test_a_mark_is_there_whoever_took_its_row_away() -> None:
    """One that changes no row marks no transaction, and what is unmarked goes round for ever."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.execute("ATTACH ':memory:' AS retl")
    marks = MarkTable("retl", 7)
    for statement in marks.prepare(2)[1:]:
        db.execute(statement)

    def mark(lane: int) -> None:
        sql = marks.mark(lane)
        db.execute(sql.replace("ON DUPLICATE KEY UPDATE", "ON CONFLICT DO UPDATE SET"))

    def found() -> list[tuple[int, ...]]:
        return db.execute("SELECT id, channel_id, val FROM _drainer_repl_mark").fetchall()

    mark(1)
    assert sorted(found()) == [(0, 7, 1), (1, 7, 2)]
    db.execute("DELETE FROM _drainer_repl_mark")
    mark(1)
    mark(1)
    assert found() == [(1, 7, 2)]
