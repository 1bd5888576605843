"""A SQLite downstream read back: what is not there, and what can't be read now."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from tidelog_cli.readback import read_table


def test_a_table_that_is_not_there_is_told_from_one_that_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "copy.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute('CREATE TABLE "d.t" (id, j)')
        writer.execute("""INSERT INTO "d.t" VALUES (1, '{"a":1}')""")
        assert read_table(path, "d", "t", {"j"}) == [{"id": 1, "j": {"a": 1}}]
        with pytest.raises(LookupError, match=r"d\.none"):
            read_table(path, "d", "none", set())
        monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            read_table(path, "d", "t", set())
