"""The feed's schema: fed from the DDL history, written to SCHEMAS_<FEED> before it is named."""

from __future__ import annotations

import msgspec
import structlog

from tidelog import subjects
from tidelog.changes import schema_key
from tidelog.errors import ConfigError, Corrupt, StreamMissing, Unavailable
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.schema.history import TableAt
from tidelog.schema.model import DdlJob
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import SchemaTracker, changes_schema
from tidelog_drainer.config import DrainerConfig

BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0
LOOK_S = 1.0
SCHEMAS_FILE = "schemas.json"

log = structlog.get_logger()


class Known(msgspec.Struct, frozen=True):
    """The bucket of structures as this Drainer last wrote it, kept in its directory: by it one
    that was deleted, recreated or rolled back is recognised."""

    created: str
    last_seq: int


class SchemaStore:
    """Owned by the publisher. `tracker` is asked synchronously; `fetch` brings what it lacks."""

    def __init__(self, config: DrainerConfig, ports: Ports) -> None:
        self.tracker = SchemaTracker()
        self.waiting = ""
        """For what the merge waits here; shown in status."""
        self.newest_version = 0
        """The highest schema version of any job, rolled back ones included."""
        self._ports = ports
        self._history = ports.open_ddl_history(config.ddl_history)
        self._is_file = config.ddl_history.startswith("file:")
        self._bucket = Bucket(ports.bus, subjects.schemas_bucket(config.feed))
        self._last_job = 0
        self._finished: dict[int, tuple[int, int]] = {}
        self._queries: dict[int, str] = {}
        self._written: set[str] = set()
        self._known: Known | None = None
        self._lost = False
        self._looked_at = -LOOK_S

    @property
    def bucket_name(self) -> str:
        return self._bucket.name

    async def check(self) -> None:
        """A file is right or it isn't; who else keeps the history may not be there yet. Raises
        ConfigError for a file that can't be read or holds something else."""
        if not self._is_file:
            return
        try:
            await self.fetch()
        except Corrupt as error:
            raise ConfigError(error.message, hint="`ddl-history`: a JSON array of jobs") from error

    async def fetch(self, after_job: int | None = None) -> int:
        """Read the jobs after the newest one known, or after `after_job`: jobs may finish out of
        order. Returns how many. Raises Unavailable."""
        count = 0
        start = self._last_job if after_job is None else min(after_job, self._last_job)
        async for page in self._history.jobs(start):
            self._add(page)
            count += len(page)
        return count

    def _add(self, page: list[DdlJob]) -> None:
        self.tracker.add_jobs(page)
        for job in page:
            self._last_job = max(self._last_job, job.id)
            self.newest_version = max(self.newest_version, job.version)
            self._queries[job.id] = job.query
            if job.binlog is not None and changes_schema(job):
                self._finished[job.id] = (job.binlog.finished_ts, job.version)

    def version_at(self, commit_ts: int) -> int:
        """The schema version that the stream had passed at `commit_ts`, as near as the history
        tells: a job's FinishedTS is never below its binlog's commit_ts (fixtures README)."""
        return max(
            (version for ts, version in self._finished.values() if ts <= commit_ts), default=0
        )

    async def fetch_until_answered(self, why: str, after_job: int | None = None) -> int:
        """`fetch`, waiting for an unreachable history for as long as it takes."""
        failures = 0
        while True:
            try:
                count = await self.fetch(after_job)
            except Unavailable as error:
                self.waiting = f"{why}: {error}"
                if not failures:
                    log.warning("the DDL history is unreachable", error=str(error))
                await self.pause(failures)
                failures += 1
                continue
            self.waiting = ""
            return count

    def query_of(self, job_id: int) -> str:
        """A job's text, "" if it is unknown."""
        return self._queries.get(job_id, "")

    async def pause(self, failures: int) -> None:
        """Back off before asking again."""
        delay = min(BACKOFF_MAX_S, BACKOFF_MIN_S * 2 ** min(failures, 8))
        await self._ports.clock.sleep(delay * (0.5 + self._ports.rng.random() / 2))

    async def publish(self, structures: dict[str, TableStructure]) -> None:
        """Write the structures, by key, that this life has not yet written.

        Raises Unavailable: the outcome doesn't matter, writing again changes nothing.
        """
        new = [key for key in structures if key not in self._written]
        if not new:
            return
        if self._known is None:
            state = await self._bucket.create()
            self._known = Known(state.created, 0)
        last = self._known.last_seq
        for key in new:
            revision = await self._bucket.put(key, msgspec.json.encode(structures[key]))
            if revision <= last:
                self._lost = True
                raise StreamMissing(f"{self._bucket.name} was rolled back")
            last = revision
            self._written.add(key)
        await self._remember(Known(self._known.created, last))

    async def look(self) -> None:
        """Is the bucket still the one that was written? Readers may need a structure long after
        its rows: when it was lost, every version is written again. Raises as `publish`."""
        now = self._ports.clock.monotonic()
        if self._known is None or (now - self._looked_at < LOOK_S and not self._lost):
            return
        state = await self._bucket.state()
        shorter = state is not None and state.last_seq < self._known.last_seq
        if state is None or shorter or state.created != self._known.created or self._lost:
            log.warning("the bucket of structures was lost", bucket=self._bucket.name)
            created = (state or await self._bucket.create()).created
            self._known, self._lost = Known(created, 0), True
            self._written.clear()
            await self.publish({key_of(t.db, structure(t)): structure(t) for t in self._tables()})
            self._lost = False
        self._looked_at = now

    def _tables(self) -> list[TableAt]:
        return sorted(self.tracker.tables(), key=lambda table: table.version)

    def recall(self) -> None:
        """What an earlier life wrote, so that a loss meanwhile is seen."""
        if self._ports.disk.exists(SCHEMAS_FILE):
            stored = self._ports.disk.read_file(SCHEMAS_FILE)
            self._known = msgspec.json.decode(stored, type=Known)

    async def _remember(self, known: Known) -> None:
        self._known = known
        await self._ports.disk.write_file(SCHEMAS_FILE, msgspec.json.encode(known))


def key_of(db: str, structure: TableStructure) -> str:
    """A structure's key in SCHEMAS_<FEED>."""
    return schema_key(db, structure.name, structure.version)
