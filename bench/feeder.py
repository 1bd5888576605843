"""Pumps that have all answers ready, in a process of their own: `python -m bench.feeder URL FILE`.

FILE is a `Backlog` in msgpack. A pull is answered with the frame that begins where it asks to go
on; nothing is computed, so that the figure is the Drainer's. Ends when its input ends.
"""

from __future__ import annotations

import asyncio
import sys
from bisect import bisect_right
from pathlib import Path

import msgspec
import nats
import uvloop
from nats.aio.msg import Msg

from tidelog_proto.transport_pb2 import PullFrame, PullRequest


class PumpBacklog(msgspec.Struct):
    """Of one Pump: its pull subject, its frames, and up to where each has everything."""

    subject: str
    resolved: list[int]
    frames: list[bytes]


class Backlog(msgspec.Struct):
    pumps: list[PumpBacklog]


def answer(pump: PumpBacklog, data: bytes) -> bytes | None:
    """To a pull; None: nothing more comes, it may wait."""
    asked = PullRequest.FromString(data)
    at = bisect_right(pump.resolved, asked.after_ts)
    if at == len(pump.frames):
        return None
    if not asked.max_bytes:
        return PullFrame(resolved_ts=pump.resolved[at - 1] if at else 0).SerializeToString()
    return pump.frames[at]


async def main(url: str, backlog: Backlog) -> None:
    client = await nats.connect(url)
    for pump in backlog.pumps:

        async def serve(message: Msg, pump: PumpBacklog = pump) -> None:
            found = answer(pump, message.data)
            if found is not None:
                await client.publish(message.reply, found)

        await client.subscribe(pump.subject, cb=serve)
    await client.flush()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await client.close()


if __name__ == "__main__":
    prebuilt = msgspec.msgpack.decode(Path(sys.argv[2]).read_bytes(), type=Backlog)
    uvloop.run(main(sys.argv[1], prebuilt))
