"""The filtered tables that transactions came for: their Pumps are told to send no more of them."""

from __future__ import annotations

from tidelog.filter.filters import Filters
from tidelog.filter.lists import FILTER, SYSTEM
from tidelog.filter.unwanted import Unwanted
from tidelog.schema.tracker import SchemaTracker

IDS_MAX = 256
"""Tables told to the Pumps: those met last."""


class Met:
    """Asked once for each schema version of a table, and after each change of the schema."""

    def __init__(self, tracker: SchemaTracker, filters: Filters) -> None:
        self._tracker = tracker
        self._filters = filters
        self._version = 0
        self._ids: dict[int, None] = {}
        self._unwanted: Unwanted | None = Unwanted()

    def filtered(self, table_id: int, version: int, reason: str) -> None:
        """A mutation of this schema version was dropped without being read. What marks
        transactions must go on coming."""
        if reason not in (FILTER, SYSTEM):
            return
        self._version = max(self._version, version)
        self._ids.pop(table_id, None)
        self._ids[table_id] = None
        if len(self._ids) > IDS_MAX:
            del self._ids[next(iter(self._ids))]
        self._unwanted = None

    def schema_changed(self) -> None:
        """A table may have another name now."""
        self._unwanted = None

    @property
    def unwanted(self) -> Unwanted:
        if self._unwanted is None:
            ids = tuple(sorted(filter(self._always_filtered, self._ids)))
            self._unwanted = Unwanted(ids, self._version)
        return self._unwanted

    def _always_filtered(self, table_id: int) -> bool:
        """One that was renamed, or will be as far as the history is known, is still decided row by
        row."""
        return all(
            self._filters.table(db, name).reason in (FILTER, SYSTEM)
            for db, name in self._tracker.names(table_id)
        )
