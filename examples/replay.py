"""What was committed since a point in time, up to now; then it ends.

python examples/replay.py nats://127.0.0.1:4222 2026-11-22T10:00:00+00:00
"""

import asyncio
import sys
from datetime import UTC, datetime

import tidelog
from tidelog.timestamps import compose, physical_ms


async def main(nats_url: str, since: datetime) -> None:
    now = compose(int(datetime.now(UTC).timestamp() * 1000))
    async with tidelog.subscribe(nats_url=nats_url, start=since) as changes:
        async for txn in changes.until(now):
            at = datetime.fromtimestamp(physical_ms(txn.commit_ts) / 1000, UTC)
            for ddl in txn.ddls:
                print(at.isoformat(), ddl.query)
            async for part in txn.parts():
                for rows in part:
                    for event in rows.events:
                        print(at.isoformat(), rows.table, event.op, event.after or event.before)


asyncio.run(main(sys.argv[1], datetime.fromisoformat(sys.argv[2])))
