"""`python -m tidelog_applier` on real servers: killed while it writes, stopped, misconfigured."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests import processes
from tests.servers import MariaDb, mariadb_server, nats_server
from tests.unit.applier.publisher import EARLY_ID, FEED, Publisher, create
from tidelog.changes import Event
from tidelog.errors import EXIT_CONFIG
from tidelog.real.bus import NatsBus

TXNS = 400
DEADLINE_S = 40.0


@contextmanager
def applier(
    directory: Path, nats_url: str, downstream: str, failpoint: str = "", flags: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "tidelog_applier", "--feed", FEED, "--nats-url", nats_url]
    command += ["--data-dir", str(directory / "data"), "--txn-batch", "20", *flags]
    environ = os.environ | {"TIDELOG_APPLIER_DOWNSTREAM": downstream}
    environ["TIDELOG_FAILPOINTS"] = failpoint
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


def execute(server: MariaDb, sql: str) -> None:
    connection = pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(sql)


def wait_for(done: Callable[[], bool], log: Path) -> None:
    processes.until(done, lambda: log.read_text()[-3000:], DEADLINE_S)


def until(server: MariaDb, sql: str, least: int, log: Path) -> None:
    wait_for(lambda: count(server, sql) >= least, log)


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


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("early")) as server:
        yield server


def read(place: Path | MariaDb, called: str) -> list[Any]:
    """The rows of a table of schema `d`; none while it is not there."""
    if isinstance(place, Path):
        with closing(sqlite3.connect(place)) as file:
            try:
                return file.execute(f'SELECT * FROM "d.{called}" ORDER BY 1').fetchall()
            except sqlite3.OperationalError:
                return []
    connection = pymysql.connect(host=place.host, port=place.port, user="root", autocommit=True)
    with closing(connection), connection.cursor() as cursor:
        try:
            cursor.execute(f"SELECT * FROM d.{called} ORDER BY 1")
        except pymysql.err.ProgrammingError:
            return []
        return list(cursor.fetchall())


@pytest.mark.parametrize(
    ("kind", "failpoint"),
    [
        ("sqlite", "applier.early.run=kill@1"),
        ("sqlite", "applier.early.run=kill@2"),
        ("mariadb", "applier.early.run=kill@1"),
        ("mariadb", "applier.early.run=kill@2"),
        ("mariadb", "applier.ddl.recorded=kill@4"),
        ("mariadb", "applier.ddl.run=kill@5"),
    ],
)
def test_early_ddls_once_and_their_rows_over_a_kill(
    tmp_path: Path, request: pytest.FixtureRequest, kind: str, failpoint: str
) -> None:
    """A column is added and the table emptied, early, then comes a row. Adding it again would be
    refused, emptying it again would lose the row. The same DDLs come once more at the end."""
    place: Path | MariaDb = tmp_path / "copy.db"
    url = f"sqlite:///{place}"
    if kind == "mariadb":
        place = server = request.getfixturevalue("servers")
        for schema in ("d", "tidb_binlog"):
            execute(server, f"DROP DATABASE IF EXISTS {schema}")
        url = f"mysql://root@{server.host}:{server.port}/"

    async def scenario(nats_url: str) -> None:
        bus = await NatsBus.connect(nats_url)
        publisher = Publisher(bus)
        await publisher.begin()
        await fill(publisher, range(3))
        await publisher.early()
        with applier(tmp_path, nats_url, url, failpoint) as process:
            assert process.wait(DEADLINE_S) == -signal.SIGKILL
        await publisher.early(again=True)
        await publisher.rows(bag=[Event("c", 0, None, None, {"v": 99})])
        with applier(tmp_path, nats_url, url) as process:
            wait_for(lambda: len(read(place, "bag")) == 4, tmp_path / "applier.log")
            assert process.poll() is None
        await bus.close()
        assert read(place, "t") == [(EARLY_ID, 1, 2)]

    with nats_server(tmp_path / "nats") as nats:
        asyncio.run(scenario(nats.url))


@pytest.mark.parametrize("downstream", ["", "oracle://x/", "sqlite:////nowhere/at/all.db"])
def test_a_wrong_downstream_ends_with_the_code_of_a_wrong_configuration(
    downstream: str, tmp_path: Path
) -> None:
    with (
        nats_server(tmp_path / "nats") as nats,
        applier(tmp_path, nats.url, downstream) as process,
    ):
        assert process.wait(DEADLINE_S) == EXIT_CONFIG, (tmp_path / "applier.log").read_text()
