"""A relay log larger than what a task may hold: its rows arrive, and memory stays bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.resident import forget_peak, resident
from tests.servers import MariaDb
from tests.spark import applied
from tests.spark.large_relay import ROWS, TRANSACTIONS, LargeRelay, held
from tests.spark.lives import workers
from tests.spark.local import SETTINGS
from tests.spark.relay_files import FEED, RelayFiles
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Progress
from tidelog_backfill.replay.run import replay

MIB = int(os.environ.get("TIDELOG_TEST_RELAY_MIB", "50"))
"""Of the relay log; 2048 before a release."""
DDL_EVERY = 25_000 if MIB < 1000 else 250_000
FILE_BYTES = 16 << 20
CHUNK_BYTES = 8 << 20
PART_MIB = 32
"""What a task may hold of rows, as JSON."""
WORKER_MIB = 4 * PART_MIB
"""Above what a worker has before it: those rows as objects, and as they are sent."""
DRIVER_MIB = PART_MIB
"""Above what the driver has before: it holds no rows."""


class Peaks:
    """MiB: of this process, which is the driver, and the largest of Spark's Python workers."""

    def __init__(self) -> None:
        self.driver = self.worker = 0.0
        for pid in [os.getpid(), *workers(os.getpid())]:
            forget_peak(pid)

    def look(self, _: object = None) -> None:
        self.driver = resident(os.getpid(), "VmHWM")
        for pid in workers(os.getpid()):
            try:
                self.worker = max(self.worker, resident(pid, "VmHWM"))
            except (OSError, LookupError):  # it has just ended
                continue


@pytest.mark.timeout(60 + 5 * MIB)
def test_a_large_relay_arrives_and_no_process_holds_it(
    session: SparkSession, server: MariaDb, tmp_path: Path
) -> None:
    relay = RelayFiles(tmp_path / "relay", FILE_BYTES)
    made = LargeRelay(relay, 8)
    made.write(1)
    small = relay.end
    while _size(tmp_path) < MIB << 20:
        made.write(DDL_EVERY)
        made.add_column()
    relay.close()

    def job(until_ts: int) -> ReplayJob:
        return ReplayJob(
            inputs=(str(tmp_path / "relay"),),
            downstream=applied.url(server),
            feed=FEED,
            chunk_bytes=CHUNK_BYTES,
            until_ts=until_ts,
            spark=SETTINGS,
        )

    def told(progress: Progress) -> None:
        peaks.look()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tidelog_backfill.replay.step.SMALL_BYTES", 0)
        replay(session, job(small), lambda _: None)
    before = Peaks()
    before.look()
    peaks = Peaks()
    report = replay(session, job(0), told)
    peaks.look()
    assert held(server, made.structure) == made.expected()
    assert report.rows == made.changes - ROWS * TRANSACTIONS
    assert report.ddls == made.ddls >= 3
    worker, driver = peaks.worker - before.worker, peaks.driver - before.driver
    print(
        f"{_size(tmp_path) >> 20} MiB, {report.rows} changes, {report.seconds:.1f} s; above"
        f" {before.worker:.0f} MiB of a worker {worker:.0f}, {before.driver:.0f} of the driver"
        f" {driver:.0f}"
    )
    assert 0 < worker < WORKER_MIB
    assert driver < DRIVER_MIB


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in (directory / "relay").glob("relay-*"))
