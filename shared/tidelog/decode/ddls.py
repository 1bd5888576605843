"""A DDL's binlog into what the feed publishes of it, and DDLs that must come earlier than theirs.

TiDB sends a DDL's binlog only after its last schema version is in use: transactions of that
version may stand before it. Such a DDL is published early, with the first of them, and its own
binlog dropped. Pure but for the tracker it asks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import msgspec

from tidelog import subjects
from tidelog.changes import DdlMessage, DdlTable, structure_key
from tidelog.decode.config import DecodeConfig
from tidelog.decode.ddl_filter import DdlFilter
from tidelog.decode.ddl_policy import DdlPolicy
from tidelog.decode.doubts import Doubts
from tidelog.decode.errors import UndecidedDdl, Undecodable
from tidelog.decode.noted import Noted, shortened
from tidelog.decode.passed import Passed
from tidelog.decode.rewriting import Rewritten, rewritten
from tidelog.decode.transactions import DdlTxn
from tidelog.drainer_control import REWRITE, SKIP, STOP, Ddl
from tidelog.filter.filters import MARK, Filters
from tidelog.filter.lists import FILTER, SYSTEM
from tidelog.schema.errors import UnknownJob
from tidelog.schema.jobs import STATE_DELETE_ONLY, STATE_PUBLIC, kind_name
from tidelog.schema.steps import Step
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import DdlOutcome, SchemaTracker, is_setval
from tidelog_proto.binlog_pb2 import Binlog

REWRITTEN, NOTHING_LEFT, SETVAL = "rewritten", "nothing_left", "setval"

MAX_BEHIND = 64
"""Of the newest that are not passed: what a header of the stream can name, and as many jobs as are
kept when they are over."""
NEAR = 256
"""So far below the highest version it is looked for such as the history has not told of yet."""
_WITHOUT_BINLOG = frozenset(("cache_table", "nocache_table"))
_UNLISTED = frozenset((SYSTEM, FILTER, MARK, "rolled_back", "drop_column_first"))
"""Reasons that say nothing to who wants to know which DDLs of the feed's tables readers miss."""


class _Left(msgspec.Struct, frozen=True):
    """What a feed leaves of a DDL: text, and what it does. `why` it is not published as it came;
    `dropped`: not at all."""

    outcome: DdlOutcome
    query: str
    why: str = ""
    removed: tuple[str, ...] = ()
    dropped: bool = False


