"""The feed's schema: from its snapshot and the DDL history, kept in SCHEMAS_<FEED>."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable

import structlog

from tidelog import subjects
from tidelog.backoff import backoff_s
from tidelog.changes import structure_key
from tidelog.decode.ddl_filter import routed
from tidelog.errors import BadInput, ConfigError, Corrupt, DiskFull, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.filter.filters import Filters
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.schema.folded import Folded
from tidelog.schema.history import TableAt, unpacked
from tidelog.schema.model import DdlJob
from tidelog.schema.steps import Step
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import SchemaTracker
from tidelog.timestamps import TS_MAX
from tidelog_drainer import metrics
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.schema.errors import HistoryTooShort, SnapshotDamaged
from tidelog_drainer.schema.snapshot import Snapshot
from tidelog_drainer.schema.stream_floor import oldest_ts
from tidelog_drainer.schema.structures import Structures

BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 1.0
KEEP_JOBS, FOLD_JOBS = 64, 128
"""The newest jobs are not folded, and the others so many at a time."""
LATE_JOBS = 4096
"""A job that ran long enters the history late, and has a lower id than others that are known: one
is looked for among so many of the last ids."""
KEEP_S = 5.0
"""How often it is looked whether the snapshot is worth writing."""
DELTA_S = 60.0
DELTA_JOBS = 32
"""New jobs are put into the snapshot's root when there are so many, or after a while."""

log = structlog.get_logger()


