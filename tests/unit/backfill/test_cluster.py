"""What is asked of a cluster, without one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NoReturn, cast
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.servers import free_port
from tests.unit.backfill.pump_logs import commit, inserts, prewrite, write
from tidelog.bulk.jobs import BackfillJob, ReplayJob
from tidelog.errors import ConfigError, NotFound, TidelogError, Unavailable
from tidelog_backfill import cluster
from tidelog_backfill.cluster import IMPORTED, PACKAGE, Seen, check, look, own_address
from tidelog_backfill.shared_files import files_of, marked

DOWNSTREAM = "mysql://copy@db:3306/"


def test_the_driver_is_found_where_the_master_sees_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        port = master.getsockname()[1]
        assert own_address(f"spark://127.0.0.1:{free_port()},127.0.0.1:{port}") == "127.0.0.1"
    assert own_address("yarn") == ""


class Session:
    """Its tasks come to what `done` does; `end` is set where its jobs are cancelled."""

    def __init__(self, done: Callable[[threading.Event], list[Seen]]) -> None:
        self.end = threading.Event()
        self.sparkContext = MagicMock(defaultParallelism=1, master="spark://there")
        self.sparkContext.parallelize().mapPartitions().collect = lambda: done(self.end)
        self.sparkContext.cancelJobGroup = lambda _: self.end.set()


def checked(done: Callable[[threading.Event], list[Seen]]) -> Session:
    session = Session(done)
    check(cast(SparkSession, session), BackfillJob(source="mysql://db/", downstream=DOWNSTREAM))
    return session


@pytest.mark.parametrize(
    ("seen", "kind", "says"),
    [
        (("m", "", "No module named 'x'", []), ConfigError, "m has no tidelog: No module named"),
        (("m", "0.0.0", "", []), ConfigError, "m has tidelog 0.0.0, this is"),
        (("m", version(PACKAGE), "", ["/data/a"]), NotFound, "m does not see /data/a"),
    ],
)
def test_what_an_executor_lacks_is_named(seen: Seen, kind: type[TidelogError], says: str) -> None:
    whole = ("n", version(PACKAGE), "", list[str]())
    checked(lambda _: [whole])
    with pytest.raises(kind, match=f"executor {says}"):
        checked(lambda _: [whole, seen])


def test_a_cluster_without_executors_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it was asked for is cancelled."""
    monkeypatch.setattr(cluster, "EXECUTORS_S", 0.05)
    ended: list[bool] = []

    def waits(end: threading.Event) -> list[Seen]:
        ended.append(end.wait(60))
        raise Py4JError("cancelled")

    with pytest.raises(Unavailable, match="no executor of spark://there did a task") as raised:
        checked(waits)
    assert ended == [True]
    assert raised.value.hint == cluster.WORKERS_HINT


@pytest.mark.parametrize(
    "error",
    [
        PySparkException("Python in worker has different version\nTraceback"),
        Py4JError("Python in worker has different version\n\tat org.apache.spark"),
    ],
)
def test_executors_that_can_not_do_a_task(error: Exception) -> None:
    def fails(_: threading.Event) -> NoReturn:
        raise error

    with pytest.raises(ConfigError, match="executors can't do a task of") as raised:
        checked(fails)
    assert raised.value.message.endswith(": Python in worker has different version")
    assert raised.value.hint == cluster.ENVIRONMENT_HINT


def test_a_master_that_can_not_be_reached() -> None:
    with pytest.raises(Unavailable, match=r"can't be reached: .*refused.*start it"):
        own_address(f"spark://127.0.0.1:{free_port()}")
    with pytest.raises(ConfigError, match="spark://HOST:PORT"):
        own_address("spark://127.0.0.1:x")


def test_a_task_tells_what_it_misses(tmp_path: Path) -> None:
    whole, short, gone = (tmp_path / name for name in ("whole", "short", "gone"))
    whole.write_bytes(b"12")
    short.write_bytes(b"1")
    task = look(IMPORTED, PACKAGE, {str(path): 2 for path in (whole, short, gone)})
    ((_, version, trouble, missing),) = task(())
    assert version
    assert trouble == ""
    assert missing == [str(short), str(gone)]
    ((_, version, trouble, _),) = look("tidelog_nowhere", PACKAGE, {})(())
    assert version == ""
    assert "tidelog_nowhere" in trouble
    ((_, version, trouble, _),) = look(IMPORTED, "no-such-package", {})(())
    assert "no-such-package" in trouble


def test_logs_and_what_a_url_names_must_be_seen(tmp_path: Path) -> None:
    write(tmp_path, [[prewrite(10, inserts([10])), commit(10, 11)]])
    password = tmp_path / "password"
    password.write_text("x")
    job = ReplayJob(inputs=(str(tmp_path),), downstream=f"{DOWNSTREAM}?password_file={password}")
    files = files_of(job)
    assert files.pop(str(password)) == 0
    ((path, size),) = files.items()
    assert (Path(path).suffix, size) == (".vlog", Path(path).stat().st_size)


def test_a_directory_of_dumps_must_be_seen_and_a_server_is_none(tmp_path: Path) -> None:
    (tmp_path / "d.t.0.csv").write_text("1\n")
    job = BackfillJob(source=str(tmp_path), downstream=DOWNSTREAM)
    assert files_of(job) == {str(tmp_path / "d.t.0.csv"): 2}
    assert files_of(BackfillJob(source="mysql://db/", downstream=DOWNSTREAM)) == {}


def test_a_directory_to_write_to_is_marked_for_a_moment(tmp_path: Path) -> None:
    job = BackfillJob(source="mysql://db/", parquet=str(tmp_path / "out"))
    with marked(job) as marks:
        assert all(Path(mark).exists() for mark in marks)
        assert len(marks) == 1
    assert list((tmp_path / "out").iterdir()) == []
    with marked(BackfillJob(source="mysql://db/", parquet="s3://lake/x?region=eu")) as marks:
        assert marks == {}
