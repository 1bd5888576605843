"""The jobs of the DDL history that the texts in pb_binlog files stand for. Pure.

A text has no job id, and is not the job's own: TiDB writes it anew. But a job ends right after its
binlog is committed (`SchemaTracker.version_at`), so the next one to end that says the same is it.
Our Writer's jobs are told right before their binlogs, so of these the last one is it; clients may
overtake one another between the two, but then the text, which is the job's own, tells them apart.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import final

from tidelog.changes import DdlMessage
from tidelog.decode.ddl_policy import DdlPolicy
from tidelog.decode.doubts import DOUBT_MS
from tidelog.drainer_control import SKIP, STOP, Ddl
from tidelog.filter.lists import SYSTEM
from tidelog.schema.errors import UnknownTable
from tidelog.schema.steps import Step, changes_schema
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import DdlOutcome, SchemaTracker, is_setval
from tidelog.timestamps import LOGICAL_BITS
from tidelog_backfill.replay.errors import DdlNotDecided, DdlNotTold
from tidelog_backfill.replay.pb_ddls import TextDdl, bare, message, told_apart
from tidelog_backfill.replay.routing import Place

ENDS_WITHIN_MS = 600_000
"""A job, after its binlog, or the binlog after a job that was told before it: servers that don't
answer are waited for."""
_WITHIN = ENDS_WITHIN_MS << LOGICAL_BITS
_finished = attrgetter("finished_ts")


@final
class HistorySchemas:
    """`ends`: the last commit_ts of the files; `texts`: all that they have. `left_out`: DDLs that
    are not run, by reason."""

    def __init__(
        self,
        tracker: SchemaTracker,
        policy: dict[str, str],
        begins: int,
        ends: int,
        texts: Iterable[TextDdl],
    ) -> None:
        self._tracker = tracker
        self._policy = DdlPolicy(policy)
        self._base = _tables_at(tracker, begins)
        steps = filter(changes_schema, tracker.steps())
        self._left = sorted((one for one in steps if _ends(one) >= begins), key=_finished)
        """Jobs whose binlogs may be in the files."""
        self._pass_earlier(min(ends, begins + (DOUBT_MS << LOGICAL_BITS)), texts)
        self.left_out: dict[str, int] = Counter()
        self.forgotten: list[tuple[int, Place]] = []

    def _pass_earlier(self, upto: int, texts: Iterable[TextDdl]) -> None:
        """A TiDB's job ends a little behind its binlog: that of one that ends up to there stands
        before the files, if it is none of theirs (compare `tidelog.decode.doubts`)."""
        near = [ddl for ddl in texts if ddl.commit_ts <= upto]
        doubtful = [one for one in self._left if not one.told_before and one.finished_ts <= upto]
        for step in sorted(doubtful, key=attrgetter("version")):
            if any(self._is(step, ddl) for ddl in near):
                continue
            self._left.remove(step)
            for one in self._tracker.ddl(step.id).affected:
                if one.before is not None:
                    self._base.pop((one.before.db.lower(), one.before.name.lower()), None)
                if one.after is not None:
                    place = one.after.db.lower(), one.after.name.lower()
                    self._base[place] = structure(one.after)

    def base(self, db: str, name: str) -> TableStructure | None:
        """A table as it was where the files begin."""
        return self._base.get((db.lower(), name.lower()))

    def message(self, ddl: TextDdl) -> DdlMessage | None:
        """None: nothing is to be run. Raises DdlNotTold, DdlNotDecided."""
        if is_setval(ddl.query):
            self.left_out["setval"] += 1
            return None
        step = self._step(ddl)
        if step is None:
            raise DdlNotTold(ddl, "the DDL history has no job that may be it")
        self._left.remove(step)
        outcome = self._tracker.ddl(step.id)
        if outcome.system:
            self.left_out[SYSTEM] += 1
            return None
        action = self._policy.action(outcome.kind, step.id)
        if action == STOP:
            raise DdlNotDecided(
                Ddl(ddl.commit_ts, step.id, outcome.kind, ddl.db, ddl.query[:500], "undecided")
            )
        if action == SKIP:
            self.left_out[self._policy.reason(outcome.kind, step.id)] += 1
            return None
        return message(ddl, [outcome])

    def _step(self, ddl: TextDdl) -> Step | None:
        begin = bisect_left(self._left, ddl.commit_ts - _WITHIN, key=_finished)
        end = bisect_right(self._left, ddl.commit_ts + _WITHIN, key=_finished)
        near = sorted(self._left[begin:end], key=lambda one: _rank(one, ddl))
        return next((one for one in near if self._is(one, ddl)), None)

    def _is(self, step: Step, ddl: TextDdl) -> bool:
        late = step.finished_ts - ddl.commit_ts
        if (late > 0) if step.told_before else (late < 0):
            return False
        own = told_apart(step.query)
        if own and [one.word for one in own[:1]] != [one.word for one in ddl.tokens[:1]]:
            return False
        outcome = self._tracker.ddl(step.id)
        dbs = {step.schema_name.lower(), outcome.db.lower()}
        if ddl.db and ddl.db.lower() not in dbs:
            return False
        return _names(step, outcome).issubset(ddl.names) or _by_job(ddl)


def _ends(step: Step) -> int:
    """Its binlog is looked for up to there."""
    return step.finished_ts + (_WITHIN if step.told_before else 0)


def _rank(step: Step, ddl: TextDdl) -> tuple[bool, int]:
    """The lowest of those that may be it is it. A Drainer may have written the text anew."""
    if step.told_before:
        return bare(step.query) != ddl.query, -step.version
    return False, step.version


def _names(step: Step, outcome: DdlOutcome) -> frozenset[str]:
    """What a text names that stands for the job."""
    if outcome.kind.endswith("_schema") or outcome.kind == "modify_schema_charset":
        return frozenset((step.schema_name.lower(),))
    named = (one.after or one.before for one in outcome.affected)
    return frozenset(table.name.lower() for table in named if table is not None)


def _by_job(ddl: TextDdl) -> bool:
    """RECOVER TABLE BY JOB 7 names none."""
    return [one.word for one in ddl.tokens[:4]] == ["RECOVER", "TABLE", "BY", "JOB"]


def _tables_at(tracker: SchemaTracker, ts: int) -> dict[Place, TableStructure]:
    version = tracker.version_at(ts)
    found: dict[Place, TableStructure] = {}
    for table_id in {one.table.id for one in tracker.tables()}:
        try:
            table = tracker.table(table_id, version)
        except UnknownTable:
            continue
        found[table.db.lower(), table.name.lower()] = structure(table)
    return found
