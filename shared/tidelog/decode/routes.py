"""Where the rows of each table go, or why nowhere: looked up once for each schema version."""

from __future__ import annotations

from tidelog import subjects
from tidelog.decode.config import DecodeConfig
from tidelog.decode.ddl_filter import routed
from tidelog.decode.envelope import TIDELOG, Envelope
from tidelog.decode.met import Met
from tidelog.decode.passed import Passed
from tidelog.filter.filters import Filters
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.history import TableAt
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import SchemaTracker

ROUTES_MAX = 4096
"""Routes kept between two transactions; where there are more, the cache begins anew."""


class Route:
    """Where the rows of one table id at one schema version go, and in what form. `table` has the
    names that readers know; rows of the types in `ignored` are left out."""

    def __init__(
        self,
        feed: str,
        table: TableAt,
        envelope: Envelope = TIDELOG,
        ignored: frozenset[int] = frozenset(),
    ) -> None:
        self.db = table.db
        self.ignored = ignored
        self.table = table
        self.label = f"{subjects.escape(table.db)}.{subjects.escape(table.name)}"
        self.subject = subjects.changes_row(feed, table.db, table.name)
        self.envelope = envelope.table(table.db, table.name, table)
        self._structure: TableStructure | None = None

    @property
    def structure(self) -> TableStructure:
        if self._structure is None:
            self._structure = structure(self.table)
        return self._structure


class Routes:
    """Routes by (table id, schema version of a mutation); a text names why there is none."""

    def __init__(
        self,
        config: DecodeConfig,
        tracker: SchemaTracker,
        passed: Passed,
        filters: Filters,
        envelope: Envelope = TIDELOG,
    ) -> None:
        self.met = Met(tracker, filters)
        self._envelope = envelope
        self._feed = config.feed
        self._tracker = tracker
        self._passed = passed
        self._filters = filters
        self._routes: dict[tuple[int, int], Route | str] = {}
        self._marks: dict[tuple[int, int], TableCodec] = {}

    def cached(self, table_id: int, version: int) -> Route | str | None:
        return self._routes.get((table_id, version))

    def find(self, table_id: int, version: int) -> Route | str:
        """Rows go out in the form that readers know: the newest the stream has passed, or the
        mutation's own. An id that was truncated or dropped by then is discarded. Raises
        UnknownTable."""
        newest = self._newest(table_id, version)
        route: Route | str
        if self._tracker.is_dropped_or_truncated(table_id, newest):
            route = "truncated"
        else:
            table = self._tracker.table(table_id, newest)
            verdict = self._filters.table(table.db, table.name)
            route = verdict.reason or Route(
                self._feed, routed(table, verdict), self._envelope, verdict.ignored_rows
            )
            self.met.filtered(table_id, version, verdict.reason)
        self._routes[table_id, version] = route
        return route

    def mark(self, table_id: int, version: int) -> TableCodec:
        """Of a table whose route is MARK, which an early DDL of the same transaction may have
        cleared."""
        codec = self._marks.get((table_id, version))
        if codec is None:
            info = self._tracker.table(table_id, self._newest(table_id, version)).info
            codec = self._marks[table_id, version] = TableCodec(info)
        return codec

    def trim(self) -> None:
        """A transaction is decoded. Not in the midst of one: what it needs of pages that were
        loaded meanwhile would be asked for again, for ever if they don't find room together."""
        if len(self._routes) > ROUTES_MAX:
            self.clear()

    def clear(self) -> None:
        """Jobs were added, or a DDL was passed: all are looked up again."""
        self._routes.clear()
        self._marks.clear()
        self.met.schema_changed()

    def _newest(self, table_id: int, version: int) -> int:
        return max(version, self._passed.version_of(table_id))
