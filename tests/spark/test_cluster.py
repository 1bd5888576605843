"""A replay on a real standalone cluster: its executors are processes of a worker."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.processes import until
from tests.servers import mariadb_server
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
            told: list[Progress] = []
            with ThreadPoolExecutor(1) as beside:
                killed = beside.submit(kill_at_work, session, found, told)
                report = replay(session, job, told.append)
                killed.result()
        finally:
            session.stop()
        assert found.begun == 2, "the worker starts another one"
        assert report.commit_ts == relay.end
        assert applied.contents(server) == expected


def kill_at_work(session: SparkSession, found: Standalone, told: list[Progress]) -> None:
    """The executor's JVM, while it has a task and a segment is written already: it stands still
    while that is looked at."""
    tracker = session.sparkContext.statusTracker()
    (pid,) = found.executors()

    def has_task() -> bool:
        stages = map(tracker.getStageInfo, tracker.getActiveStageIds())
        return any(one.numActiveTasks for one in stages if one is not None)

    def is_stopped_at_work() -> bool:
        if not has_task():
            return False
        os.kill(pid, signal.SIGSTOP)
        if has_task():
            return True
        os.kill(pid, signal.SIGCONT)
        return False

    until(lambda: any(one.segment for one in told), "the first segment's end")
    until(is_stopped_at_work, "a task of a later segment")
    os.kill(pid, signal.SIGKILL)
