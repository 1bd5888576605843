"""The load of the kill rig, a process that may be killed itself: `python -m tests.kills.writer`.

It writes by `tidelog.connect`, as an application does: small transactions, and now and then one of
rows that are larger than a message each, more than one batch takes; and of many a row goes into a
table that is altered meanwhile, with its new column at once. What it begins and what was
acked to it stands in its ledger: a line of each is on the disk before it counts. Killed, the next
life goes on with names of its own; what was under way is in the stream or isn't, and never twice.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from tests.kills.ledger import Acked, Begun, Event, Failed, LedgerFile, digest
from tidelog import connect, failpoints
from tidelog.errors import TidelogError, Unavailable
from tidelog.pump_client.ddl.errors import DdlRefused
from tidelog.pump_client.errors import CommitUnknown
from tidelog.pump_client.tables.errors import NoSuchColumn
from tidelog.pump_client.transaction import Transaction
from tidelog.pump_client.writer import Writer

DATABASE = "shop"
LOG, ITEM, BLOB = f"{DATABASE}.log", f"{DATABASE}.item", f"{DATABASE}.blob"
TABLES = (
    f"CREATE DATABASE {DATABASE}",
    f"CREATE TABLE {LOG} (id BIGINT PRIMARY KEY, client INT)",
    f"CREATE TABLE {ITEM} (id BIGINT PRIMARY KEY, txn BIGINT, body VARCHAR(200))",
    f"CREATE TABLE {BLOB} (id BIGINT PRIMARY KEY, txn BIGINT, body MEDIUMTEXT)",
)
CLIENTS = 128
ROWS = 60
"""A client's items at most; beyond that it deletes."""
LARGE = 0
"""The client whose transactions are large."""
LARGE_PACE, LARGE_ROWS, LARGE_BODY = 5, 3, range(300_000, 400_000)
"""It waits so many times longer, has so many rows at most, of so many characters: each row is more
than a message (MESSAGE_BYTES), and than a Drainer of the town appends at once."""
DDL_S = 3.0
"""Between two changes of the schema."""
ALTERED, KEPT = 2, 4
"""Each so many clients also write into the table that is altered now; so many of these stay."""
RETRY_S = 0.2
LIFE_BITS = 40
"""A transaction's id: the life's number above these, then its own."""


