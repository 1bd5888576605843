"""How many there are of each name in shop.item (docs/writing.md), in SQLite: each counted once.

    python examples/projection.py nats://127.0.0.1:4222 stock.db

The position is written in the transaction that writes the counts: they can't come apart.
"""

import asyncio
import sqlite3
import sys

import tidelog
from tidelog.changes import Event

EMPTIED = ("truncate_table", "drop_table", "drop_schema")  # kinds of DDLs that tell of no rows
ADD = (
    "INSERT INTO stock (name, quantity) VALUES (?, ?)"
    " ON CONFLICT (name) DO UPDATE SET quantity = quantity + excluded.quantity"
)


def count(db: sqlite3.Connection, event: Event) -> None:
    if event.before:
        db.execute(ADD, (event.before["name"], -event.before["quantity"]))
    if event.after:
        db.execute(ADD, (event.after["name"], event.after["quantity"]))


async def main(nats_url: str, path: str) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE IF NOT EXISTS stock (name TEXT PRIMARY KEY, quantity INTEGER)")
    done = tidelog.TablePosition(db, "main", name="stock")
    start = done.load() or "beginning"
    async with tidelog.subscribe(nats_url=nats_url, tables=["shop.item"], start=start) as changes:
        async for txn in changes:
            with db:  # one transaction here for each one there
                if done.advance(txn.position):
                    if any(ddl.kind in EMPTIED for ddl in txn.ddls):
                        db.execute("DELETE FROM stock")
                    async for part in txn.parts():
                        for event in (event for rows in part for event in rows.events):
                            count(db, event)


asyncio.run(main(sys.argv[1], sys.argv[2]))
