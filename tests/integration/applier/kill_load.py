"""The kill rig's changes, published as a Drainer leaves them in the stream: rows of tables that
are each hard in their way, DDLs between them, and now and then a transaction that is too large for
memory."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tests.integration.applier.kill_history import History, Row
from tests.unit.applier.publisher import FEED
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog import changes, subjects
from tidelog.changes import Event, MarkedTxn, Marker, RowMessage
from tidelog.kv import Bucket
from tidelog.ports import Bus, Outgoing, StreamConfig
from tidelog.schema.structure import KeyPart, KeyStructure, TableStructure

DB = "d"
MOST_BEHIND = 3000
"""Transactions above the checkpoint, at most: the load waits for a slow machine."""
BATCH = 12
"""Transactions of one batch, at most."""
LARGE_ROWS, LARGE_TEXT = 600, 16_000
"""More than the Applier keeps of a batch in memory."""
MESSAGE_ROWS = 14
DDLS = 0.01

_ID, _V = column("id", "bigint(20)", nullable=False), column("v", "bigint(20)")
_UNIQUE = (
    KeyStructure("a", (KeyPart("a"),), unique=True),
    KeyStructure("b", (KeyPart("b"),), unique=True),
)
PLAIN = table("plain", _ID, _V, key=("id",), number=11)
UNIQUES = table(
    "uniques",
    _ID,
    column("a", "bigint(20)", nullable=False),
    column("b", "bigint(20)"),
    key=("id",),
    keys=_UNIQUE,
    number=12,
)
COARSE = table(
    "coarse",
    column("k", "varchar(20)", nullable=False, collation="utf8mb4_general_ci"),
    _V,
    key=("k",),
    number=13,
)
BAG = table("bag", _V, number=14)
OWN = table("own", _ID, _V, key=("id",), number=15)
LARGE = table("large", _ID, column("v", "mediumtext"), key=("id",), number=16)
TABLES = (PLAIN, UNIQUES, COARSE, BAG, OWN, LARGE)


def first(row: Row) -> Any:
    return row[0]


def folded(row: Row) -> str:
    return str(row[0]).lower()


@dataclass
class Live:
    """A table as its writers see it: rows by key, in the columns' order."""

    structure: TableStructure
    history: History
    rows: dict[Any, Row] = field(default_factory=dict)
    bag: list[Row] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return [one.name for one in self.structure.columns]

    def image(self, row: Row | None) -> dict[str, Any] | None:
        return None if row is None else dict(zip(self.columns, row, strict=True))


