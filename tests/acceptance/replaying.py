"""A recorded set through a running topology, with things done to it on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from tests.fixtures.capture import Set, records
from tests.topology import Running
from tidelog_cli.capture import Replayed, Replayer


def replay(
    running: Running, which: Set, disturb: Mapping[int, Callable[[], None]] | None = None
) -> Replayed:
    """Send the set in its order over gRPC, each record after the ack of the one before, a Commit or
    Rollback to the Pump of its Prewrite. `disturb`: before the n-th record, do this."""
    recorded = records(which)

    async def send() -> Replayed:
        pumps = [pump["grpc"] for pump in running.ready["pumps"]]
        async with Replayer(pumps, recorded[0].cluster_id) as replayer:
            for number, record in enumerate(recorded):
                if disturb and number in disturb:
                    await asyncio.to_thread(disturb[number])
                await replayer.send(record.payload)
        return replayer.result()

    return asyncio.run(send())


def last_commit_ts(which: Set) -> int:
    """The largest commit_ts of a set."""
    from tests.fixtures.capture import pulled

    return max(b.commit_ts for b in pulled(which) if b.commit_ts != b.start_ts)
