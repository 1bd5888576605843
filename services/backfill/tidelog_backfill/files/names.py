"""Which tables are wanted: `shop.orders`, `shop.*`, `*.log_?`."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.errors import BadInput
from tidelog.filter.patterns import Wildcard


class Names:
    """Patterns `db.table`, without case; of none all names are wanted. Raises BadInput."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._pairs = [_pair(pattern) for pattern in patterns]

    def wants(self, db: str, table: str) -> bool:
        return not self._pairs or any(
            in_db.matches(db) and in_table.matches(table) for in_db, in_table in self._pairs
        )

    def wants_db(self, db: str) -> bool:
        """Whether a table of it may be wanted."""
        return not self._pairs or any(in_db.matches(db) for in_db, _ in self._pairs)


def _pair(pattern: str) -> tuple[Wildcard, Wildcard]:
    db, dot, table = pattern.partition(".")
    if not db or not dot or not table:
        raise BadInput(f"{pattern!r} names no table", hint="write db.table, db.* or *.table")
    try:
        return Wildcard(db, "tables"), Wildcard(table, "tables")
    except ValueError as error:
        raise BadInput(str(error)) from error
