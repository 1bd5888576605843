"""The same with JetStream's store deleted on the way (Done 4). Each process is killed by
`tests.kills.rig`."""

from __future__ import annotations

import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from tests.acceptance import golden_stream
from tests.acceptance.replaying import replay
from tests.acceptance.status_api import status_api
from tests.acceptance.stream import commit_timestamps, following, read_stream
from tests.acceptance.test_capture import options
from tests.fixtures.capture import ddl_history_json, published, records
from tests.fixtures.downstream_rows import sqlite_differences
from tests.processes import until
from tests.topology import Running, up


def delete_jetstream(running: Running) -> None:
    """The store is gone and the server dies: a lost volume."""
    pid = running.pid("nats")
    os.kill(pid, signal.SIGSTOP)
    shutil.rmtree(running.directory / "nats" / "store")
    os.kill(pid, signal.SIGKILL)
    until(lambda: running.pid("nats") != pid, "nats-server to be started again")


@pytest.mark.full
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
