"""A process that adds a column downstream and is killed meanwhile: `… PORT COMMIT_TS`."""

from __future__ import annotations

import asyncio
import sys

import msgspec

from tests.adapters.mysql.mysql_rig import ADD_N
from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams.mysql import MysqlDownstream
from tidelog.downstreams.target import Target


async def main(port: str, commit_ts: int) -> None:
    url = f"mysql://root@127.0.0.1:{port}/"
    downstream = MysqlDownstream(Target.parse(url), DownstreamOptions(url=url))
    await downstream.open("feed")
    message = msgspec.structs.replace(ADD_N, commit_ts=commit_ts)
    await downstream.apply_ddl(message, Checkpoint(commit_ts, feed="feed"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
