"""A job as the service does it: submitted over NATS, its process killed, done all the same."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.integration.pump_client.cluster import Service as Process
from tests.servers import MariaDb, nats_server
from tests.spark import applied, histories
from tests.spark.local import SETTINGS
from tests.spark.relay_files import FEED, RelayFiles
from tidelog.bulk.control import JobStatus
from tidelog.bulk.jobs import ReplayJob
from tidelog.errors import NotFound
from tidelog.real.bus import NatsBus
from tidelog_cli.bulk import Service, outcome


def children(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def alive(pids: list[int]) -> list[int]:
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]


async def submitted(url: str, job: ReplayJob, service_pid: int) -> JobStatus:
    """Once its process has a JVM, it is killed, and the JVM ends with it."""
    bus = await NatsBus.connect(url, name="test", timeout_s=10)
    try:
        service = Service(bus, "default")
        status = await service.submit(job)
        killed: list[int] = []

        def kill(_: JobStatus) -> None:
            for process in [] if killed else children(service_pid):
                if jvm := children(process):
                    killed.extend([process, *jvm])
                    os.kill(process, signal.SIGKILL)

        done = await service.follow(status.id, kill)
        assert len(killed) >= 2
        assert not alive(killed)
        with pytest.raises(NotFound):
            await service.jobs("another")
        return done
    finally:
        await bus.close()


@pytest.mark.timeout(300)
def test_a_job_whose_process_is_killed_is_done_by_another(tmp_path: Path, server: MariaDb) -> None:
    relay = RelayFiles(tmp_path / "applier" / "relay")
    histories.write(relay, 3, 500)
    relay.close()
    with nats_server(tmp_path / "nats") as nats:
        expected = applied.apply(server, tmp_path / "applier", relay.end)
        applied.clear(server)
        process = Process("tidelog_backfill", tmp_path / "service", ["--nats-url", nats.url])
        process.start()
        try:
            process.wait()
            service = process.process
            assert service is not None
            job = ReplayJob(
                inputs=(str(tmp_path / "applier" / "relay"),),
                downstream=applied.url(server),
                feed=FEED,
                spark=SETTINGS,
            )
            done = asyncio.run(submitted(nats.url, job, service.pid))
        finally:
            process.kill(signal.SIGTERM)
        assert service.returncode == 0
        assert done.tries == 2
        assert outcome(done).commit_ts == relay.end
        assert applied.contents(server) == expected
