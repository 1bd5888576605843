"""A replay whose driver and workers are killed at random points, and which is begun again: beside
what the Applier makes of the same relay log.

    python -m tests.spark.kill_rig --kills 10 --seed 8
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import msgspec

from tests.servers import MariaDb, mariadb_server
from tests.spark import applied, histories
from tests.spark.relay_files import FEED, RelayFiles
from tidelog.bulk.jobs import ReplayJob, SparkSettings, encode_job
from tidelog.bulk.told import Progress, Report, decode_line
from tidelog.downstream import Checkpoint
from tidelog_backfill.replay.step import SMALL_BYTES

CHANGES_PER_KILL = 10_000
SEGMENT_BYTES = SMALL_BYTES + (512 << 10)
CHUNK_BYTES = 256 << 10
LATEST_S = 1.5
"""A kill comes at most so long after the segment has begun that it waits for."""
WAIT_S = 240.0


class Life:
    """A process that does the job, and what it tells."""

    def __init__(self, job: Path, log: Path) -> None:
        with log.open("ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tidelog_backfill", "run", str(job)],
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.report: Report | None = None

    def lines(self) -> Iterator[Progress]:
        """Until its end."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = decode_line(raw)
            if isinstance(line, Report):
                self.report = line
            elif isinstance(line, Progress):
                yield line

    def kill(self) -> None:
        """Driver and JVM. Workers outlive them for a moment, in a group of their own."""
        os.killpg(self.process.pid, signal.SIGKILL)

    def kill_worker(self, rng: Random) -> bool:
        """A Python process that has a task, if there is one."""
        workers = [pid for pid in _below(self.process.pid) if _is_worker(pid)]
        if not workers:
            return False
        os.kill(rng.choice(workers), signal.SIGKILL)
        return True


@contextmanager
def life(job: Path, log: Path) -> Iterator[Life]:
    found = Life(job, log)
    try:
        yield found
    finally:
        if found.process.poll() is None:
            found.kill()
        found.process.wait()
        assert found.process.stdout is not None
        found.process.stdout.close()


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def _below(pid: int) -> list[int]:
    parents = _parents()
    found, new = list[int](), [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def _is_worker(pid: int) -> bool:
    """Forked from Spark's daemon, which is no worker itself."""
    parent = _parents().get(pid, 0)
    return all(b"pyspark.daemon" in _command(one) for one in (pid, parent))


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


class Rig:
    """`kills` so far of drivers, `worker_kills` of workers, in `lives`."""

    def __init__(self, server: MariaDb, directory: Path, seed: int, changes: int) -> None:
        self._rng = Random(seed)
        self._server = server
        self._log = directory / "replay.log"
        self._data_dir = directory / "applier"
        relay = RelayFiles(self._data_dir / "relay")
        histories.write(relay, seed, changes)
        relay.close()
        self._end = relay.end
        self._job = directory / "job.json"
        job = ReplayJob(
            inputs=(str(self._data_dir / "relay"),),
            downstream=applied.url(server),
            feed=FEED,
            segment_bytes=SEGMENT_BYTES,
            chunk_bytes=CHUNK_BYTES,
            spark=SparkSettings(master="local[2]"),
        )
        self._job.write_bytes(encode_job(job))
        self.kills = self.worker_kills = self.lives = 0

    def run(self, kills: int, *, workers: int) -> None:
        """Raises AssertionError where the downstream comes out otherwise than the Applier's."""
        expected = applied.apply(self._server, self._data_dir, self._end)
        applied.clear(self._server)
        report = None
        while report is None:
            report = self._live(self.kills < kills, self.worker_kills < workers)
        assert (self.kills, self.worker_kills) == (kills, workers), "it was too fast: more changes"
        assert report.commit_ts == self._end
        assert applied.contents(self._server) == expected
        saved = msgspec.json.decode(applied.checkpoint(self._server), type=Checkpoint)
        assert (saved.commit_ts, saved.consistent) == (self._end, True)

    def _live(self, ends: bool, hurts: bool) -> Report | None:
        """A life, to its end or until it is killed in some segment."""
        self.lives += 1
        rng = self._rng
        left = rng.randint(1, 2)
        with life(self._job, self._log) as now:
            for line in now.lines():
                if line.stage != "replaying":
                    continue
                left -= 1
                if hurts and now.report is None:
                    self._pause(rng.random() * LATEST_S)
                    killed = now.kill_worker(rng)
                    self.worker_kills += killed
                    hurts = not killed
                elif ends and left <= 0:
                    self._pause(rng.random() * LATEST_S)
                    if now.process.poll() is None:
                        now.kill()
                        self.kills += 1
                    return None
            now.process.wait(WAIT_S)
            failed = self._log.read_text()[-3000:] if now.report is None else ""
            assert now.report is not None, f"exit {now.process.returncode}: {failed}"
            return now.report

    def _pause(self, seconds: float) -> None:
        """The moment of a kill is what is drawn here."""
        threading.Event().wait(seconds)


def play(directory: Path, *, kills: int, workers: int, seed: int) -> Rig:
    with mariadb_server(directory) as server:
        rig = Rig(server, directory, seed, CHANGES_PER_KILL * (kills + workers + 1))
        rig.run(kills, workers=workers)
        return rig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of the driver; as many of workers")
    parser.add_argument("--seed", type=int, default=8)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidelog-replay-") as name:
        rig = play(Path(name), kills=chosen.kills, workers=chosen.kills, seed=chosen.seed)
    print(f"{rig.kills} drivers and {rig.worker_kills} workers killed in {rig.lives} lives: equal")


if __name__ == "__main__":
    main()
