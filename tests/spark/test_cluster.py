"""A replay on a real standalone cluster: its executors are processes of a worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.servers import mariadb_server
from tests.spark import applied, histories
from tests.spark.relay_files import FEED, RelayFiles
from tests.spark.standalone import standalone
from tidelog.bulk.jobs import ReplayJob, SparkSettings
from tidelog.bulk.told import Progress
from tidelog.errors import Unavailable
from tidelog_backfill import cluster
from tidelog_backfill.replay.run import replay
from tidelog_backfill.session import spark

CHANGES = 2000
FILE_BYTES = 8 << 20


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("no_session")
def test_a_replay_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
            told: list[Progress] = []
            report = replay(session, job, told.append)
        finally:
            session.stop()
        assert report.commit_ts == relay.end
        assert applied.contents(server) == expected
