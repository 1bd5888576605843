"""docker-compose.yml as users have it: started cold, scaled, killed under load, equal at the end.

One test, in the order of a day; each step waits for what it needs and nothing else. Its images
are built as a user builds them.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import msgspec
import pytest

from tests.compose.stack import Stack, docker, stack, until
from tidelog import subjects
from tidelog.changes import Marker
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess

PROJECT = "tidelog-test"
OVERRIDE = Path(__file__).with_name("override.yml")
KILLED = ("cli", "registry", "drainer", "applier", "subscriber", "mariadb", "nats")
"""Beside the workload, which comes first, and a Pump."""
CAUGHT_UP_S = 120
SECRETS = (("applier", "/run/secrets/password"), ("applier", "/keys/applier/nkey"))


@pytest.mark.timeout(1200)
def test_a_day_of_a_topology(tmp_path: Path) -> None:
    with stack(PROJECT, "demo", override=OVERRIDE) as topology:
        seconds = topology.up("--build")
        print(f"cold up --build: {seconds:.0f} s")
        check_secrets(topology)
        topology.take_key(tmp_path)
        commits(topology, 100)
        # What it knew dies with it, so it comes first: the run after it is compared.
        kill("workload", topology)
        commits(topology, 100)
        scale_and_kill(topology)
        crash_one(topology)
        commits(topology, 200)
        topology.compose("stop", "workload")
        check_equal(topology)
        check_counted(topology, tmp_path)
        check_secrets(topology)
        volumes_are_kept(topology)


def commits(topology: Stack, count: int) -> None:
    """Wait until so many more transactions are published."""
    wanted = published(topology) + count
    until(lambda: published(topology) >= wanted, f"{count} more transactions", CAUGHT_UP_S)


def published(topology: Stack) -> int:
    return markers(topology)[0]


def markers(topology: Stack) -> tuple[int, int]:
    """Transactions and rows in the stream, by its markers."""
    return asyncio.run(_markers(topology.nats, topology.access))


async def _markers(url: str, access: NatsAccess) -> tuple[int, int]:
    bus = await NatsBus.connect(url, name="test", timeout_s=30, access=access)
    transactions = rows = sequence = 0
    try:
        stream, subject = subjects.changes_stream("main"), subjects.changes_txn("main")
        newest = await bus.last_message(stream, subject)
        reader = await bus.read(stream, start_seq=1, subjects=(subject,))
        while newest is not None and sequence < newest.sequence:
            for message in await reader.next_batch(500, 0.2):
                marker = msgspec.json.decode(message.data, type=Marker)
                transactions += len(marker.txns)
                rows += sum(txn.rows for txn in marker.txns)
                sequence = message.sequence
        await reader.close()
    finally:
        await bus.close()
    return transactions, rows


def kill(service: str, topology: Stack) -> None:
    """SIGKILL to one container of the service; docker takes that for an operator's word, so it is
    started again by one."""
    one = topology.one(service)
    docker("kill", one.id)
    docker("start", one.id)
    topology.well(service)


def scale_and_kill(topology: Stack) -> None:
    """To four Pumps and back, and each service killed once, all under load."""
    topology.up("--no-recreate", "--scale", "pump=4")
    until(lambda: len(online(topology)) == 4, "four Pumps", 60)
    for service in KILLED[:4]:
        kill(service, topology)
    kill("pump", topology)
    topology.up("--no-recreate", "--scale", "pump=2")
    for service in KILLED[4:]:
        kill(service, topology)
    until(lambda: len(online(topology)) == 2, lambda: f"two Pumps: {topology.tidelog('pumps')}", 90)


def online(topology: Stack) -> list[str]:
    found = topology.tidelog("pumps")
    return [node["nodeId"] for node in found if node["state"] == "online"]


def crash_one(topology: Stack) -> None:
    """A process that ends by itself is started again by the engine."""
    before = topology.one("drainer")
    started = _started(before.id)
    topology.run("drainer", "python", "-c", "import os; os.kill(1, 15)")
    until(lambda: _started(before.id) != started, "the engine to start the drainer again", 60)
    topology.well("drainer")


def _started(container: str) -> str:
    return docker("inspect", "--format", "{{.State.StartedAt}}", container)


def check_secrets(topology: Stack) -> None:
    """Made here, readable by their own user only, and nowhere in what engine and logs show."""
    for service, path in SECRETS:
        secret = topology.run(service, "cat", path).strip()
        assert len(secret) >= 48
        mode = topology.run(service, "stat", "--format", "%a %u", path)
        assert mode.split() == ["600", "10001"], (service, path)
        for one in topology.containers():
            assert secret not in docker("inspect", one.id)
        assert secret not in topology.compose("logs")


def check_equal(topology: Stack) -> None:
    """The copy in MariaDB is what the workload says its source holds; the tables of the run that
    was killed are there, and nobody knows what they should hold."""
    verify = (
        "TIDELOG_VERIFY_DOWNSTREAM=mysql://tidelog:$(cat /run/secrets/password)@mariadb:3306/"
        " tidelog verify --source dump:///workload/source.json --timeout 120 --json"
    )
    done = topology.compose("exec", "--no-TTY", "cli", "sh", "-c", verify, check=False)
    known = [table for table in json.loads(done)["tables"] if table["source"]]
    assert [table for table in known if table["result"] != "equal"] == []
    rows = sum(table["source_rows"] for table in known)
    assert rows > 0
    print(f"equal: {rows} rows in {len(known)} tables")


def check_counted(topology: Stack, directory: Path) -> None:
    """The application in its own container, killed on the way, counted each row's change once."""
    _, rows = markers(topology)
    until(lambda: counted(topology, directory) >= rows, "the subscriber", CAUGHT_UP_S)
    assert counted(topology, directory) == rows
    print(f"counted: {rows} changes of rows")


def counted(topology: Stack, directory: Path) -> int:
    copy = directory / "counts.db"
    topology.compose("cp", "subscriber:/var/lib/tidelog/counts.db", str(copy))
    with sqlite3.connect(copy) as db:
        return int(db.execute("SELECT coalesce(sum(rows), 0) FROM changes").fetchone()[0])


def volumes_are_kept(topology: Stack) -> None:
    """Taken down and up again it is the same topology, and still equal."""
    before = published(topology)
    topology.compose("down")
    topology.up("--scale", "workload=0")
    assert published(topology) == before
    until(lambda: len(online(topology)) == 2, "two Pumps", 60)
    check_equal(topology)
