"""The same with every process killed on the way, and with JetStream's store deleted (Done 4)."""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from pathlib import Path

from tests.acceptance import golden_stream
from tests.acceptance.replaying import replay
from tests.acceptance.status_api import status_api
from tests.acceptance.stream import commit_timestamps, following, read_stream
from tests.acceptance.test_capture import check_stream, options
from tests.fixtures.capture import ddl_history_json, published, records
from tests.fixtures.downstream_rows import mariadb_differences, sqlite_differences
from tests.processes import until
from tests.servers import mariadb_server
from tests.topology import Running, up

VICTIMS = ("applier", "drainer", "pump-1", "pump-2", "registry", "nats")


def test_sigkill_of_every_process_loses_nothing(tmp_path: Path) -> None:
    """One after the other while binlogs keep coming, into MariaDB, whose DDL commits by itself."""
    count = len(records("set-a"))
    with (
        mariadb_server(tmp_path) as db,
        status_api(ddl_history_json("set-a")) as api,
        up(
            tmp_path / "top", f"mysql://{db.user}@{db.host}:{db.port}/", *options("set-a", api)
        ) as running,
    ):
        rounds = VICTIMS * 2
        plan = {
            count * (n + 1) // (len(rounds) + 1): partial(running.kill, victim)
            for n, victim in enumerate(rounds)
        }
        done = replay(running, "set-a", plan)
        running.wait(done.max_commit_ts)
        check_stream(running, done.max_commit_ts)
        assert mariadb_differences("set-a", db) == []


def delete_jetstream(running: Running) -> None:
    """The store is gone and the server dies: a lost volume."""
    pid = running.pid("nats")
    os.kill(pid, signal.SIGSTOP)
    shutil.rmtree(running.directory / "nats" / "store")
    os.kill(pid, signal.SIGKILL)
    until(lambda: running.pid("nats") != pid, "nats-server to be started again")


def test_a_deleted_jetstream_store_is_filled_again(tmp_path: Path) -> None:
    database = tmp_path / "down.db"
    count = len(records("set-a"))
    with (
        status_api(ddl_history_json("set-a")) as api,
        up(tmp_path / "top", f"sqlite:///{database}", *options("set-a", api)) as running,
    ):
        with following(running.nats, "main", published()[-1].commit_ts) as subscriber:
            done = replay(running, "set-a", {count // 2: partial(delete_jetstream, running)})
            running.wait(done.max_commit_ts)
            changes = subscriber.result()
        refilled = commit_timestamps(read_stream(running.nats, "main", done.max_commit_ts))
    wanted = [txn.commit_ts for txn in published()]
    assert commit_timestamps(changes) == wanted
    golden_stream.check(changes)
    assert refilled == wanted[-len(refilled) :]
    assert sqlite_differences("set-a", database) == []
