"""Bodies of row messages -> events by table, in upstream order. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tidelog.change_bodies import RowHead
from tidelog.changes import Event, RowMessage
from tidelog.downstream import TableRule
from tidelog.errors import UnparsablePayload
from tidelog.plan.events import TableEvents
from tidelog.schema.structure import TableStructure
from tidelog.unreadable import NOT_READABLE

Key = tuple[str, str, int]
"""Database, table, the table's schema version."""
Rules = Mapping[Key, TableRule]
_ROWS = msgspec.json.Decoder(RowMessage)
_HEAD = msgspec.json.Decoder(RowHead)


def key_of(body: bytes) -> Key:
    """Of whose rows a body is. Raises UnparsablePayload."""
    try:
        head = _HEAD.decode(body)
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a row message can't be read: {error}") from error
    return head.db, head.table, head.schema_version


class Decoded:
    """What a window's bodies hold: a table's events in order under one structure, begun anew where
    its version changes."""

    def __init__(self) -> None:
        self.rows = 0
        self.runs: list[tuple[Key, list[Event]]] = []
        self._last: dict[tuple[str, str], tuple[int, list[Event]]] = {}

    def add(self, body: bytes, after: int) -> None:
        """Events with commit_ts <= `after` are left out. Raises UnparsablePayload."""
        try:
            message = _ROWS.decode(body)
        except NOT_READABLE as error:
            raise UnparsablePayload(f"a row message can't be read: {error}") from error
        events = message.events
        if events and events[0].commit_ts <= after:
            events = [event for event in events if event.commit_ts > after]
        if not events:
            return
        self.rows += len(events)
        place, version = (message.db, message.table), message.schema_version
        last = self._last.get(place)
        if last is not None and last[0] == version:
            last[1].extend(events)
        else:
            self._last[place] = version, events
            self.runs.append(((*place, version), events))

    @property
    def keys(self) -> set[Key]:
        return {key for key, _ in self.runs}

    def with_rules(
        self, structures: Mapping[Key, TableStructure], rules: Rules
    ) -> list[TableEvents]:
        """For the planner."""
        return [
            TableEvents(key[0], structures[key], rules[key], events) for key, events in self.runs
        ]
