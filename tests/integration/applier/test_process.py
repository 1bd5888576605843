"""`python -m tidelog_applier` on real servers: killed while it writes, stopped, misconfigured."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.servers import MariaDb, mariadb_server, nats_server
from tests.unit.applier.publisher import FEED, Publisher, create
from tidelog.changes import Event
from tidelog.errors import EXIT_CONFIG
from tidelog.real.bus import NatsBus

TXNS = 400
DEADLINE_S = 40.0


@contextmanager
def applier(directory: Path, nats_url: str, downstream: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tidelog_applier", "--feed", FEED, "--nats-url", nats_url]
    command += ["--data-dir", str(directory / "data"), "--group-rows", "20"]
    environ = os.environ | {"TIDELOG_APPLIER_DOWNSTREAM": downstream}
    with (directory / "applier.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def count(server: MariaDb, sql: str) -> Any:
    """The first cell; 0 while the table is not there."""
    connection = pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True)
    try:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            row = cursor.fetchone()
            return row[0] if row else 0
    except pymysql.err.ProgrammingError:
        return 0
    finally:
        connection.close()


async def fill(publisher: Publisher, numbers: range) -> None:
    for number in numbers:
        added = Event("c", 0, None, None, {"v": number})
        await publisher.rows(t=[create(number, number)], bag=[added])


def until(server: MariaDb, sql: str, least: int, log: Path) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while count(server, sql) < least:
        assert time.monotonic() < deadline, f"{sql} stays below {least}: {log.read_text()[-3000:]}"
        time.sleep(0.02)


def test_every_row_once_over_kill_9_and_a_clean_stop(tmp_path: Path) -> None:
    async def scenario(nats_url: str, server: MariaDb) -> None:
        bus = await NatsBus.connect(nats_url)
        publisher = Publisher(bus)
        await publisher.begin()
        url, log = f"mysql://root@{server.host}:{server.port}/", tmp_path / "applier.log"
        bag = "SELECT COUNT(*) FROM d.bag"
        with applier(tmp_path, nats_url, url) as process:
            await fill(publisher, range(TXNS // 2))
            until(server, bag, 1, log)
            process.kill()
            process.wait()
            await fill(publisher, range(TXNS // 2, TXNS))
        with applier(tmp_path, nats_url, url) as process:
            until(server, bag, TXNS, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0, log.read_text()[-3000:]
        await bus.close()
        # Without a key, a row applied twice would be there twice.
        assert count(server, bag) == count(server, "SELECT COUNT(*) FROM d.t") == TXNS
        saved = count(server, "SELECT checkPoint FROM tidb_binlog.checkpoint")
        assert '"consistent":true' in str(saved)

    with nats_server(tmp_path / "nats") as nats, mariadb_server(tmp_path) as server:
        asyncio.run(scenario(nats.url, server))


@pytest.mark.parametrize("downstream", ["", "oracle://x/", "sqlite:////nowhere/at/all.db"])
def test_a_wrong_downstream_ends_with_the_code_of_a_wrong_configuration(
    downstream: str, tmp_path: Path
) -> None:
    with (
        nats_server(tmp_path / "nats") as nats,
        applier(tmp_path, nats.url, downstream) as process,
    ):
        assert process.wait(DEADLINE_S) == EXIT_CONFIG, (tmp_path / "applier.log").read_text()
