"""Where an application is: as text, in a database's transaction, in a file."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import BadInput
from tidelog.subscriber.file_position import FilePosition
from tidelog.subscriber.positions import Position, TablePosition


@given(st.text("az09_-", min_size=1), st.integers(0, (1 << 63) - 1))
def test_as_text(feed: str, commit_ts: int) -> None:
    assert Position.decode(Position(feed, commit_ts).encode()) == Position(feed, commit_ts)


@pytest.mark.parametrize(
    "text",
    ["", "main", "main@", "@5", "main@-5", "main@5x", f"m@{1 << 63}", f"m@{'9' * 5000}"],
)
def test_what_is_no_position(text: str) -> None:
    with pytest.raises(BadInput):
        Position.decode(text)


def test_what_it_covers() -> None:
    at = Position("main", 10)
    assert at.covers(Position("main", 10))
    assert not at.covers(Position("main", 11))
    with pytest.raises(BadInput):
        at.covers(Position("other", 1))


def test_it_goes_with_what_is_done_in_the_transaction(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE done (n INTEGER)")

    def apply(commit_ts: int, *, dies: bool = False) -> bool:
        with db:
            if not done.advance(Position("main", commit_ts)):
                return False
            db.execute("INSERT INTO done VALUES (?)", (commit_ts,))
            if dies:
                raise ZeroDivisionError
        return True

    done = TablePosition(db, "main")
    assert done.load() is None
    with pytest.raises(ZeroDivisionError):
        apply(10, dies=True)
    assert done.load() is None
    assert apply(10)
    assert not apply(10)
    with pytest.raises(ZeroDivisionError):
        apply(20, dies=True)
    assert done.load() == Position("main", 10)
    assert apply(20)
    assert not apply(15)
    assert list(db.execute("SELECT n FROM done")) == [(10,), (20,)]

    # Another reader of the feed in this database, and another feed, have places of their own.
    assert TablePosition(db, "main", name="other").load() is None
    assert TablePosition(db, "second").load() is None
    with pytest.raises(BadInput):
        done.advance(Position("second", 30))
    db.close()
    assert TablePosition(sqlite3.connect(path), "main").load() == Position("main", 20)


@pytest.mark.parametrize("first", ["load", "advance"])
def test_a_name_that_the_database_takes_for_another_s_is_refused(first: str) -> None:
    """As MySQL and MariaDB do by default: the second application skipped all that the first one
    had done, or moved its place."""
    db = sqlite3.connect(":memory:")
    db.execute(
        "CREATE TABLE tidelog_position (name VARCHAR(190) COLLATE NOCASE NOT NULL PRIMARY KEY,"
        " commit_ts BIGINT NOT NULL)"
    )
    one = TablePosition(db, "main", name="Stock")
    assert one.advance(Position("main", 10))
    other = TablePosition(db, "main", name="stock")
    with pytest.raises(BadInput, match="the place of another application"):
        other.load() if first == "load" else other.advance(Position("main", 20))
    assert one.load() == Position("main", 10)


def test_of_two_processes_one_does_it(tmp_path: Path) -> None:
    path = tmp_path / "app.db"
    one, two = sqlite3.connect(path, timeout=0), sqlite3.connect(path, timeout=0)
    first, second = TablePosition(one, "main"), TablePosition(two, "main")
    with one:
        assert first.advance(Position("main", 10))
    with one:
        assert first.advance(Position("main", 20))
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            second.advance(Position("main", 20))
    with two:
        assert not second.advance(Position("main", 20))


def test_the_second_of_two_waits_for_the_first_place_ever(tmp_path: Path) -> None:
    """In transactions that their application begins: who reads first has no turn any more."""

    def connected() -> sqlite3.Connection:
        return sqlite3.connect(
            tmp_path / "app.db", isolation_level=None, timeout=2, check_same_thread=False
        )

    one, two = connected(), connected()
    first, second = TablePosition(one, "main"), TablePosition(two, "main")

    def late() -> bool:
        two.execute("BEGIN")
        return second.advance(Position("main", 10))

    with ThreadPoolExecutor(1) as thread:
        one.execute("BEGIN")
        assert first.advance(Position("main", 10))
        other = thread.submit(late)
        with pytest.raises(TimeoutError):
            other.result(0.2)
        one.execute("COMMIT")
        assert not other.result()


def test_other_drivers_marks() -> None:
    asked: list[str] = []

    class Cursor:
        rowcount = 1

        def execute(self, sql: str, parameters: object = ()) -> None:
            asked.append(sql)

        def fetchone(self) -> None:
            return None

        def close(self) -> None:
            asked.append("closed")

    class Connection:
        def cursor(self) -> Cursor:
            return Cursor()

    assert TablePosition(Connection(), "main", paramstyle="format").advance(Position("main", 1))
    assert asked[-2].endswith("SET commit_ts = %s WHERE name = %s AND commit_ts < %s")
    assert asked[-1] == "closed"
    with pytest.raises(BadInput):
        TablePosition(Connection(), "main", paramstyle="named")


def test_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "place" / "position"
    kept = FilePosition(path)
    assert kept.load() is None
    for commit_ts in (5, 7):
        asyncio.run(kept.save(Position("main", commit_ts)))
    assert path.read_text() == "main@7\n"
    assert FilePosition(path).load() == Position("main", 7)
    path.write_text("else")
    with pytest.raises(BadInput):
        kept.load()
