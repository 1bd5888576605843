"""Which table an id meant at which schema version, and what each DDL did (design section 8).

Jobs are applied in the order of BinlogInfo.SchemaVersion (appendix B.11), whatever the order they
come in. A mutation is decoded with the newest TableInfo whose version is at most its own; `fold`
lets go of the jobs that nobody asks about any more, and keeps of each table what they made of it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator

import msgspec

from tidelog.schema import jobs as kinds
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog.schema.folded import Folded, State
from tidelog.schema.handlers import apply
from tidelog.schema.history import Affected, Change, Schemas, TableAt, named_only, unpacked
from tidelog.schema.model import DdlJob
from tidelog.schema.renames import session_of
from tidelog.schema.steps import Step, changes_schema, step_of

SYSTEM_SCHEMAS = frozenset(
    ("mysql", "information_schema", "performance_schema", "metrics_schema", "sys", "tidb_binlog")
)
WAITING_JOBS = 4096
"""A writer that died between a job and its binlog holds no more of them than that."""
BRIEF_ABOVE = 1000
"""Of a schema with more tables than that, DROP DATABASE tells only which they are: a table of ten
columns takes 10 KiB and more once it is decoded, and up to 0.3 ms."""
_SETVAL = re.compile(r"\s*select\s+setval\s*\(", re.IGNORECASE)


class DdlOutcome(msgspec.Struct, frozen=True):
    """What a DDL binlog means.

    `kind` is the job type's snake_case name; `db` the schema an unqualified query ran in;
    `affected` in the order the DDL touched them (a RENAME of several tables step by step);
    `system`: a schema of the server itself; `changes_nothing`: rolled back, or the first of the two
    binlogs of DROP COLUMN; `brief`: `affected` has names and ids, and no columns (BRIEF_ABOVE).
    """

    job_id: int
    kind: str
    db: str
    affected: tuple[Affected, ...]
    schema_version: int
    system: bool
    changes_nothing: bool
    brief: bool = False


def is_setval(query: str) -> bool:
    """`SELECT SETVAL(…)` comes as a DDL binlog whose job is in no history (fixtures README)."""
    return _SETVAL.match(query) is not None


class SchemaTracker:
    """Schema history by version. Not thread-safe; owned by one actor.

    Whatever answers with tables raises TablesAway where one lies in a page of the snapshot: give
    that page to `folded` and ask again.
    """

    def __init__(self) -> None:
        self.reset(Folded(), ())

    def reset(self, folded: Folded, steps: Iterable[Step]) -> None:
        """Go on from a snapshot: what is folded, and the jobs above it."""
        self.folded = folded
        self.version = folded.version
        """The highest schema version applied."""
        self.seen_version = folded.version
        """The highest schema version of any job, rolled back ones included."""
        self.last_job = folded.last_job
        self.finished_ts = folded.ts
        """The newest FinishedTS of any job."""
        self._steps: dict[int, Step] = {}
        self._by_version: list[Step] | None = None
        """None: to be sorted again."""
        self._schemas: Schemas | None = None
        """`folded` and all steps above it; None: to be made again."""
        self._applied = 0
        self._outcomes: dict[int, tuple[Change, ...]] = {}
        self._sessions: dict[int, str] = {}
        """By job the schema of its query's unqualified names."""
        self._touching: dict[int, list[tuple[int, int]]] = {}
        """Per table id, (version, job id) of the jobs that changed it, rising."""
        self._take(steps)

    def add_jobs(self, jobs: Iterable[DdlJob], *, wanted: int = 0) -> None:
        """Apply jobs in any order; a job known already changes nothing, unless its state did.

        A job older than the newest one applied makes the tracker apply all of them again. A job
        that was folded is known, unless it is the one `wanted`.
        """
        self._take(step_of(job, self.finished_ts) for job in jobs if self._is_news(job, wanted))

    def add_steps(self, steps: Iterable[Step]) -> None:
        """Jobs that another tracker knows and this one doesn't."""
        self._take(
            step
            for step in steps
            if step.id not in self._steps and not self.folded.includes(step.id, step.finished_ts)
        )

    def fold(
        self,
        upto_ts: int,
        *,
        keep: int,
        at_least: int = 1,
        waits: Callable[[Step], bool] = lambda step: False,
    ) -> int:
        """Let go of the jobs whose binlogs lie at or below `upto_ts`, but for the newest `keep`,
        if there are `at_least` so many. Returns how many. Mutations of a version below theirs get
        what they made. `waits`: the binlog of a job whose writer takes FinishedTS before it commits
        that is still to come, whatever came behind it; those from there on stay, too, but for the
        oldest where they are more than WAITING_JOBS.
        """
        done = sorted(step.id for step in self._steps.values() if step.finished_ts <= upto_ts)
        del done[max(0, len(done) - keep) :]
        waiting = min((step.id for step in self._steps.values() if waits(step)), default=None)
        if waiting is not None:
            over = len(self._steps) - WAITING_JOBS
            done = [one for at, one in enumerate(done) if one < waiting or at < over]
        if len(done) < at_least:
            return 0
        steps = [self._steps.pop(job_id) for job_id in done]
        self._by_version = None
        schemas = Schemas(self.folded)
        for step in sorted(steps, key=lambda step: step.version):
            if changes_schema(step):
                apply(schemas, step)
                self.folded.version = max(self.folded.version, step.version)
            # A binlog that comes behind FinishedTS lies anywhere up to here.
            ends_ts = upto_ts if step.told_before else step.finished_ts
            self.folded.ts = max(self.folded.ts, ends_ts)
        self.folded.last_job = max(self.folded.last_job, done[-1])
        self.folded.dbs, self.folded.dropped_dbs = schemas.dbs, schemas.dropped_dbs
        self.folded.absorb(schemas.newest())
        self._schemas = None
        return len(done)

    def again(self) -> None:
        """`folded` was changed from outside: its tables lie elsewhere."""
        self._schemas = None

    @property
    def unfolded(self) -> int:
        return len(self._steps)

    @property
    def settled(self) -> int:
        """No job up to this schema version is left to be asked for: all are folded."""
        left = (step.version - 1 for step in self._steps.values() if changes_schema(step))
        return min(self.folded.version, min(left, default=self.folded.version))

    def steps(self) -> list[Step]:
        """The jobs that are not folded, by id."""
        return sorted(self._steps.values(), key=lambda step: step.id)

    def table(self, table_id: int, schema_version: int) -> TableAt:
        """The newest state of a table id at or below a schema version. Raises UnknownTable, also
        when the table was dropped or truncated by then; TablesAway.

        A mutation may be one schema version behind a DDL that the stream has passed. Columns are
        found by id, so decoding with the larger of the two versions is right, and names the
        columns as the readers of the stream know them.
        """
        found = self._above().at(table_id, schema_version)
        if found is None:
            raise UnknownTable(table_id, schema_version)
        return unpacked(self.folded.whole((found,))[0])

    def names(self, table_id: int) -> set[tuple[str, str]]:
        """Schema and name of a table, under every version that is still known."""
        return {(state.db, state.table.name) for state in self._above().states(table_id)}

    def tables(self) -> Iterator[State]:
        """Every version of every table, those of the server's own schemas left out."""
        return (one for one in self._above().every() if one.db.lower() not in SYSTEM_SCHEMAS)

    def is_dropped_or_truncated(self, table_id: int, schema_version: int) -> bool:
        """Whether the id belonged to a table that was gone by this version.

        A transaction that began before the DDL may commit after it and still carry the old
        version: ask with the larger of the mutation's version and the last DDL's that the stream
        passed. Such a mutation is discarded and counted by the caller.
        """
        return self._above().ended(table_id, schema_version)

    def ddl(self, job_id: int, schema_state: int | None = None) -> DdlOutcome:
        """What the binlog of a job means; `schema_state` is the binlog's ddl_schema_state, which
        tells the two binlogs of DROP COLUMN apart. Raises UnknownJob, TablesAway."""
        job = self._steps.get(job_id)
        if job is None:
            raise UnknownJob(job_id)
        self._above()
        changes = self._outcomes.get(job_id, ())
        first_of_two = (
            job.type in (kinds.DROP_COLUMN, kinds.DROP_COLUMNS)
            and schema_state == kinds.STATE_DELETE_ONLY
        )
        brief = job.type == kinds.DROP_SCHEMA and len(changes) > BRIEF_ABOVE
        names = {job.schema_name.lower()} | {one.db.lower() for one in changes}
        return DdlOutcome(
            job_id=job_id,
            kind=kinds.kind_name(job.type),
            db=self._sessions.get(job_id, job.schema_name),
            affected=() if first_of_two else self._affected(changes, brief=brief),
            schema_version=job.version,
            system=names <= SYSTEM_SCHEMAS,
            changes_nothing=first_of_two or not changes_schema(job),
            brief=brief,
        )

    def query_of(self, job_id: int) -> str:
        """A job's text, "" if it is unknown or folded."""
        step = self._steps.get(job_id)
        return step.query if step is not None else ""

    def step(self, job_id: int) -> Step | None:
        """A job; None if it is unknown or folded."""
        return self._steps.get(job_id)

    def between(self, after: int, below: int) -> list[Step]:
        """Jobs of schema versions in (after, below), not folded yet, by version."""
        return [step for step in self._of_versions(after, below) if changes_schema(step)]

    def gaps(self, after: int, below: int) -> list[int]:
        """Schema versions in (after, below), not folded yet, that no known job has: steps on the
        way of a job, and jobs that the history has not told of."""
        after = max(after, self.folded.version)
        known = {step.version for step in self._of_versions(after, below)}
        return [one for one in range(after + 1, below) if one not in known]

    def known_upto(self, after: int, given_ts: int) -> int:
        """The schema version up to which every job is known, if it is up to `after`. A job enters
        the history when it is done, and those of other tables in any order: a higher version that
        is known tells nothing of lower ones. These are known: versions without a gap; whatever is
        not above a version that was given by `given_ts`, where the history was asked so much later
        that all of then had entered it; and what a Writer of ours built on, which tells its jobs
        one by one.
        """
        given = (
            step.version
            for step in self._steps.values()
            if step.told_before or step.finished_ts <= given_ts
        )
        upto = max(after, self.folded.version, *given)
        for step in self._of_versions(upto, self.seen_version + 1):
            if step.version > upto + 1:
                break
            upto = step.version
        return upto

    def _of_versions(self, after: int, below: int) -> list[Step]:
        """Jobs of schema versions in (after, below), rolled back ones included, by version."""
        if below - after <= 1:
            return []
        if self._by_version is None:
            self._by_version = sorted(self._steps.values(), key=lambda step: step.version)
        begins = bisect_right(self._by_version, after, key=lambda step: step.version)
        ends = bisect_left(self._by_version, below, key=lambda step: step.version)
        return self._by_version[begins:ends]

    def touched(self, job_id: int) -> set[int]:
        """Ids of the tables that a job changed, none if it is unknown or folded."""
        self._above()
        return _touched(self._outcomes.get(job_id, ()))

    def version_at(self, commit_ts: int) -> int:
        """The schema version that the stream had passed at `commit_ts`, as near as the history
        tells: a job's FinishedTS is never below its binlog's commit_ts (fixtures README), but for
        one that was told before it."""
        passed = [
            step.version
            for step in self._steps.values()
            if step.finished_ts <= commit_ts and changes_schema(step)
        ]
        return max([self.folded.version if self.folded.ts <= commit_ts else 0, *passed])

    def jobs_between(self, table_id: int, after: int, up_to: int) -> list[int]:
        """Ids of the jobs that changed a table at versions in (after, up_to], in their order.

        TiDB sends a DDL's binlog only after its last schema version is in use: mutations of that
        version, with its new columns, come before it. A Drainer that meets one whose table is newer
        than the last DDL it forwarded finds here what to forward first.
        """
        self._above()
        touching = self._touching.get(table_id, [])
        if not touching or touching[-1][0] <= after:
            return []
        return [job_id for version, job_id in touching if after < version <= up_to]

    def _is_news(self, job: DdlJob, wanted: int) -> bool:
        known = self._steps.get(job.id)
        if known is not None:
            return known.state != job.state or known.version != job.version
        finished_ts = job.binlog.finished_ts if job.binlog is not None else 0
        return job.id == wanted or not self.folded.includes(job.id, finished_ts)

    def _take(self, steps: Iterable[Step]) -> None:
        new: list[Step] = []
        self._by_version = None
        for step in steps:
            self._steps[step.id] = step
            self.finished_ts = max(self.finished_ts, step.finished_ts)
            self.last_job = max(self.last_job, step.id)
            self.seen_version = max(self.seen_version, step.version)
            if changes_schema(step):
                self.version = max(self.version, step.version)
                new.append(step)
        new.sort(key=lambda step: step.version)
        if self._schemas is None or (new and new[0].version <= self._applied):
            self._schemas = None
        else:
            self._apply(self._schemas, new)

    def _above(self) -> Schemas:
        if self._schemas is None:
            self._schemas = Schemas(self.folded)
            self._outcomes = {}
            self._sessions = {}
            self._touching = {}
            self._applied = 0
            steps = [step for step in self._steps.values() if changes_schema(step)]
            self._apply(self._schemas, sorted(steps, key=lambda step: step.version))
        return self._schemas

    def _apply(self, schemas: Schemas, steps: list[Step]) -> None:
        for step in steps:
            self._sessions[step.id] = _session_db(schemas, step)
            changes = self._outcomes[step.id] = apply(schemas, step)
            for table_id in _touched(changes):
                self._touching.setdefault(table_id, []).append((step.version, step.id))
            self._applied = step.version

    def _affected(self, changes: tuple[Change, ...], *, brief: bool) -> tuple[Affected, ...]:
        states = [
            state for one in changes for state in (one.before, one.after) if state is not None
        ]
        tables = map(named_only, states) if brief else map(unpacked, self.folded.whole(states))
        whole = iter(list(tables))
        return tuple(
            Affected(
                one.db,
                next(whole) if one.before is not None else None,
                next(whole) if one.after is not None else None,
            )
            for one in changes
        )


def _touched(changes: tuple[Change, ...]) -> set[int]:
    states = [state for one in changes for state in (one.before, one.after)]
    return {state.table.id for state in states if state is not None}


def _session_db(schemas: Schemas, job: Step) -> str:
    """As it is written: of a job's schema TiDB keeps the name in lower case. (Placement policies
    and resource groups have ids and names of their own there.)"""
    session = session_of(schemas, job)
    name = schemas.dbs.get(session, job.schema_name)
    if session == job.schema_id and name.lower() != job.schema_name.lower():
        name = job.schema_name
    return job.db_name or name