class Ddls:
    """`query_of` gives a job's text, which an early DDL can't take from its binlog."""

    def __init__(
        self,
        config: DecodeConfig,
        tracker: SchemaTracker,
        passed: Passed,
        query_of: Callable[[int], str],
        filters: Filters,
    ) -> None:
        self._feed = config.feed
        self._tracker = tracker
        self._passed = passed
        self._query_of = query_of
        self.policy = DdlPolicy(config.ddl_policy)
        self.doubts = Doubts()
        self.noted = Noted()
        self._filters = filters
        self._filter = DdlFilter(filters, sync_ddl=config.sync_ddl)
        self._begun_ts = 0
        self._told = True

    def decode(self, commit_ts: int, start_ts: int, binlog: Binlog) -> DdlTxn | None:
        """None: dropped, and counted. Raises UnknownJob, Undecodable."""
        try:
            query = binlog.ddl_query.decode()
        except UnicodeDecodeError as error:
            raise Undecodable(commit_ts, "its DDL is not UTF-8") from error
        try:
            outcome = self._tracker.ddl(binlog.ddl_job_id, binlog.ddl_schema_state)
        except UnknownJob:
            if not is_setval(query):
                raise
            self._passed.drop(SETVAL)
            self.noted.add(Ddl(commit_ts, binlog.ddl_job_id, SETVAL, "", query, SETVAL))
            return None
        if not outcome.changes_nothing and outcome.schema_version in self._passed.early:
            self._passed.early.discard(outcome.schema_version)
            self._passed.drop("early")
            return None
        left = self._left(commit_ts, outcome, query, binlog.ddl_schema_state)
        if not outcome.changes_nothing:
            self._pass(commit_ts, outcome)
        self._note(commit_ts, outcome, query, left)
        if left.dropped:
            self._passed.drop(left.why)
            return None
        return self._forwarded(commit_ts, start_ts, left.query, left.outcome)

    def early(
        self, commit_ts: int, start_ts: int, table_id: int, version: int
    ) -> tuple[list[DdlTxn], bool]:
        """The DDLs that must stand ahead of a transaction of this version, and whether any was
        passed, published or not. Raises InDoubt, UndecidedDdl, Undecodable."""
        ahead: list[DdlTxn] = []
        self._recall()
        known = self._passed.version_of(table_id)
        job_ids = self._tracker.jobs_between(table_id, known, version)
        met: list[tuple[DdlOutcome, str, _Left]] = []
        for job_id in job_ids:  # one that is not decided leaves no trace: all is asked again
            outcome, query = self._tracker.ddl(job_id), self._query_of(job_id)
            left = self._left(commit_ts, outcome, query, STATE_PUBLIC)
            if not left.dropped and self._readers_know(commit_ts, outcome):
                left = _Left(outcome, query, dropped=True)
            met.append((outcome, query, left))
        for outcome, query, left in met:
            self._pass(commit_ts, outcome)
            if left.dropped:
                continue  # counted and noted by its own binlog, if it has one
            self._note(commit_ts, outcome, query, left)
            self._passed.early.add(outcome.schema_version)
            ahead.append(self._forwarded(commit_ts, start_ts, left.query, left.outcome, early=True))
        return ahead, bool(job_ids)

    def begin(
        self,
        commit_ts: int,
        version: int,
        early: Collection[int],
        behind: Collection[int],
        coming: Collection[int] = (),
    ) -> None:
        """What is decoded lies above `commit_ts`, where the stream has passed the schema `version`
        (0: it doesn't say), but for the lower ones in `behind`; and brought those in `early` before
        their binlogs. `coming`: jobs whose binlogs are known to lie above it."""
        self._begun_ts, self._told = commit_ts, bool(version) or not commit_ts
        self.doubts.begin(commit_ts, told=self._told)
        base = max(version, self._tracker.version_at(commit_ts))
        left: dict[int, set[int]] = {}
        passed: set[int] = set()
        for step in reversed(self._pending(0, base + 1)):
            touched = self._tracker.touched(step.id)
            listed = step.version > version or step.version in behind
            waits = listed and not self._came_before(step) and self._is_met(touched)
            if step.id in coming or waits:
                left[step.version] = touched - passed  # a newer one that was passed tells of it
            else:
                passed |= touched
        self._passed.begin(base, early, left, self._unknown(base))

    def _came_before(self, step: Step) -> bool:
        """Its binlog lies at or below where the feed began."""
        return step.finished_ts <= self._begun_ts and not (self._told and step.told_before)

    def _is_met(self, table_ids: Collection[int]) -> bool:
        """By readers. Where they are left out no row ever asks for their DDLs, and these are not in
        the stream: what was passed of them would be waited for, for good."""
        names = (name for one in table_ids for name in self._tracker.names(one))
        return any(not self._filters.table(*name).reason for name in names)

    def _pass(self, commit_ts: int, outcome: DdlOutcome) -> None:
        """A job that was finished below that timestamp is not behind: its binlog was passed, or is
        of before the feed."""
        self._recall()
        between = self._pending(self._passed.highest, outcome.schema_version)
        behind = [s.version for s in between if s.told_before or s.finished_ts >= commit_ts]
        self._passed.note(outcome, behind[-MAX_BEHIND:])
        step = self._tracker.step(outcome.job_id)
        if step is not None and step.told_before:
            self._passed.told_at[outcome.schema_version] = commit_ts
        self._passed.unknown = set(self._unknown(self._passed.highest))

    def _unknown(self, below: int) -> list[int]:
        """The newest versions that the history has not told of."""
        return self._tracker.gaps(below - NEAR, below)[-MAX_BEHIND:]

    def _recall(self) -> None:
        """What the history has told of since a newer one was passed."""
        passed = self._passed
        if not passed.unknown:
            return
        for step in self._pending(min(passed.unknown) - 1, max(passed.unknown) + 1):
            if step.version not in passed.unknown:
                continue
            passed.unknown.discard(step.version)
            if self._came_before(step):
                continue
            touched = self._tracker.touched(step.id)
            for newer in self._pending(step.version, passed.base_version + 1):
                if newer.version not in passed.behind:  # it tells of this one
                    touched -= self._tracker.touched(newer.id)
            passed.leave(step.version, touched)

    def _pending(self, after: int, below: int) -> list[Step]:
        """Jobs of versions in (after, below) that have binlogs, not folded yet, by version."""
        found = self._tracker.between(after, below)
        return [step for step in found if kind_name(step.type) not in _WITHOUT_BINLOG]

    def _readers_know(self, commit_ts: int, outcome: DdlOutcome) -> bool:
        """Raises InDoubt."""
        step = self._tracker.step(outcome.job_id)
        if step is None or step.told_before or outcome.kind in _WITHOUT_BINLOG:
            return False
        return self.doubts.readers_know(outcome.job_id, commit_ts, step.finished_ts)

    def _left(self, commit_ts: int, outcome: DdlOutcome, query: str, schema_state: int) -> _Left:
        """Changes nothing. Raises UndecidedDdl, Undecodable."""
        if outcome.system:
            return _Left(outcome, query, SYSTEM, dropped=True)
        if outcome.changes_nothing:
            first = outcome.kind.startswith("drop_column") and schema_state == STATE_DELETE_ONLY
            why = "drop_column_first" if first else "rolled_back"
            return _Left(outcome, query, why, dropped=True)
        left = self._filter.left(commit_ts, outcome, query)
        if isinstance(left, str):
            return _Left(outcome, query, left, dropped=True)
        action = self.policy.action(outcome.kind, outcome.job_id)
        if action == STOP:
            ddl = _ddl(commit_ts, outcome, query, _Left(outcome, query, "undecided"))
            raise UndecidedDdl(self._feed, shortened(ddl))
        if action == SKIP:
            why = self.policy.reason(outcome.kind, outcome.job_id)
            return _Left(outcome, query, why, dropped=True)
        done = rewritten(query) if action == REWRITE else Rewritten(query)
        if done.removed and not done.query:
            return _Left(outcome, query, NOTHING_LEFT, done.removed, dropped=True)
        named = self._filter.text(commit_ts, outcome, left, done.query)
        return _Left(left, named, REWRITTEN if done.removed else "", done.removed)

    def _note(self, commit_ts: int, outcome: DdlOutcome, query: str, left: _Left) -> None:
        if left.why and left.why not in _UNLISTED:
            self.noted.add(_ddl(commit_ts, outcome, query, left))

    def _forwarded(
        self,
        commit_ts: int,
        start_ts: int,
        query: str,
        outcome: DdlOutcome,
        *,
        early: bool = False,
    ) -> DdlTxn:
        tables: list[DdlTable] = []
        structures: dict[str, TableStructure] = {}
        for one in outcome.affected:
            before = structure(one.before) if one.before is not None else None
            after = structure(one.after) if one.after is not None else None
            db_before = one.before.db if one.before is not None else ""
            db_after = one.after.db if one.after is not None else ""
            tables.append(DdlTable(db_before, db_after, before, after))
            for db, shape in ((db_before, before), (db_after, after)):
                if shape is not None and not outcome.brief:
                    structures[structure_key(db, shape)] = shape
        first = tables[0] if tables else DdlTable()
        shown = first.after or first.before
        message = DdlMessage(
            commit_ts=commit_ts,
            query=query,
            kind=outcome.kind,
            db=outcome.db,
            schema_version=outcome.schema_version,
            table=first.after,
            tables=tables,
            early=early,
            brief=outcome.brief,
        )
        subject = subjects.changes_ddl(
            self._feed,
            first.db_after or first.db_before or outcome.db,
            shown.name if shown is not None else "",
        )
        passed = self._passed
        return DdlTxn(
            commit_ts,
            start_ts,
            subject,
            message,
            structures,
            outstanding=tuple(sorted(passed.early)),
            highest=passed.highest,
            behind=tuple(sorted(passed.behind | passed.unknown)),
        )


def _ddl(commit_ts: int, outcome: DdlOutcome, query: str, left: _Left) -> Ddl:
    job_id, removed = outcome.job_id, list(left.removed)
    return Ddl(commit_ts, job_id, outcome.kind, outcome.db, query, left.why, removed)
