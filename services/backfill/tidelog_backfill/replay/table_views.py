"""How rows of each table are decoded at a place of the log, or why they are left out. Pure."""

from __future__ import annotations

import msgspec

from tidelog.changes import structure_key
from tidelog.decode.config import DecodeConfig
from tidelog.decode.passed import Passed
from tidelog.decode.routes import Routes
from tidelog.filter.filters import MARK, Filters
from tidelog.schema.history import TableAt
from tidelog.schema.structure import TableStructure
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.names import Names
from tidelog_backfill.files.view import NOT_WANTED, TableView
from tidelog_backfill.replay.outline import Stretch

_json = msgspec.json.Encoder().encode


class Met(msgspec.Struct, frozen=True):
    """Rows of a table at a schema version lie between these commit_ts, both included."""

    table_id: int
    version: int
    first_ts: int
    last_ts: int


class _Meaning(msgspec.Struct, frozen=True):
    """Of a table id at one version of its table; `reason`: why its rows are left out."""

    view: TableView
    reason: str = ""
    key: str = ""
    structure: TableStructure | None = None


class TableViews:
    """`passed`: which DDLs stand before the place that is asked for."""

    def __init__(
        self, config: DecodeConfig, tracker: SchemaTracker, passed: Passed, names: Names
    ) -> None:
        self._tracker = tracker
        self._passed = passed
        self._names = names
        self._routes = Routes(config, tracker, passed, Filters(config))
        self._meanings: dict[tuple[int, int], _Meaning] = {}
        self._views: dict[tuple[int, int, int], TableView] = {}

    def stretch(self, after_ts: int, until_ts: int, met: list[Met]) -> Stretch:
        """Its rows, of which those of `met` may be there. Raises UnknownTable."""
        made = Stretch(after_ts, until_ts)
        for one in met:
            newest = max(one.version, self._passed.version_of(one.table_id))
            meaning = self._meaning(one.table_id, newest)
            if meaning.reason:
                made.dropped[one.table_id] = meaning.reason
            if meaning.reason in ("", MARK):
                view = self._view(one, newest, meaning)
                (made.marks if meaning.reason else made.tables).append(view)
            if meaning.structure is not None:
                made.structures[meaning.key] = meaning.structure
        return made

    def _view(self, one: Met, newest: int, meaning: _Meaning) -> TableView:
        key = one.table_id, one.version, newest
        found = self._views.get(key)
        if found is None:
            found = msgspec.structs.replace(meaning.view, version=one.version)
            self._views[key] = found
        return found

    def _meaning(self, table_id: int, newest: int) -> _Meaning:
        found = self._meanings.get((table_id, newest))
        if found is None:
            found = self._meanings[table_id, newest] = self._look_up(table_id, newest)
        return found

    def _look_up(self, table_id: int, newest: int) -> _Meaning:
        route = self._routes.find(table_id, newest)
        if isinstance(route, str):
            if route != MARK:
                return _Meaning(TableView(table_id, 0, 0, "", "", b""), route)
            return _Meaning(_view(table_id, self._tracker.table(table_id, newest)), MARK)
        table = route.table
        view = _view(table_id, table, route.ignored)
        if not self._names.wants(table.db, table.name):
            return _Meaning(view, NOT_WANTED)
        return _Meaning(view, "", structure_key(table.db, route.structure), route.structure)


def _view(table_id: int, table: TableAt, ignored: frozenset[int] = frozenset()) -> TableView:
    info = _json(table.info)
    return TableView(table_id, 0, table.version, table.db, table.name, info, ignored)
