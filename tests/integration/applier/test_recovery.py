"""The Applier alone, its upstream gone: the relay log brings the downstream to a whole state."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pymysql
import pytest

from tests.integration.applier.test_process import count, fill, until
from tests.servers import MariaDb, free_port, mariadb_server, nats_server
from tests.unit.applier.publisher import FEED, Publisher
from tidelog.errors import EXIT_RESTART
from tidelog.real.bus import NatsBus

TXNS = 2000
DEADLINE_S = 60.0


def command(directory: Path, nats_url: str, server: MariaDb, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "tidelog_applier", "--feed", FEED, "--nats-url", nats_url),
        *("--data-dir", str(directory / "data"), "--txn-batch", "4", "--recover-after-s", "1"),
        *("--downstream", f"mysql://root@{server.host}:{server.port}/", *more),
    ]


def alone(directory: Path, server: MariaDb, *more: str) -> subprocess.CompletedProcess[str]:
    """With nobody at the other end of its NATS address."""
    nowhere = f"nats://127.0.0.1:{free_port()}"
    return subprocess.run(
        command(directory, nowhere, server, *more),
        env=os.environ | {"TIDELOG_LOG_FORMAT": "json"},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )


def checkpoint(server: MariaDb) -> dict[str, Any]:
    connection = pymysql.connect(host=server.host, port=server.port, user="root")
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT checkPoint FROM tidb_binlog.checkpoint")
        (text,) = cursor.fetchone() or ("{}",)
    found: dict[str, Any] = msgspec.json.decode(text)
    return found


async def publish(nats_url: str, numbers: range) -> None:
    bus = await NatsBus.connect(nats_url)
    publisher = Publisher(bus)
    if numbers.start:
        publisher.commit_ts = 2 + numbers.start  # behind the tables and the rows before
    else:
        await publisher.begin()
    await fill(publisher, numbers)
    await bus.close()


def killed_while_applying(directory: Path, server: MariaDb) -> None:
    """An Applier with a relay, and then its upstream."""
    log = directory / "applier.log"
    with nats_server(directory / "nats") as nats:
        asyncio.run(publish(nats.url, range(TXNS)))
        with log.open("ab") as out:
            process = subprocess.Popen(command(directory, nats.url, server), stdout=out, stderr=out)
        try:
            until(server, "SELECT COUNT(*) FROM d.bag", 20, log)
        finally:
            process.kill()
            process.wait()


def interrupted(server: MariaDb, path: str = "$.consistent", value: str = "false") -> None:
    """As if it had been killed between two lanes; perhaps it had caught up."""
    connection = pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE tidb_binlog.checkpoint"
            f" SET checkPoint = JSON_SET(checkPoint, '{path}', {value})"
        )


@pytest.mark.parametrize("more", [("--recover", "true"), pytest.param((), marks=pytest.mark.full)])
def test_what_the_relay_holds_is_applied_whole_without_an_upstream(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    with mariadb_server(tmp_path) as server:
        killed_while_applying(tmp_path, server)
        done = alone(tmp_path, server, *more)
        assert done.returncode == 0, done.stderr
        saved = checkpoint(server)
        assert saved["consistent"] is True
        # Two CREATE TABLEs, then each transaction has one row of each table.
        reached = saved["commitTS"] - 2
        assert count(server, "SELECT COUNT(*) FROM d.t") == reached
        assert count(server, "SELECT COUNT(*) FROM d.bag") == reached
        assert count(server, "SELECT COUNT(DISTINCT v) FROM d.bag") == reached
        assert f'"commit_ts": {saved["commitTS"]}' in done.stderr
        # Once more: there is nothing to do, so it waits for its upstream, and changes nothing.
        again = subprocess.Popen(command(tmp_path, "nats://127.0.0.1:1", server))
        with pytest.raises(subprocess.TimeoutExpired):
            again.wait(5)
        again.terminate()
        assert again.wait(DEADLINE_S) == 0
        assert checkpoint(server) == saved


def test_a_wrong_directory_is_told_and_not_called_consistent(tmp_path: Path) -> None:
    """As after a typing error: neither the downstream nor the relay was ever used."""
    with mariadb_server(tmp_path / "db") as server:
        done = alone(tmp_path, server, "--recover", "true")
    assert done.returncode == EXIT_RESTART, done.stderr
    assert "was ever applied to this downstream" in done.stderr
    assert "data-dir" in done.stderr


def test_a_relay_that_is_lost_is_told_and_nothing_is_called_consistent(tmp_path: Path) -> None:
    with mariadb_server(tmp_path) as server:
        killed_while_applying(tmp_path, server)
        interrupted(server)
        saved = checkpoint(server)
        shutil.rmtree(tmp_path / "data" / "relay")
        for _ in range(2):
            done = alone(tmp_path, server, "--recover", "true")
            assert done.returncode == EXIT_RESTART, done.stderr
            assert "the relay log holds nothing" in done.stderr
        assert checkpoint(server)["consistent"] is False
        assert checkpoint(server)["commitTS"] == saved["commitTS"]


def test_a_downstream_that_an_applier_holds_is_left_to_it(tmp_path: Path) -> None:
    log, bag = tmp_path / "applier.log", "SELECT COUNT(*) FROM d.bag"
    second = tmp_path / "second"
    second.mkdir()
    with mariadb_server(tmp_path) as server, nats_server(tmp_path / "nats") as nats:
        asyncio.run(publish(nats.url, range(5)))
        with log.open("ab") as out:
            living = subprocess.Popen(command(tmp_path, nats.url, server), stdout=out, stderr=out)
        try:
            until(server, bag, 5, log)
            done = alone(second, server, "--recover", "true")
            assert done.returncode != 0
            assert "another Applier writes" in done.stderr
            assert "end that one first" in done.stderr
            asyncio.run(publish(nats.url, range(5, 8)))
            until(server, bag, 8, log)
            assert living.poll() is None
        finally:
            living.kill()
            living.wait()


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("$.epoch", "99", "another Applier wrote here last (epoch 99)"),
        pytest.param(
            *("$.unsure", "99999999", "may have applied rows up to 99999999"),
            marks=pytest.mark.full,
        ),
    ],
)
def test_what_another_applier_may_have_applied_is_not_called_consistent(
    path: str, value: str, said: str, tmp_path: Path
) -> None:
    with mariadb_server(tmp_path) as server:
        killed_while_applying(tmp_path, server)
        interrupted(server)
        interrupted(server, path, value)
        done = alone(tmp_path, server, "--recover", "true")
        assert done.returncode != 0
        assert said in done.stderr
        assert "recover where the other Applier ran" in done.stderr
        assert checkpoint(server)["consistent"] is False
