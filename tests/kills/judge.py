"""The stream, read as an application reads it, and the database, held against the ledger.

lost          acked, and the stream has passed its commit_ts without it; or a row is changed that
              is not as the stream left it
duplicated    a second time in the stream, or failed for certain and there all the same
out of order  a commit_ts that is not above the one before it, or another than was acked; or a row
              in front of the DDL of its columns
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql

from tests.kills.ledger import Acked, Begun, Event, Failed, Ledger, digest
from tests.servers import MariaDb
from tests.wrong import Wrong
from tidelog import subscribe
from tidelog.changes import DdlMessage
from tidelog.subscriber import Subscription, Transaction

DATABASE, LOG = "shop", "log"
BLOB = "blob"
COMPARED = ("log", "item", BLOB)
Rows = dict[int, dict[str, Any]]


class Judge:
    """Reads until cancelled. Raises Wrong."""

    def __init__(self, ledger: Path, feed: str) -> None:
        self._ledger = Ledger(ledger)
        self._feed = feed
        self._begun: dict[int, str] = {}
        self._failed: set[int] = set()
        self._owed: dict[int, int] = {}
        """By commit_ts the ids that were acked and not seen yet."""
        self._seen: dict[int, int] = {}
        """By id its commit_ts in the stream."""
        self._tables: dict[str, Rows] = {name: {} for name in COMPARED}
        self._columns: dict[str, Set[str]] = {}
        """By table, as the DDLs in the stream have them."""
        self._changes: Subscription[Transaction] | None = None
        self.acked = 0
        self.last_acked = 0
        self.last_ts = 0
        self.counts: Counter[str] = Counter()
        self.ddls = self.early = self.large = 0

    @property
    def position(self) -> int:
        return self._changes.watermark if self._changes is not None else 0

    @property
    def seen(self) -> int:
        return len(self._seen)

    async def run(self, nats_url: str) -> None:
        async with subscribe(
            self._feed, nats_url=nats_url, start="beginning", timeout_s=None
        ) as self._changes:
            async for txn in self._changes:
                self.take(txn)

    def take(self, txn: Transaction) -> None:
        if txn.commit_ts <= self.last_ts:
            raise self._wrong("out of order", f"{txn.commit_ts} after {self.last_ts}")
        self.last_ts = txn.commit_ts
        for ddl in txn.ddls:
            self._changed(ddl)
        if not txn.rows and txn.ddls:
            return
        events = [
            (f"{m.db}.{m.table}", event.before, event.after) for m in txn.rows for event in m.events
        ]
        ids = [after["id"] for table, _, after in events if table.endswith(f".{LOG}") and after]
        if len(ids) != 1:
            raise self._wrong("other", f"transaction {txn.commit_ts} names {ids}")
        self._met(ids[0], txn.commit_ts, events)

    def _met(self, txn_id: int, commit_ts: int, events: list[Event]) -> None:
        if txn_id in self._seen:
            at = self._seen[txn_id]
            raise self._wrong("duplicated", f"{txn_id} at {at} and at {commit_ts}")
        self.look()
        if txn_id in self._failed:
            raise self._wrong("duplicated", f"{txn_id} failed, and is in the stream at {commit_ts}")
        if self._begun.pop(txn_id, "") != digest(events):
            raise self._wrong(
                "other", f"{txn_id} at {commit_ts} is not what was written: {_short(events)}"
            )
        self._seen[txn_id] = commit_ts
        self.large += any(table.endswith(f".{BLOB}") for table, _, _ in events)
        for table, before, after in events:
            name = table.partition(".")[2]
            rows = self._tables[name]
            if before is not None and (found := rows.pop(before["id"], None)) != before:
                told = f"{table} {before['id']} as {_short(found)}, not {_short(before)}"
                raise self._wrong("lost", f"{txn_id} at {commit_ts} finds {told}")
            if after is not None:
                if unknown := after.keys() - self._columns.get(name, after.keys()):
                    told = f"{txn_id} at {commit_ts} has {unknown} of {table}, whose DDL is to come"
                    raise self._wrong("out of order", told)
                rows[after["id"]] = after

    def _changed(self, ddl: DdlMessage) -> None:
        """Tables come and go, and rows there are have NULL in a column that is added."""
        self.ddls += 1
        self.early += ddl.early
        for one in ddl.tables:
            if one.after is None:
                self._tables.pop(one.before.name if one.before is not None else "", None)
                continue
            columns = dict.fromkeys(column.name for column in one.after.columns)
            self._columns[one.after.name] = columns.keys()
            rows = self._tables.setdefault(one.after.name, {})
            rows.update({key: columns | row for key, row in rows.items()})

    def look(self) -> None:
        """What the ledger says that is new."""
        for line in self._ledger.read():
            match line:
                case Begun():
                    self._begun[line.id] = line.digest
                case Failed():
                    self._failed.add(line.id)
                    if line.id in self._seen:
                        raise self._wrong("duplicated", f"{line} is in the stream")
                case Acked():
                    self.acked += 1
                    self.last_acked = max(self.last_acked, line.commit_ts)
                    self._owed[line.commit_ts] = line.id
                case _:
                    pass

    def settle(self) -> None:
        """Nothing acked up to where the stream was read is missing."""
        self.look()
        upto = self.position
        for commit_ts in [ts for ts in self._owed if ts <= upto]:
            txn_id = self._owed.pop(commit_ts)
            at = self._seen.get(txn_id)
            if at is None:
                raise self._wrong("lost", f"{txn_id}, acked at {commit_ts}; read up to {upto}")
            if at != commit_ts:
                raise self._wrong("out of order", f"{txn_id} acked at {commit_ts}, is at {at}")

    def _wrong(self, kind: str, what: str) -> Wrong:
        self.counts[kind] += 1
        return Wrong(f"{kind}: {what}")

    def compare(self, database: MariaDb) -> int:
        """Every row downstream is what the stream made of it. Returns how many there are."""
        with closing(connected(database)) as connection, connection.cursor() as cursor:
            for name, wanted in self._tables.items():
                cursor.execute(f"SELECT * FROM {DATABASE}.{name}")
                columns = [column[0] for column in cursor.description]
                rows = [dict(zip(columns, row, strict=True)) for row in cursor.fetchall()]
                found = {row["id"]: row for row in rows}
                for one in wanted.keys() | found.keys():
                    if wanted.get(one) != found.get(one):
                        kind = "lost" if one not in found else "other"
                        told = (
                            f"{name} {one}: {_short(found.get(one))}, not {_short(wanted.get(one))}"
                        )
                        raise self._wrong(kind, told)
        return sum(map(len, self._tables.values()))


def _short(found: object) -> str:
    """Of a large one the beginning says enough."""
    return repr(found)[:500]


def connected(database: MariaDb) -> Any:
    return pymysql.connect(host=database.host, port=database.port, user=database.user)
