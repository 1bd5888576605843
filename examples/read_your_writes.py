"""Write, then read it from a view that follows the feed: wait for the watermark in between.

python examples/read_your_writes.py nats://127.0.0.1:4222

The table is shop.item of docs/writing.md.
"""

import asyncio
import sys
from typing import Any

import tidelog

EMPTIED = ("truncate_table", "drop_table", "drop_schema")  # kinds of DDLs that tell of no rows
view: dict[int, dict[str, Any]] = {}


async def follow(changes: tidelog.Subscription[Any]) -> None:
    async for txn in changes:
        if any(ddl.kind in EMPTIED for ddl in txn.ddls):
            view.clear()
        for event in (event for rows in txn.rows for event in rows.events):
            view.pop((event.key or {})["id"], None)
            if event.after:
                view[event.after["id"]] = event.after


async def main(nats_url: str) -> None:
    async with (
        tidelog.subscribe(nats_url=nats_url, tables=["shop.item"], start="now") as changes,
        tidelog.connect(nats_url) as client,
        asyncio.TaskGroup() as group,
    ):
        following = group.create_task(follow(changes))
        for quantity in range(1, 6):
            pen = {"id": 1000 + quantity, "name": "pen", "quantity": quantity}
            async with client.transaction() as txn:
                txn.insert("shop.item", pen)
            await changes.reached(txn.commit_ts, timeout_s=60)  # from here on the view has it
            print(view[1000 + quantity], flush=True)
        following.cancel()


asyncio.run(main(sys.argv[1]))
