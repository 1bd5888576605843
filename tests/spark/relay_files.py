"""Relay logs as an Applier leaves them, of histories made here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from tidelog.changes import DdlMessage, Event, MarkedTxn, Marker, RowMessage
from tidelog.real.disk import RealDisk
from tidelog.relay import RelayLog, Whole
from tidelog.schema.structure import TableStructure

FEED = "shop"
BASE_TS = 10_000 << 18
FILE_BYTES = 64 << 10
BODY_EVENTS = 100
_json = msgspec.json.encode
Change = tuple[str, TableStructure, Event]
"""Database, table, event."""


def keyed(
    structure: TableStructure,
    commit_ts: int,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> Event:
    """As the Drainer tells it."""
    op = "c" if before is None else "d" if after is None else "u"
    image = after if before is None else before
    assert image is not None
    key = {name: image[name] for name in structure.key_columns} or None
    return Event(op, commit_ts, key, before, after)


class RelayFiles:
    """A log that grows by batches; `close` ends it."""

    def __init__(self, directory: Path, file_bytes: int = FILE_BYTES, cluster_id: int = 0) -> None:
        self._log = RelayLog(
            RealDisk(directory), "", feed=FEED, cluster_id=cluster_id, max_file_bytes=file_bytes
        )
        asyncio.run(self._log.open(BASE_TS))
        self.end = BASE_TS

    def ddl(self, message: DdlMessage) -> None:
        """Alone in its batch, at the next commit_ts."""
        message = msgspec.structs.replace(
            message, commit_ts=self.end + 1, schema_version=self.end + 1 - BASE_TS
        )
        self._append([MarkedTxn(self.end + 1, self.end, 0)], [], [_json(message)], [])

    def batch(self, changes: Iterable[Change]) -> None:
        """Whole transactions, each of one commit_ts above those before."""
        tables: dict[tuple[str, str, int], tuple[TableStructure, list[Event]]] = {}
        rows: dict[int, int] = {}
        for db, structure, event in changes:
            key = (db, structure.name, structure.version)
            tables.setdefault(key, (structure, []))[1].append(event)
            rows[event.commit_ts] = rows.get(event.commit_ts, 0) + 1
        bodies = [
            _json(RowMessage(*key, events[at : at + BODY_EVENTS]))
            for key, (_, events) in tables.items()
            for at in range(0, len(events), BODY_EVENTS)
        ]
        txns = [MarkedTxn(commit_ts, commit_ts - 1, n) for commit_ts, n in sorted(rows.items())]
        self._append(txns, bodies, [], [(key[0], one) for key, (one, _) in tables.items()])

    def _append(
        self,
        txns: list[MarkedTxn],
        rows: list[bytes],
        ddls: list[bytes],
        tables: list[tuple[str, TableStructure]],
    ) -> None:
        marker = _json(Marker("a", len(rows) + len(ddls), self.end, txns))
        structures = {(db, one.name, one.version): one for db, one in tables}
        whole = Whole(
            "a",
            txns[-1].commit_ts,
            self.end,
            marker,
            txns,
            rows,
            ddls,
            frozenset(structures),
        )
        asyncio.run(self._append_now(whole, structures))
        self.end = txns[-1].commit_ts

    async def _append_now(self, whole: Whole, structures: Any) -> None:
        await self._log.append([whole], structures)

    def close(self) -> None:
        self._log.close()