class SchemaStore:
    """Owned by the publisher. `tracker` is asked synchronously; `fetch` and `load` bring what it
    lacks. It knows every job above the snapshot, and below it the state of each table."""

    def __init__(self, config: DrainerConfig, ports: Ports) -> None:
        self.tracker = SchemaTracker()
        self.waiting = ""
        """For what the merge waits here; shown in status."""
        self.rebuilds: dict[str, int] = {}
        """How often the schema was read from the whole history, by reason."""
        self._unknown_versions = 0
        self._config = config
        self._label = subjects.feed_label(config.feed)
        self._ports = ports
        self._history = ports.open_ddl_history(config.ddl_history, config.upstream.security)
        self._bucket = Bucket(ports.bus, subjects.schemas_bucket(config.feed))
        self._structures = Structures(ports, self._bucket)
        self._filters = Filters(config)
        self._snapshot = Snapshot(self._bucket)
        self._one_at_a_time = asyncio.Lock()
        self._first_job = 0
        self._passed_ts = 0
        """The feed's position: jobs whose binlogs lie at or below it may be folded."""
        self._highest = TS_MAX
        self._behind: frozenset[int] = frozenset()
        """The schema versions whose binlogs were not passed: all above one, and those below it."""
        self._saved_job = 0
        self._saved_at = 0.0
        self._saves = True
        self._opened = False

    @property
    def newest_version(self) -> int:
        """The highest schema version of any job, rolled back ones included."""
        return self.tracker.seen_version

    def status(self) -> dict[str, object]:
        folded = self.tracker.folded
        return {
            "tables": len(folded.live),
            "jobs": self.tracker.unfolded,
            "last_job": self.tracker.last_job,
            "saved_job": self._saved_job,
            "structures": self._structures.remembered,
            "rebuilds": dict(self.rebuilds),
            "unknown_versions": self._unknown_versions,
        }

    def go_on_without(self, version: int) -> None:
        """Rows of a schema version that the history doesn't tell of are decoded by the one before
        it."""
        self._unknown_versions += 1
        metrics.UNKNOWN_VERSIONS.labels(self._label).inc()
        log.info("rows are ahead of the DDL history", version=version, known=self.newest_version)

    def told_late(self, version: int) -> None:
        """Rows of a schema version were decoded, and the history tells of it only now."""
        self._unknown_versions += 1
        metrics.UNKNOWN_VERSIONS.labels(self._label).inc()
        log.warning("the DDL history tells of a schema version behind its rows", version=version)

    def recall(self) -> None:
        """What an earlier life wrote, so that a loss meanwhile is seen. Raises Corrupt."""
        self._structures.recall()

    async def check(self) -> None:
        """A file is right or it isn't; who else keeps the history may not be there yet. Raises
        ConfigError for a file that can't be read or begins with something else."""
        if not self._config.ddl_history.startswith("file:"):
            return
        async for _ in self._jobs(0):
            return

    # The beginning

    async def open(self, commit_ts: int, schema_version: int, behind: Collection[int] = ()) -> None:
        """Be ready to decode what lies above `commit_ts`, where the stream has passed the schema
        `schema_version` (0: it doesn't say), waiting for whoever doesn't answer. Raises
        HistoryTooShort, ConfigError."""
        self._passed_ts = commit_ts
        if schema_version:
            self._highest, self._behind = schema_version, frozenset(behind)
        self._saved_at = self._ports.clock.monotonic()
        await self._until_answered("the schema at start", self._open)
        self._opened = True
        if self.tracker.seen_version < schema_version:
            self._too_short(
                f"the stream has passed schema version {schema_version}, the DDL history ends at"
                f" {self.tracker.seen_version}"
            )

    async def _open(self) -> None:
        if await self._structures.is_lost():
            await self._restore()
            return
        folded, why = await self._read_snapshot()
        if folded is None or self._snapshot.root is None:
            await self._rebuild(why)
            return
        root = self._snapshot.root
        self._first_job, self._saved_job = root.first_job, root.read_upto
        self.tracker.reset(folded, root.steps)
        if root.read_upto:
            await self._catch_up(root.read_upto)

    async def _read_snapshot(self) -> tuple[Folded | None, str]:
        """Nothing, and why, where there is none that this position can go on with."""
        try:
            folded = await self._snapshot.read()
        except StreamMissing:
            return None, ""
        except SnapshotDamaged as error:
            log.error(
                "the schema's snapshot is damaged", bucket=self._bucket.name, error=str(error)
            )
            return None, "damaged"
        if folded is None:
            return None, ""
        if folded.ts > self._passed_ts:
            log.error(
                "the schema's snapshot is newer than the feed's position",
                snapshot_ts=folded.ts,
                position=self._passed_ts,
            )
            return None, "position"
        return folded, ""

    async def _catch_up(self, read_upto: int) -> None:
        """What came after the snapshot, and what finished late just below it. The history still
        has the newest job that is known."""
        found = False
        async for page in self._jobs(max(0, read_upto - 1 - LATE_JOBS)):
            found = found or any(job.id == read_upto for job in page)
            self.tracker.add_jobs(page)
        if not found:
            self._too_short(f"the DDL history has no job {read_upto}, which this feed has read")

    # Reading

    async def _jobs(self, after_job: int) -> AsyncIterator[list[DdlJob]]:
        """All that is read of the history comes by here. Raises Unavailable, ConfigError."""
        try:
            async for page in self._history.jobs(after_job):
                yield page
        except Corrupt as error:  # a wrong file, at the start or put in place later
            raise ConfigError(error.message, hint="`ddl-history`: a JSON array of jobs") from error

    async def fetch(self, after_job: int | None = None, wanted: int = 0) -> int:
        """Read the jobs after the newest one known, or after `after_job`: jobs may finish out of
        order. `wanted` is taken even if it was folded. Returns how many. Raises Unavailable,
        ConfigError."""
        count = 0
        last = self.tracker.last_job
        async for page in self._jobs(last if after_job is None else min(after_job, last)):
            self.tracker.add_jobs(page, wanted=wanted)
            count += len(page)
        return count

    async def fetch_until_answered(
        self, why: str, after_job: int | None = None, wanted: int = 0
    ) -> None:
        """`fetch`, waiting for an unreachable history for as long as it takes."""
        await self._until_answered(why, lambda: self.fetch(after_job, wanted))

    async def look_late(self, why: str) -> None:
        """`fetch_until_answered`, also what finished late."""
        await self.fetch_until_answered(why, max(0, self.tracker.last_job - LATE_JOBS))

    async def load(self, pages: list[int], needed: int = 0) -> None:
        """Bring pages of the snapshot (see TablesAway), waiting for the bucket; if they are lost,
        all is read from the history again. Raises HistoryTooShort, ConfigError."""

        async def bring() -> None:
            try:
                await self._snapshot.load(self.tracker.folded, pages, needed)
            except (SnapshotDamaged, StreamMissing) as error:
                log.error("pages of the schema's snapshot are lost", error=str(error))
                await self._rebuild("damaged")

        await self._until_answered("a table of the schema's snapshot", bring)

    async def rebuild(self, why: str) -> None:
        """Read everything from the history again, for this reason. Raises HistoryTooShort,
        ConfigError."""
        await self._until_answered("the whole DDL history", lambda: self._rebuild(why))

    async def _rebuild(self, why: str) -> None:
        async with self._one_at_a_time:
            fresh = await self._read_all(self._passed_ts)
            await self._take(fresh, why)

    async def _read_all(self, fold_ts: int) -> SchemaTracker:
        """The whole history, folded up to `fold_ts` as it comes. Raises HistoryTooShort,
        ConfigError, Unavailable."""
        fresh = SchemaTracker()
        first, fold_at = 0, KEEP_JOBS + FOLD_JOBS
        async for page in self._jobs(0):
            first = first or page[0].id
            fresh.add_jobs(page)
            if fresh.unfolded >= fold_at:
                fresh.fold(fold_ts, keep=KEEP_JOBS, waits=self._waits)
                fold_at = 2 * fresh.unfolded + FOLD_JOBS
            await asyncio.sleep(0)
        known = self._structures.known
        if known is not None and known.last_job > fresh.last_job:
            self._too_short(
                f"the DDL history ends at job {fresh.last_job}, this feed has read {known.last_job}"
            )
        if known is not None and 0 < known.first_job < first:
            self._too_short(f"the DDL history begins at job {first}, it began at {known.first_job}")
        self._first_job = first
        return fresh

    async def _take(self, fresh: SchemaTracker, why: str) -> None:
        if why:
            self.rebuilds[why] = self.rebuilds.get(why, 0) + 1
            metrics.SCHEMA_REBUILDS.labels(self._label, why).inc()
            log.error("the schema was read from the whole DDL history again", why=why)
        fresh.folded.changed.update(fresh.folded.live, fresh.folded.ended)
        # What was read beside it, for a transaction that needed it, is not behind its end again.
        fresh.add_steps(self.tracker.steps())
        self.tracker.reset(fresh.folded, fresh.steps())
        self._saved_job = 0
        with contextlib.suppress(StreamMissing):  # it will be made with the first structure
            await self._snapshot.begin_anew()

    def _too_short(self, what: str) -> None:
        error = HistoryTooShort(what)
        if not self._config.accept_loss:
            raise error
        log.error("a DDL history that lacks jobs is accepted", what=what)

    # Writing

    async def publish(self, structures: dict[str, TableStructure]) -> None:
        """Write the structures, by key, that this life has not yet written. Raises Unavailable,
        StreamMissing."""
        await self._structures.publish(structures)

    def forget(self, ended: Iterable[str]) -> None:
        """A DDL has passed: hardly a row names these any more, so that they are written need not be
        remembered."""
        self._structures.forget(ended)

    async def look(self) -> None:
        """Is the bucket still the one that was written? Raises as `publish`, HistoryTooShort,
        ConfigError."""
        if not self._opened:
            return  # the beginning's mark comes before anything is known to write
        if await self._structures.is_lost():
            await self._restore()

    async def _restore(self) -> None:
        """Readers may need a structure long after its rows: every version that is newer than the
        stream's beginning is written again, and of older ones the last."""
        log.warning("the bucket of structures was lost", bucket=self._bucket.name)
        async with self._one_at_a_time:
            await self._structures.begin_anew()
            oldest = await oldest_ts(self._ports.bus, self._config.feed)
            fold_ts = self._passed_ts if oldest is None else min(oldest, self._passed_ts)
            fresh = await self._read_all(fold_ts)
            states = sorted(fresh.tables(), key=lambda state: state.version)
            for at in range(0, len(states), 100):
                tables = [unpacked(state) for state in states[at : at + 100]]
                await self._structures.publish(dict(filter(None, map(self._shape, tables))))
                await asyncio.sleep(0)
            fresh.fold(self._passed_ts, keep=KEEP_JOBS, waits=self._waits)
            await self._take(fresh, "lost")
            self._structures.found()

    def _shape(self, table: TableAt) -> tuple[str, TableStructure] | None:
        """Under the name by which readers ask for it; None of a table that they never meet."""
        verdict = self._filters.table(table.db, table.name)
        if verdict.reason:
            return None
        shown = routed(table, verdict)
        return structure_key(shown.db, structure(shown)), structure(shown)

    def _waits(self, step: Step) -> bool:
        """A Writer's job whose binlog is still to come (ADR 5): rows may need its DDL first."""
        version = step.version
        return step.told_before and (version > self._highest or version in self._behind)

    async def keep(
        self, passed_ts: int, highest: int = TS_MAX, behind: Collection[int] = ()
    ) -> None:
        """Fold what the feed has passed, and write the snapshot when that is worth it. Raises
        Unavailable, StreamMissing: the one before holds; HistoryTooShort, ConfigError."""
        self._passed_ts = max(self._passed_ts, passed_ts)
        self._highest, self._behind = highest, frozenset(behind)
        async with self._one_at_a_time:
            self.tracker.fold(
                self._passed_ts, keep=KEEP_JOBS, at_least=FOLD_JOBS, waits=self._waits
            )
            now = self._ports.clock.monotonic()
            fresh = self.tracker.last_job - self._saved_job
            due = fresh > 0 and now - self._saved_at >= DELTA_S
            many = len([s for s in self.tracker.steps() if s.id > self._saved_job]) >= DELTA_JOBS
            if not self._saves or not (self.tracker.folded.changed or many or due):
                return
            self._saved_at = now
            await self._structures.exist()
            await self._save()

    async def _save(self) -> None:
        hit("drainer.schema.before_snapshot")
        last_job = self.tracker.last_job
        try:
            saved = await self._snapshot.save(self.tracker, self._first_job)
        except SnapshotDamaged as error:
            log.error("the schema's snapshot is damaged", error=str(error))
            fresh = await self._read_all(self._passed_ts)
            await self._take(fresh, "damaged")
            return
        except BadInput as error:
            self._saves = False
            log.error("the schema's snapshot can't be written", error=str(error))
            return
        if not saved:
            self._saves = False
            log.warning("another Drainer writes the schema's snapshot", bucket=self._bucket.name)
            return
        self._saved_job = last_job
        await self._structures.remember(self._snapshot.revision, self._first_job, last_job)

    # Waiting

    async def pause(self, failures: int) -> None:
        """Back off before asking again."""
        pause_s = backoff_s(failures, BACKOFF_MIN_S, BACKOFF_MAX_S, self._ports.rng)
        await self._ports.clock.sleep(pause_s)

    async def _until_answered(self, why: str, ask: Callable[[], Awaitable[object]]) -> None:
        failures = 0
        while True:
            try:
                await ask()
            except (Unavailable, StreamMissing, DiskFull) as error:
                self.waiting = f"{why}: {error}"
                if not failures:
                    log.warning("the feed waits", why=why, error=str(error))
                await self.pause(failures)
                failures += 1
                continue
            self.waiting = ""
            return
