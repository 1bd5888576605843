"""The main job on what a real TiDB wrote (issue 3, Done when 3): over gRPC into two Pumps, oracle
`follow`, schema from the status API, out of the stream and into SQLite and MariaDB."""

from __future__ import annotations

import json
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from tests.acceptance import golden_stream
from tests.acceptance.described import check_stream as check_stream_is_described
from tests.acceptance.replaying import replay
from tests.acceptance.status_api import status_api
from tests.acceptance.stream import commit_timestamps, read_stream
from tests.fixtures.capture import SETS, Set, ddl_history_json, published, records
from tests.fixtures.downstream_rows import mariadb_differences, sqlite_differences
from tests.servers import mariadb_server
from tests.topology import Running, up
from tidelog.change_reader import Change

DROPPED = {
    "nothing_left": 1,
    "system": 40,
    "setval": 6,
    "drop_column_first": 3,
    "placement": 3,
    "rolled_back": 2,
    "truncated": 1,
}
"""The 55 Commits of set-a that the golden output does not hold (fixtures README), and one DDL of
which nothing is left without its TTL."""


def options(which: Set, api: str) -> tuple[str, ...]:
    cluster_id = records(which)[0].cluster_id
    return (
        *("--pumps", "2", "--oracle", "follow", "--ddl-history", api),
        *("--cluster-id", str(cluster_id), "--feed", "main"),
    )


def check_stream(running: Running, last: int) -> list[Change]:
    """Each of the golden transactions that is published exactly once, in order, in one marker."""
    changes = read_stream(running.nats, "main", last)
    seen = commit_timestamps(changes)
    assert seen == sorted(set(seen))
    assert seen == [txn.commit_ts for txn in published()]
    return changes


def dropped(running: Running) -> Counter[str]:
    """What the Drainer counts as dropped, by reason, since it started."""
    with urllib.request.urlopen(f"{running.ready['http']['drainer']}/status") as answer:
        status = json.load(answer)
    return Counter(status["actors"]["publisher"]["dropped"])


FULL = pytest.mark.full
"""The larger set takes half a minute of two cores; CI has its files in tests/fixtures and
tests/spark."""


@pytest.mark.parametrize("which", [pytest.param(SETS[0], marks=FULL), SETS[1]])
def test_sqlite_holds_what_the_source_held(which: Set, tmp_path: Path) -> None:
    database = tmp_path / "down.db"
    with (
        status_api(ddl_history_json(which)) as api,
        up(tmp_path / "top", f"sqlite:///{database}", *options(which, api)) as running,
    ):
        done = replay(running, which)
        running.wait(done.max_commit_ts)
        seen = check_stream_is_described(running.nats, "main")
        assert seen["changes-row"] > 0
        if which == "set-a":
            golden_stream.check(check_stream(running, done.max_commit_ts))
            assert dropped(running) == DROPPED
            assert seen["changes-ddl"] > 50
            assert seen["changes-row"] > 100
    assert sqlite_differences(which, database) == []


@pytest.mark.parametrize("which", [pytest.param(SETS[0], marks=FULL), SETS[1]])
def test_mariadb_holds_what_the_source_held(which: Set, tmp_path: Path) -> None:
    with (
        mariadb_server(tmp_path) as db,
        status_api(ddl_history_json(which)) as api,
        up(
            tmp_path / "top", f"mysql://{db.user}@{db.host}:{db.port}/", *options(which, api)
        ) as running,
    ):
        done = replay(running, which)
        running.wait(done.max_commit_ts)
        assert mariadb_differences(which, db) == []
