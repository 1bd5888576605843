"""A transaction that the downstream refuses, before others that it would take (T4)."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.applier.test_process import applier, count, execute, until, wait_for
from tests.servers import MariaDb, mariadb_server, nats_server
from tests.unit.applier.publisher import Publisher, create
from tidelog.real.bus import NatsBus

BEFORE, AFTER = 50, 200
REFUSED = 1_000_000


def checkpoint(server: MariaDb) -> dict[str, Any]:
    text = count(server, "SELECT checkPoint FROM tidb_binlog.checkpoint")
    found: dict[str, Any] = json.loads(text) if text else {"commitTS": 0}
    return found


def has_stopped(directory: Path) -> bool:
    """Its process lives, and says that it applies nothing more."""
    try:
        address = (directory / "data" / "http").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/status", timeout=5) as answer:
            status = json.load(answer)
    except OSError:
        return False  # it starts
    return bool(status["actors"].get("applier", {}).get("stopped"))


@pytest.mark.parametrize("mode", ["parallel", "atomic"])
def test_the_checkpoint_stays_below_it_and_a_restart_sends_it_again(
    mode: str, tmp_path: Path
) -> None:
    async def rows(publisher: Publisher, numbers: range) -> None:
        for number in numbers:
            await publisher.rows(t=[create(number, number)])

    async def scenario(nats_url: str, server: MariaDb) -> None:
        bus = await NatsBus.connect(nats_url)
        publisher = Publisher(bus)
        await publisher.begin()
        log, url = tmp_path / "applier.log", f"mysql://root@{server.host}:{server.port}/"
        flags = ("--mode", mode, "--checkpoint-s", "0.1")
        with applier(tmp_path, nats_url, url, flags=flags):
            await rows(publisher, range(BEFORE))
            until(server, "SELECT COUNT(*) FROM d.t", BEFORE, log)
            execute(server, f"ALTER TABLE d.t ADD CONSTRAINT no CHECK (v <> {REFUSED})")
            await publisher.rows(t=[create(REFUSED, REFUSED)])
            refused = publisher.commit_ts
            await rows(publisher, range(BEFORE, AFTER))
            wait_for(lambda: has_stopped(tmp_path), log)
            assert checkpoint(server)["commitTS"] < refused
        with applier(tmp_path, nats_url, url, flags=flags):
            wait_for(lambda: has_stopped(tmp_path), log)
            assert checkpoint(server)["commitTS"] < refused
            assert count(server, f"SELECT COUNT(*) FROM d.t WHERE v = {REFUSED}") == 0
        execute(server, "ALTER TABLE d.t DROP CONSTRAINT no")
        with applier(tmp_path, nats_url, url, flags=flags):
            until(server, "SELECT COUNT(*) FROM d.t", AFTER + 1, log)
            wait_for(lambda: checkpoint(server)["commitTS"] == publisher.commit_ts, log)
        await bus.close()
        assert count(server, "SELECT SUM(v) FROM d.t") == sum(range(AFTER)) + REFUSED

    with nats_server(tmp_path / "nats") as nats, mariadb_server(tmp_path) as server:
        asyncio.run(scenario(nats.url, server))
