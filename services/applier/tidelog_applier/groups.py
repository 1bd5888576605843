"""Whole transactions, collected into what goes downstream in one transaction. Pure."""

from __future__ import annotations

import msgspec

from tidelog.change_reader import Change
from tidelog.changes import DdlMessage, Event, RowMessage

SAMPLE = 8
EVENT_BYTES = 64


class Run(msgspec.Struct):
    """Events of one table at one schema version, in commit order."""

    db: str
    table: str
    version: int
    events: list[Event]


class Group(msgspec.Struct):
    """Events of whole batches, everything up to `commit_ts`. With `ddls` the group is one batch:
    its DDLs, then its rows. Without rows and DDLs it only moves the position.

    `runs`: a table's events in order under one structure; one more run where its version changes.
    """

    commit_ts: int = 0
    rows: int = 0
    bytes: int = 0
    txns: int = 0
    runs: list[Run] = []
    last: dict[tuple[str, str], Run] = {}
    ddls: list[DdlMessage] = []

    @property
    def only_moves(self) -> bool:
        return not self.rows and not self.ddls

    def add(self, change: Change) -> None:
        self.ddls = change.ddls
        self.commit_ts = change.commit_ts
        self.txns += len(change.txns)
        for message in change.rows:
            key = (message.db, message.table)
            run = self.last.get(key)
            if run is None or run.version != message.schema_version:
                run = self.last[key] = Run(*key, message.schema_version, [])
                self.runs.append(run)
            run.events.extend(message.events)
            self.rows += len(message.events)
            self.bytes += weight(message)


def weight(message: RowMessage) -> int:
    """About how many bytes a message's events take: a few of them are looked at."""
    events = message.events
    step = max(1, len(events) // SAMPLE)
    sample = events[::step]
    total = sum(_row(event.before) + _row(event.after) + EVENT_BYTES for event in sample)
    return total * len(events) // max(1, len(sample))


def _row(row: dict[str, object] | None) -> int:
    if row is None:
        return 0
    return sum(len(value) + 8 if isinstance(value, str) else 16 for value in row.values())


def change_weight(change: Change) -> int:
    return EVENT_BYTES + sum(map(weight, change.rows))


def groups(changes: list[Change], max_rows: int, max_bytes: int) -> list[Group]:
    """Split a run of changes, in order, at DDLs and where a group is full. A transaction is never
    cut, however large."""
    found: list[Group] = []
    group = Group()
    for change in changes:
        if change.ddls and group.commit_ts:
            found.append(group)
            group = Group()
        group.add(change)
        if group.ddls or group.rows >= max_rows or group.bytes >= max_bytes:
            found.append(group)
            group = Group()
    if group.commit_ts:
        found.append(group)
    return found
