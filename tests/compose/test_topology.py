"""docker-compose.yml as users have it: started cold, scaled, killed under load, equal at the end.

One test, in the order of a day; each step waits for what it needs and nothing else. Its images
are built as a user builds them.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.compose.application_key import check_own_key
from tests.compose.holdings import CAUGHT_UP_S, check_equal, commits, markers, online, published
from tests.compose.profiles import check_profiles
from tests.compose.stack import Stack, docker, stack, until

PROJECT = "tidelog-test"
OVERRIDE = Path(__file__).with_name("override.yml")
KILLED: tuple[tuple[str, ...], ...] = (
    ("cli", "registry", "pump"),
    ("drainer", "applier"),
    ("subscriber", "mariadb"),
    ("nats",),
)
"""Those of a group at once; the workload comes before them."""
SECRETS = (("applier", "/run/secrets/password"), ("applier", "/keys/applier/nkey"))


@pytest.mark.timeout(1200)
def test_a_day_of_a_topology(tmp_path: Path) -> None:
    with stack(PROJECT, "demo", override=OVERRIDE) as topology:
        seconds = topology.up("--build")
        print(f"cold up --build: {seconds:.0f} s")
        check_secrets(topology)
        topology.access = topology.take_key(tmp_path)
        commits(topology, 100)
        # What it knew dies with it, so it comes first: the run after it is compared.
        kill(topology, "workload")
        commits(topology, 100)
        scale_and_kill(topology)
        crash_one(topology)
        check_own_key(topology, tmp_path)
        commits(topology, 200)
        topology.compose("stop", "workload")
        check_equal(topology)
        check_counted(topology, tmp_path)
        check_secrets(topology)
        volumes_are_kept(topology)
        check_profiles(topology)


def kill(topology: Stack, *services: str) -> None:
    """SIGKILL to one container of each; docker takes that for an operator's word, so they are
    started again by one."""
    killed = [topology.one(service).id for service in services]
    docker("kill", *killed)
    docker("start", *killed)
    topology.well(*services)


def scale_and_kill(topology: Stack) -> None:
    """To four Pumps and back, and each service killed once, all under load."""
    topology.up("--no-recreate", "--scale", "pump=4")
    until(lambda: len(online(topology)) == 4, "four Pumps", 60)
    for group in KILLED[:2]:
        kill(topology, *group)
    topology.up("--no-recreate", "--scale", "pump=2")
    for group in KILLED[2:]:
        kill(topology, *group)
    until(lambda: len(online(topology)) == 2, lambda: f"two Pumps: {topology.tidelog('pumps')}", 90)


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
