"""A relay log larger than what a task may hold: its rows arrive, and memory stays bounded."""

from __future__ import annotations

import os
from contextlib import suppress
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
    """MiB that this process, which is the driver, and each of Spark's Python workers came to hold.

    A worker may have served the tests before this one, and been left large by them: what counts is
    how far each grows. One that is forked later is compared with the smallest that was there.
    """

    def __init__(self) -> None:
        self.before = _held()
        self.peak = dict[int, float]()
        for pid in self.before:
            forget_peak(pid)

    def look(self) -> None:
        for pid, peak in _held("VmHWM").items():
            self.peak[pid] = max(peak, self.peak.get(pid, 0.0))

    @property
    def driver(self) -> float:
        return self.peak[os.getpid()] - self.before[os.getpid()]

    @property
    def worker(self) -> float:
        """Of the one that grew most; LookupError if none was seen."""
        (least, *_) = sorted(mib for pid, mib in self.before.items() if pid != os.getpid())
        peaks = {pid: peak for pid, peak in self.peak.items() if pid != os.getpid()}
        if not peaks:
            raise LookupError("no worker of Spark was seen")
        return max(peak - self.before.get(pid, least) for pid, peak in peaks.items())


def _held(field: str = "VmRSS") -> dict[int, float]:
    found = {os.getpid(): resident(os.getpid(), field)}
    for pid in workers(os.getpid()):
        with suppress(OSError, LookupError):  # it has just ended
            found[pid] = resident(pid, field)
    return found


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
    peaks = Peaks()
    report = replay(session, job(0), told)
    peaks.look()
    assert held(server, made.structure) == made.expected()
    assert report.rows == made.changes - ROWS * TRANSACTIONS
    assert report.ddls == made.ddls >= 3
    print(
        f"{_size(tmp_path) >> 20} MiB, {report.rows} changes, {report.seconds:.1f} s; a worker grew"
        f" by {peaks.worker:.0f} MiB at most, the driver by {peaks.driver:.0f}"
    )
    assert peaks.worker < WORKER_MIB
    assert peaks.driver < DRIVER_MIB


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in (directory / "relay").glob("relay-*"))
