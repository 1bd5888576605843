"""Where an application is in a feed, and keeping that with what it made of it.

A position is a commit_ts: everything at or below it is done. Kept in the transaction that writes
what was made of a feed's transaction, it makes that exactly once, whatever dies when.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from tidelog.errors import BadInput
from tidelog.timestamps import TS_MAX


class Position(msgspec.Struct, frozen=True, order=True):
    """Everything of `feed` with commit_ts at or below `commit_ts` is done."""

    feed: str
    commit_ts: int

    def encode(self) -> str:
        """As text, for wherever an application keeps it: `main@446812345678901249`."""
        return f"{self.feed}@{self.commit_ts}"

    @classmethod
    def decode(cls, text: str) -> Position:
        """Raises BadInput."""
        feed, at, commit_ts = text.strip().partition("@")
        if not (feed and at and commit_ts.isascii() and commit_ts.isdigit()):
            raise BadInput(f"{text!r} is no position", hint="feed@commit_ts, as encode() makes it")
        if len(commit_ts) > 19 or int(commit_ts) > TS_MAX:
            raise BadInput(f"{text[:40]!r}: no commit_ts is above {TS_MAX}")
        return cls(feed, int(commit_ts))

    def covers(self, other: Position) -> bool:
        """Whether `other` is done, as far as this one tells. Raises BadInput for another feed's."""
        if other.feed != self.feed:
            raise BadInput(f"a position of feed {self.feed!r} says nothing of {other.feed!r}")
        return other.commit_ts <= self.commit_ts


class Cursor(Protocol):
    """Of PEP 249, what is used here."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, sql: str, parameters: Any = ...) -> Any: ...
    def fetchone(self) -> Any: ...
    def close(self) -> Any: ...


class Connection(Protocol):
    """Of PEP 249, what is used here: sqlite3, PyMySQL, psycopg and others have it."""

    def cursor(self) -> Cursor: ...


_CREATE = (
    "CREATE TABLE IF NOT EXISTS tidelog_position"
    " (name VARCHAR(190) NOT NULL PRIMARY KEY, commit_ts BIGINT NOT NULL)"
)
_READ = "SELECT commit_ts, name FROM tidelog_position WHERE name = ?"
_HOLD = "UPDATE tidelog_position SET commit_ts = commit_ts WHERE name = ?"
_MOVE = "UPDATE tidelog_position SET commit_ts = ? WHERE name = ? AND commit_ts < ?"
_BEGIN = "INSERT INTO tidelog_position (name, commit_ts) VALUES (?, ?)"


class TablePosition:
    """A position in the application's own database, in the table `tidelog_position`.

    It is written by the connection that is handed over, in whatever transaction that is in, and
    never committed here. `name` tells several readers of a feed in one database apart.
    `paramstyle` as the driver's module has it: qmark (sqlite3), format or pyformat.
    """

    def __init__(
        self, connection: Connection, feed: str, *, name: str = "", paramstyle: str = "qmark"
    ) -> None:
        if paramstyle not in ("qmark", "format", "pyformat"):
            raise BadInput(f"paramstyle {paramstyle!r}: qmark, format or pyformat")
        self._connection = connection
        self._feed = feed
        self._name = f"{feed}/{name}" if name else feed
        self._mark = "?" if paramstyle == "qmark" else "%s"
        self._is_ours = False
        self._run(_CREATE)

    def load(self) -> Position | None:
        """None: nothing was kept yet. Raises BadInput where the database takes another one's name
        for this one: many compare without case, accents, or blanks at the end."""
        _, row = self._run(_READ, self._name)
        if row is None:
            return None
        kept = row[1].decode() if isinstance(row[1], bytes) else row[1]
        if kept != self._name:
            raise BadInput(
                f"to this database {self._name!r} is {kept!r}, the place of another application",
                hint="a `name` that differs by more than case, accents and blanks at its end",
            )
        self._is_ours = True
        return Position(self._feed, int(row[0]))

    def advance(self, position: Position) -> bool:
        """Move it, as the first thing in the transaction that does the work. False: that was done
        already, by this process' earlier life or by another one: write nothing.

        Two processes that get here together: the database lets one of them wait for the other.
        """
        if position.feed != self._feed:
            raise BadInput(f"a position of feed {position.feed!r} is kept for {self._feed!r}")
        if not self._is_ours:
            self._run(_HOLD, self._name)  # who reads before it has its turn sees what was before
            self.load()  # nobody else's is moved
        moved, _ = self._run(_MOVE, position.commit_ts, self._name, position.commit_ts)
        if moved == 1:
            return True
        if self.load() is not None:
            return False
        self._run(_BEGIN, self._name, position.commit_ts)
        return True

    def _run(self, sql: str, *parameters: object) -> tuple[int, Any]:
        """(rows changed, the first row found)."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(sql.replace("?", self._mark), parameters)
            return cursor.rowcount, cursor.fetchone() if sql is _READ else None
        finally:
            cursor.close()