class Load:
    """`rate` transactions a second, until stopped."""

    def __init__(self, bus: Bus, *, seed: int, rate: int) -> None:
        self._bus = bus
        self._rng = random.Random(seed)
        self._rate = rate
        self._stop = asyncio.Event()
        self._bucket = Bucket(bus, subjects.schemas_bucket(FEED))
        self._stream = subjects.changes_stream(FEED)
        keys = {"coarse": folded, "bag": None}
        self.tables = {
            one.name: Live(one, History(one.name, keys.get(one.name, first), len(one.keys) > 1))
            for one in TABLES
        }
        self.commit_ts = self.transactions = self.ddls = self.large = 0
        self._prev = 0
        self._ask_large = False
        self._next = 0
        self.behind: Callable[[], int] = lambda: 0

    @property
    def histories(self) -> list[History]:
        return [live.history for live in self.tables.values()]

    def stop(self) -> None:
        self._stop.set()

    def write_large(self) -> None:
        """The next transaction is a large one."""
        self._ask_large = True

    async def prepare(self) -> None:
        await self._bus.stream_create(StreamConfig(self._stream, (f"changes.{FEED}.>",)))
        await self._bucket.create()
        for one in TABLES:
            await self._define(one)
            await self._ddl("create_table", None, one)

    async def _define(self, structure: TableStructure) -> None:
        key = changes.schema_key(DB, structure.name, structure.version)
        await self._bucket.put(key, msgspec.json.encode(structure))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self._stop.is_set():
            count = self._rng.randint(1, BATCH)
            due = max(due, loop.time() - 1) + count / self._rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            if self.behind() > MOST_BEHIND:
                continue
            if self._ask_large:
                self._ask_large = False
                await self._write_large()
            elif self._rng.random() < DDLS * count:
                await self._widen()
            else:
                await self._write(count)

    # Changes

    async def _write(self, count: int) -> None:
        events: dict[str, list[Event]] = defaultdict(list)
        txns = []
        for _ in range(count):
            self.commit_ts += 1
            rows = 0
            for _ in range(self._rng.randint(1, 6)):
                name = self._rng.choice(("plain", "plain", "uniques", "coarse", "bag", "own"))
                rows += self._change(name, events[name])
            txns.append(MarkedTxn(self.commit_ts, self.commit_ts, rows))
        await self._publish(txns, {name: found for name, found in events.items() if found})

    def _change(self, name: str, events: list[Event]) -> int:
        live, rng = self.tables[name], self._rng
        if name == "bag":
            return self._in_bag(live, events)
        op = rng.choice("cuuud") if live.rows else "c"
        before = None if op == "c" else live.rows[rng.choice(list(live.rows))]
        after = None if op == "d" else self._drawn(live, before)
        if name == "uniques" and op == "u" and rng.random() < 0.5:
            return self._swap(live, events)
        return self._take(live, events, before, after)

    def _drawn(self, live: Live, before: Row | None) -> Row | None:
        """None if there is such a row already."""
        rng, name = self._rng, live.structure.name
        value = rng.randrange(1 << 40)
        if name == "coarse":
            key = f"{rng.choice('aAéÉb')}{rng.randrange(60)}"
            if before is not None and rng.random() < 0.7:
                key = str(before[0]).swapcase()
            row: Row = (key, value)
        elif name == "uniques":
            number = rng.randrange(1 << 40)
            unique = rng.choice((None, number))
            row = (before[0] if before is not None else rng.randrange(80), number, unique)
        else:
            same = before is not None and rng.random() < 0.8
            number = before[0] if same and before is not None else rng.randrange(300)
            row = (number, value, *(rng.randrange(100) for _ in live.columns[2:]))
        assert live.history.key is not None
        key = live.history.key(row)
        taken = key in live.rows and (before is None or key != live.history.key(before))
        return None if taken else row

    def _take(self, live: Live, events: list[Event], before: Row | None, after: Row | None) -> int:
        if before is None and after is None:
            return 0
        key = live.history.key
        assert key is not None
        if before is not None:
            del live.rows[key(before)]
        if after is not None:
            live.rows[key(after)] = after
        self._event(live, events, before, after)
        return 1

    def _swap(self, live: Live, events: list[Event]) -> int:
        """Two rows exchange their unique values, by way of a third: what one lane has and another
        wants."""
        if len(live.rows) < 2:
            return 0
        one, other = (live.rows[key] for key in self._rng.sample(list(live.rows), 2))
        spare = (one[0], self._rng.randrange(1 << 40), None)
        return (
            self._take(live, events, one, spare)
            + self._take(live, events, other, (other[0], one[1], one[2]))
            + self._take(live, events, spare, (one[0], other[1], other[2]))
        )

    def _in_bag(self, live: Live, events: list[Event]) -> int:
        """Few values, so that rows are alike."""
        rng = self._rng
        op = rng.choice("ccud") if live.bag else "c"
        before = None if op == "c" else live.bag.pop(rng.randrange(len(live.bag)))
        after: Row | None = None if op == "d" else (rng.choice((None, *range(20))),)
        if after is not None:
            live.bag.append(after)
        self._event(live, events, before, after)
        return 1

    def _event(
        self, live: Live, events: list[Event], before: Row | None, after: Row | None
    ) -> None:
        op = "c" if before is None else "d" if after is None else "u"
        live.history.add(self.commit_ts, before, after)
        key_columns = live.structure.key_columns
        image = live.image(before if before is not None else after) or {}
        key = {name: image[name] for name in key_columns} or None
        events.append(Event(op, self.commit_ts, key, live.image(before), live.image(after)))

    async def _write_large(self) -> None:
        self.commit_ts += 1
        live, events = self.tables["large"], list[Event]()
        rows = 0
        for _ in range(LARGE_ROWS):
            self._next += 1
            text = self._rng.choice("abcö") * LARGE_TEXT
            rows += self._take(live, events, None, (self._next, text))
        for key in list(live.rows)[: max(0, len(live.rows) - LARGE_ROWS)]:
            rows += self._take(live, events, live.rows[key], None)
        await self._publish([MarkedTxn(self.commit_ts, self.commit_ts, rows)], {"large": events})
        self.large += 1

    # DDL

    async def _widen(self) -> None:
        """A column more; a table that has many gets rid of them."""
        live = self.tables["own"]
        before = live.structure
        columns = before.columns
        if len(columns) > 8:
            after = msgspec.structs.replace(before, columns=columns[:2], version=before.version + 1)
            kind, fill = "drop_columns", None
        else:
            number = before.version + 100
            added = column(f"c{number}", "int(11)", id=number, default="7", origin_default="7")
            after = msgspec.structs.replace(
                before, columns=(*columns, added), version=before.version + 1
            )
            kind, fill = "add_column", 7
        await self._define(after)
        live.structure = after
        for key, row in live.rows.items():
            changed = row[:2] if fill is None else (*row, fill)
            live.rows[key] = changed
            live.history.add(self.commit_ts + 1, row, changed)
        await self._ddl(kind, before, after)
        self.ddls += 1

    async def _ddl(
        self, kind: str, before: TableStructure | None, after: TableStructure | None
    ) -> None:
        self.commit_ts += 1
        message = msgspec.structs.replace(
            ddl(kind, (before, after)), commit_ts=self.commit_ts, schema_version=self.commit_ts
        )
        body = Outgoing(subjects.changes_ddl(FEED, DB, "t"), msgspec.json.encode(message))
        await self._append([body], [MarkedTxn(self.commit_ts, self.commit_ts, 0)])

    # The stream

    async def _publish(self, txns: list[MarkedTxn], events: dict[str, list[Event]]) -> None:
        bodies = []
        for name, found in events.items():
            version = self.tables[name].structure.version
            step = MESSAGE_ROWS if name == "large" else len(found)
            for at in range(0, len(found), step):
                body = RowMessage(DB, name, version, found[at : at + step])
                subject = subjects.changes_row(FEED, DB, name)
                bodies.append(Outgoing(subject, msgspec.json.encode(body)))
        await self._append(bodies, txns)

    async def _append(self, bodies: list[Outgoing], txns: list[MarkedTxn]) -> None:
        last = txns[-1].commit_ts
        attempt = f"a{last}"
        messages = [
            msgspec.structs.replace(
                one, headers={changes.H_ATTEMPT: attempt, changes.H_INDEX: str(index)}
            )
            for index, one in enumerate(bodies)
        ]
        marker = Marker(attempt, len(messages), self._prev, txns)
        headers = {changes.H_LAST_TS: str(last), changes.H_ATTEMPT: attempt}
        subject = subjects.changes_txn(FEED)
        messages.append(Outgoing(subject, msgspec.json.encode(marker), headers))
        await self._bus.append(self._stream, messages)
        self._prev = last
        self.transactions += len(txns)