class Load:
    def __init__(self, writer: Writer, ledger: LedgerFile, life: int, rate: int, seed: int) -> None:
        self._writer = writer
        self._ledger = ledger
        self._life = life
        self._next = life << LIFE_BITS
        self._pace_s = CLIENTS / rate
        self._seed = seed
        self._altered = ""
        """The table that is altered now, or was last."""
        self.stop = asyncio.Event()

    async def run(self) -> None:
        """Until `stop`, with all that was begun ended."""
        async with asyncio.TaskGroup() as group:
            for number in range(CLIENTS):
                group.create_task(self._client(number))
            ddls = group.create_task(self._change_schema())
            await self.stop.wait()
            ddls.cancel()

    async def _client(self, number: int) -> None:
        """What an outage holds up is made up for, a second of it at most at once."""
        rng = random.Random(f"{self._seed}/{self._life}/{number}")
        loop = asyncio.get_running_loop()
        items: list[dict[str, Any]] = []
        pace_s = self._pace_s * (LARGE_PACE if number == LARGE else 1)
        due = loop.time() + rng.random() * pace_s
        while not self.stop.is_set():
            await asyncio.sleep(max(0.0, due - loop.time()))
            due = max(due + pace_s * (0.5 + rng.random()), loop.time() - 5.0)
            await self._transaction(rng, number, items)

    async def _transaction(
        self, rng: random.Random, client: int, items: list[dict[str, Any]]
    ) -> None:
        self._next += 1
        txn_id = self._next
        events = _drawn(rng, txn_id, client, items)
        try:
            async with self._writer.transaction() as txn:
                also = self._into_altered(txn, txn_id) if client % ALTERED == 0 else []
                self._ledger.write(Begun(txn_id, digest(events + also)))
                for table, before, after in events:
                    if before is None and after is not None:
                        txn.insert(table, after)
                    elif before is not None and after is not None:
                        txn.update(table, before, after)
                    elif before is not None:
                        txn.delete(table, before)
        except CommitUnknown:
            items.clear()  # what became of them nobody here knows
            return
        except TidelogError as error:
            self._ledger.write(Failed(txn_id, type(error).__name__))  # rolled back, for certain
            await asyncio.sleep(RETRY_S * rng.random())
            return
        for _, before, after in events[1:]:
            if before is not None:
                items.remove(before)
            if after is not None:
                items.append(after)
        await self._ledger.durable(Acked(txn_id, txn.commit_ts))

    def _into_altered(self, txn: Transaction, txn_id: int) -> list[Event]:
        """With the new column as soon as it is known: before its DDL is in the stream."""
        if not self._altered:
            return []
        row = {"id": txn_id, "n": txn_id & 0xFFFF}
        try:
            txn.insert(self._altered, row)
        except NoSuchColumn:
            row = {"id": txn_id}
            txn.insert(self._altered, row)
        return [(self._altered, None, row)]

    async def _change_schema(self) -> None:
        """Tables that come, are altered, and go. The first is altered while rows come; of the next
        the change is left half done, and rows come some time later."""
        rng = random.Random(f"{self._seed}/{self._life}/schema")
        for number in itertools.count():
            table = f"{DATABASE}.d{self._life}_{number}"
            alter = f"ALTER TABLE {table} ADD COLUMN n INT"
            await asyncio.sleep(DDL_S / 2)
            try:
                await self._writer.ddl(f"CREATE TABLE {table} (id BIGINT PRIMARY KEY)")
                if number % 2:
                    await self._leave_half_done(alter)
                    await asyncio.sleep(DDL_S * rng.random())
                    self._altered = table
                    continue
                self._altered = table
                await self._writer.ddl(alter)
                for old in (number - KEPT, number - KEPT - 1):
                    await self._writer.ddl(f"DROP TABLE IF EXISTS {DATABASE}.d{self._life}_{old}")
            except TidelogError:
                continue  # the next table's turn: this one's is told by the next life

    async def _leave_half_done(self, query: str) -> None:
        """Transactions see it, and no reader is told: that is done by whatever comes next."""
        schema = self._writer._upstream.catalog
        before = (await schema()).version
        changing = asyncio.ensure_future(self._writer.ddl(query))
        try:
            while not changing.done() and (await schema()).version == before:
                pass
        finally:
            changing.cancel()
            await asyncio.wait([changing])


def _drawn(
    rng: random.Random, txn_id: int, client: int, items: list[dict[str, Any]]
) -> list[Event]:
    """The row that names the transaction, and changes of one to three others."""
    table, most = (BLOB, LARGE_ROWS) if client == LARGE else (ITEM, ROWS)
    events: list[Event] = [(LOG, None, {"id": txn_id, "client": client})]
    chosen = rng.sample(items, min(len(items), rng.randint(0, 2)))
    for before in chosen:
        gone = len(items) > most or rng.random() < 0.2
        after = {**before, "txn": txn_id, "body": _body(rng, client)}
        events.append((table, before, None if gone else after))
    if len(chosen) < 2:
        row = {"id": txn_id, "txn": txn_id, "body": _body(rng, client)}
        events.append((table, None, row))
    return events


def _body(rng: random.Random, client: int) -> str:
    length = rng.choice(LARGE_BODY) if client == LARGE else rng.randint(0, 200)
    return rng.choice("abcdeö汉") * length


async def prepare(writer: Writer) -> None:
    """The tables, in the first life that comes so far; a later one finds them."""
    for query in TABLES:
        while True:
            try:
                await writer.ddl(query)
                break
            except DdlRefused:
                break  # it is there
            except Unavailable:
                await asyncio.sleep(RETRY_S)


async def _live(options: argparse.Namespace) -> None:
    directory = Path(options.data_dir)
    ledger = LedgerFile(directory / "ledger")
    state = directory / "state"
    async with connect(options.nats_url, state_dir=state, timeout_s=None) as writer:
        await prepare(writer)
        load = Load(writer, ledger, ledger.begin_life(), options.rate, options.seed)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, load.stop.set)
        syncing = asyncio.ensure_future(ledger.keep())
        await load.run()
        syncing.cancel()
        ledger.close()
        await writer.flush(60.0)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--nats-url", required=True)
    parser.add_argument("--rate", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    failpoints.arm_from_text(os.environ.get("TIDELOG_FAILPOINTS", ""))
    asyncio.run(_live(parser.parse_args(argv)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
