"""A replay whose driver and workers are killed at random points, and which is begun again: beside
what the Applier makes of the same relay log.

    python -m tests.spark.kill_rig --kills 10 --seed 8
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from random import Random

import msgspec

from tests.last_line import last_line
from tests.servers import MariaDb, mariadb_server
from tests.spark import applied, histories
from tests.spark.lives import Life, life, pause
from tests.spark.local import SETTINGS
from tests.spark.relay_files import FEED, RelayFiles
from tidelog.bulk.jobs import ReplayJob, encode_job
from tidelog.bulk.told import Report
from tidelog.downstream import Checkpoint

CHANGES_PER_KILL = 4000
SEGMENT_BYTES = 128 << 10
CHUNK_BYTES = 64 << 10
PROGRAM = ("tests.spark.small_steps",)
LATEST_S = 1.0
"""A kill comes at most so long after the segment has begun that it waits for."""


class Rig:
    """So far `kills` of drivers and `worker_kills` of workers that had a task, in `lives`."""

    def __init__(self, server: MariaDb, directory: Path, seed: int, changes: int) -> None:
        self._rng = Random(seed)
        self._server = server
        self._log = directory / "spark.log"
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
            spark=SETTINGS,
        )
        self._job.write_bytes(encode_job(job))
        self.kills = self.worker_kills = self.lives = 0

    def run(self, kills: int, *, workers: int) -> None:
        """Raises AssertionError where the downstream comes out otherwise than the Applier's."""
        expected = applied.apply(self._server, self._data_dir, self._end)
        applied.clear(self._server)
        report = None
        while report is None:
            self.lives += 1
            with life(self._job, self._log, PROGRAM) as now:
                report = self._live(now, self.kills < kills, workers - self.worker_kills)
                self.worker_kills += now.lost_tasks
        assert self.kills == kills, "it was too fast: more changes"
        assert self.worker_kills >= workers, "it was too fast: more changes"
        assert report.commit_ts == self._end
        assert applied.contents(self._server) == expected
        saved = msgspec.json.decode(applied.checkpoint(self._server), type=Checkpoint)
        assert (saved.commit_ts, saved.consistent) == (self._end, True)

    def _live(self, now: Life, ends: bool, workers: int) -> Report | None:
        """Until it has done the job, or is killed: in some segment, so many workers before that."""
        rng = self._rng
        left = rng.randint(1, 2)
        for line in now.lines():
            if line.stage != "replaying" or now.report is not None:
                continue
            left -= 1
            pause(rng.random() * LATEST_S)
            if now.lost_tasks < min(workers, 1 if ends else workers):
                now.kill_workers()
            elif ends and left <= 0 and now.kill():
                self.kills += 1
                return None
        return now.ended()


def play(server: MariaDb, directory: Path, *, kills: int, workers: int, seed: int) -> Rig:
    rig = Rig(server, directory, seed, CHANGES_PER_KILL * (kills + workers + 1))
    rig.run(kills, workers=workers)
    return rig


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=10, help="of the driver; as many of workers")
    parser.add_argument("--seed", type=int, default=8)
    chosen = parser.parse_args()
    kills, seed = chosen.kills, chosen.seed
    with tempfile.TemporaryDirectory(prefix="tidelog-replay-") as name:
        directory = Path(name)
        with mariadb_server(directory) as server:
            rig = play(server, directory, kills=kills, workers=kills, seed=seed)
    print(f"{rig.kills} drivers and {rig.worker_kills} workers killed in {rig.lives} lives: equal")
    print(last_line("kills of the replay", rig.kills + rig.worker_kills, f"seed {seed}"))


if __name__ == "__main__":
    main()
