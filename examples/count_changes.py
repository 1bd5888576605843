"""How many rows of each table were created, updated and deleted: counted exactly once, in SQLite.

    python examples/count_changes.py nats://127.0.0.1:4222 counts.db [NKEY]

It tells it every 5 s, and goes on where it was after any restart, its own included. It is the
example that runs in a container of its own in docker-compose.yml.
"""

import asyncio
import json
import sqlite3
import sys

import tidelog

NAMES = {"c": "created", "r": "created", "u": "updated", "d": "deleted"}
TABLE = "CREATE TABLE IF NOT EXISTS changes (place, what, rows, PRIMARY KEY (place, what))"
ADD = "INSERT INTO changes VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET rows = rows + 1"


def say(db: sqlite3.Connection, commit_ts: int) -> None:
    kinds = dict(db.execute("SELECT what, sum(rows) FROM changes GROUP BY what"))
    print(json.dumps({"commit_ts": commit_ts, "rows": sum(kinds.values()), **kinds}), flush=True)


async def main(url: str, path: str, key: str = "") -> None:
    db = sqlite3.connect(path)
    db.execute(TABLE)
    done, said = tidelog.TablePosition(db, "main"), 0.0
    loop = asyncio.get_running_loop()
    async with tidelog.subscribe(
        nats_url=url, nats_nkey_file=key, start=done.load() or "beginning", timeout_s=None
    ) as changes:
        async for txn in changes:
            with db:  # the position and the counts can't come apart
                if done.advance(txn.position):
                    async for part in txn.parts():
                        events = ((rows, event) for rows in part for event in rows.events)
                        db.executemany(ADD, [(f"{r.db}.{r.table}", NAMES[e.op]) for r, e in events])
            if loop.time() - said > 5:
                said = loop.time()
                say(db, txn.commit_ts)


asyncio.run(main(*sys.argv[1:]))
