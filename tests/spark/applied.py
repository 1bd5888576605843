"""What the Applier makes of a relay log, and what a database holds."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pymysql

from tests.servers import MariaDb, free_port
from tests.spark.relay_files import BASE_TS, FEED
from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams import open_downstream
from tidelog.real.disk import RealDisk
from tidelog_applier.apply.epochs import Epochs

Contents = dict[str, list[Any]]


def url(server: MariaDb) -> str:
    return f"mysql://root@{server.host}:{server.port}/"


def clear(server: MariaDb) -> None:
    for name in ("d", "tidb_binlog", "retl"):
        sql(server, f"DROP DATABASE IF EXISTS {name}")


def sql(server: MariaDb, text: str) -> list[Any]:
    with (
        pymysql.connect(
            host=server.host, port=server.port, user="root", charset="utf8mb4", autocommit=True
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(text)
        return list(cursor.fetchall())


def contents(server: MariaDb, db: str = "d") -> Contents:
    """All rows, and how the tables are defined."""
    found: Contents = {}
    for (name,) in sql(server, f"SHOW TABLES FROM {db}"):
        rows = sql(server, f"SELECT * FROM {db}.`{name}`")
        found[name] = [*sql(server, f"SHOW CREATE TABLE {db}.`{name}`"), *sorted(rows, key=repr)]
    return found


def checkpoint(server: MariaDb) -> str:
    ((found,),) = sql(server, "SELECT checkPoint FROM tidb_binlog.checkpoint")
    return str(found)


def apply(server: MariaDb, data_dir: Path, end: int) -> Contents:
    """The Applier's own replay of the relay in its data directory, into an empty server."""
    clear(server)
    asyncio.run(_begun(server, data_dir, end))
    command = [sys.executable, "-m", "tidelog_applier", "--feed", FEED, "--downstream", url(server)]
    command += ["--recover", "true", "--data-dir", str(data_dir)]
    command += ["--nats-url", f"nats://127.0.0.1:{free_port()}"]
    done = subprocess.run(command, capture_output=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return contents(server)


async def _begun(server: MariaDb, data_dir: Path, end: int) -> None:
    """As an Applier leaves it that was killed before its first row."""
    downstream = open_downstream(DownstreamOptions(url=url(server), lanes=1))
    opened = await downstream.open(FEED)
    saved = Checkpoint(BASE_TS, consistent=False, feed=FEED, epoch=opened.epoch, reach=end)
    await downstream.save_checkpoint(saved)
    await Epochs(RealDisk(data_dir), "relay").add(opened.epoch)
    await downstream.close()
