"""A cache of rows that forgets what changed, a moment after it was committed.

    python examples/cache_invalidation.py nats://127.0.0.1:4222

It reads rows as they come (transactional=False): to forget a row too early, or twice, does no harm.
The table is shop.item of docs/writing.md.
"""

import asyncio
import sys
from typing import Any

import tidelog
from tidelog.changes import RowMessage
from tidelog.errors import Purged
from tidelog.feed_reader import Gap

cache: dict[int, dict[str, Any]] = {}


async def main(nats_url: str) -> None:
    while True:
        try:
            async with tidelog.subscribe(
                "main", nats_url=nats_url, tables=["shop.item"], start="now", transactional=False
            ) as changes:
                cache.clear()  # what was cached before "now" may have changed unseen
                print("ready", flush=True)
                async for change in changes:
                    if not isinstance(change, RowMessage):  # a DDL: TRUNCATE tells of no rows
                        cache.clear()
                        print("forget everything:", type(change).__name__, flush=True)
                        continue
                    for event in change.events:
                        key = (event.key or {})["id"]
                        cache.pop(key, None)
                        print("forget", key, flush=True)
        except (Gap, Purged) as error:  # away for longer than anybody keeps
            print("forget everything:", error, flush=True)


asyncio.run(main(sys.argv[1]))
