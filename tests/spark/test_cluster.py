"""A replay on a real standalone cluster: its executors are processes of a worker."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymysql
import pytest

from tests.processes import until
from tests.servers import MariaDb, mariadb_server
from tests.spark import applied, histories
from tests.spark.relay_files import FEED, RelayFiles
from tests.spark.standalone import Standalone, standalone
from tidelog.bulk.jobs import ReplayJob, SparkSettings
from tidelog.bulk.told import Progress
from tidelog.errors import Unavailable
from tidelog_backfill import cluster
from tidelog_backfill.replay.run import replay
from tidelog_backfill.session import spark

CHANGES = 2000
FILE_BYTES = 8 << 20
SEGMENT_BYTES = 128 << 10
"""Several of them: an executor is killed behind the first."""


@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.usefixtures("no_session")
def test_a_replay_on_a_cluster_whose_executor_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr("tidelog_backfill.replay.step.SMALL_BYTES", 0)
    relay = RelayFiles(tmp_path / "applier" / "relay", FILE_BYTES)
    histories.write(relay, 5, CHANGES)
    relay.close()
    with standalone(tmp_path / "spark") as found, mariadb_server(tmp_path / "db") as server:
        expected = applied.apply(server, tmp_path / "applier", relay.end)
        applied.clear(server)
        settings = SparkSettings(master=found.url, settings={"spark.executor.memory": "512m"})
        job = ReplayJob(
            inputs=(str(tmp_path / "applier" / "relay"),),
            downstream=applied.url(server),
            feed=FEED,
            segment_bytes=SEGMENT_BYTES,
            spark=settings,
        )
        session = spark(settings)
        try:
            with monkeypatch.context() as soon:
                soon.setattr(cluster, "EXECUTORS_S", 0.5)
                with pytest.raises(Unavailable, match="no executor"):
                    cluster.check(session, job)
            found.start_worker()
            cluster.check(session, job)
            assert found.begun == 1
            gate = Gate(server)
            with ThreadPoolExecutor(1) as beside:
                killed = beside.submit(kill_at_work, found, gate)
                report = replay(session, job, gate.shut_behind_a_segment)
                killed.result()
        finally:
            session.stop()
        assert found.begun == 2, "the worker starts another one"
        assert report.commit_ts == relay.end
        assert applied.contents(server) == expected


class Gate:
    """Once it is shut, whoever has written a part waits in the database before that is noted."""

    def __init__(self, server: MariaDb) -> None:
        self._sql = pymysql.connect(host=server.host, port=server.port, user=server.user).cursor()
        self.is_shut = False

    def shut_behind_a_segment(self, progress: Progress) -> None:
        """Of the replay, whose driver goes on when this has returned."""
        if progress.segment and not self.is_shut:
            self._sql.execute("SELECT GET_LOCK('gate', 0)")
            self._sql.execute(
                "CREATE TRIGGER tidb_binlog.gate BEFORE INSERT ON tidb_binlog.replay FOR EACH ROW"
                " BEGIN DO GET_LOCK('gate', 300); DO RELEASE_LOCK('gate'); END"
            )
            self.is_shut = True

    def is_waited_at(self) -> bool:
        waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
        self._sql.execute(waits)
        found = self._sql.fetchone()
        return found is not None and found[0] > 0

    def open(self) -> None:
        self._sql.execute("SELECT RELEASE_LOCK('gate')")


def kill_at_work(found: Standalone, gate: Gate) -> None:
    """The executor's JVM, while it has a task and a segment is written already."""
    (pid,) = found.executors()
    try:
        until(lambda: gate.is_shut, "the first segment's end")
        until(gate.is_waited_at, "a task of a later segment")
        os.kill(pid, signal.SIGKILL)
    finally:
        gate.open()
