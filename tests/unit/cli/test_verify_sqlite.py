"""A SQLite downstream as `tidelog verify` reads it: what can't be read is said, never left out."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput, Unavailable
from tidelog_cli.verify.sqlite_cells import SqliteCells
from tidelog_cli.verify.tables import Part

CHECKPOINT = "tidb_binlog.checkpoint"


@contextmanager
def reading(path: Path) -> Iterator[SqliteCells]:
    with closing(SqliteCells(str(path), f"sqlite:///{path}", CHECKPOINT)) as cells:
        yield cells


@pytest.fixture
def file(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(tmp_path / "copy.db", isolation_level=None)) as file:
        file.execute('CREATE TABLE "d.t" (id INTEGER PRIMARY KEY, v TEXT)')
        file.execute("""INSERT INTO "d.t" VALUES (1, 'a'), (2, 'b')""")
        yield file


def test_rows_and_a_file_without_a_checkpoint(file: sqlite3.Connection, tmp_path: Path) -> None:
    with reading(tmp_path / "copy.db") as cells:
        cells.fix()
        (one,) = cells.tables()
        assert (one.db, one.name, one.rows) == ("d", "t", 2)
        assert list(cells.cells(Part("d", "t", one.columns, ("id",)))) == [(1, "a"), (2, "b")]
        assert cells.checkpoints() == []


@pytest.mark.parametrize("called", ["a#b.db", "a?mode=rwc.db", "100%25.db"])
def test_a_file_is_named_as_it_is_called(tmp_path: Path, called: str) -> None:
    with closing(sqlite3.connect(tmp_path / called)) as file, file:
        file.execute('CREATE TABLE "d.t" (id INTEGER PRIMARY KEY)')
    with reading(tmp_path / called) as cells:
        assert [one.name for one in cells.tables()] == ["t"]
    assert [one.name for one in tmp_path.iterdir()] == [called]


def test_a_checkpoint_that_can_t_be_read_is_not_one_that_is_missing(
    file: sqlite3.Connection, tmp_path: Path
) -> None:
    file.execute(f'CREATE TABLE "{CHECKPOINT}" (clusterID INTEGER PRIMARY KEY, checkPoint TEXT)')
    file.execute(f"""INSERT INTO "{CHECKPOINT}" VALUES (1, '{{"commitTS":5}}')""")
    with reading(tmp_path / "copy.db") as cells:
        assert cells.checkpoints() == [Checkpoint(5)]
        file.execute(f"""UPDATE "{CHECKPOINT}" SET checkPoint = '['""")
        with pytest.raises(BadInput, match=r"the checkpoint at sqlite:.* can't be read"):
            cells.checkpoints()
        file.execute(f'ALTER TABLE "{CHECKPOINT}" RENAME COLUMN checkPoint TO another')
        with pytest.raises(BadInput, match="no such column"):
            cells.checkpoints()


def test_a_file_that_is_locked_or_no_database(
    file: sqlite3.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    file.execute("BEGIN EXCLUSIVE")
    text = tmp_path / "text"
    text.write_text("this is no database at all, but long enough to look at" * 9)
    part = Part("d", "t", (), ())
    with reading(tmp_path / "copy.db") as cells:
        for ask in (cells.checkpoints, cells.tables):
            with pytest.raises(Unavailable, match="is locked by another program"):
                ask()
    with reading(text) as cells:
        for ask in (cells.checkpoints, cells.tables):
            with pytest.raises(BadInput, match="text can't be read"):
                ask()
        with pytest.raises(BadInput, match="text can't be read"):
            list(cells.cells(part))
