"""Pumps' logs: DDLs by the history's jobs, and how rows are decoded between them. Pure.

What the Drainer does transaction by transaction is done here once for each DDL, and for each schema
version of a table at the first transaction that has it: nothing else changes how rows are decoded
(docs/adr/0005).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from google.protobuf.message import DecodeError

from tidelog.changes import DdlMessage
from tidelog.decode.config import DecodeConfig
from tidelog.decode.ddls import Ddls
from tidelog.decode.doubts import InDoubt
from tidelog.decode.errors import UndecidedDdl, Undecodable
from tidelog.decode.passed import Passed
from tidelog.errors import Conflict
from tidelog.filter.filters import Filters
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.names import Names
from tidelog_backfill.replay.errors import DdlNotDecided
from tidelog_backfill.replay.outline import Limit, Outline, Stretch
from tidelog_backfill.replay.table_views import Met, TableViews
from tidelog_proto.binlog_pb2 import Binlog


def outline(
    facts: Sequence[Facts],
    tracker: SchemaTracker,
    config: DecodeConfig,
    names: Names,
    until_ts: int,
) -> Outline:
    """Of what was committed up to `until_ts`. Raises UnknownJob and UnknownTable where the history
    is too short, DdlNotDecided, Undecodable, Conflict."""
    times = [ts for one in facts for ts in (one.first_ts, one.last_ts) if ts]
    times += [ddl.commit_ts for one in facts for ddl in one.ddls]
    begins, ends = min(times, default=1) - 1, max(times, default=0)
    ddls = _ddls(facts)
    met = _met(facts)
    walk = _Walk(begins, ddls, tracker, config, names)
    arrivals = {ts: list(group) for ts, group in groupby(met, key=lambda one: one.first_ts)}
    for ts in sorted(ts for ts in ddls.keys() | arrivals.keys() if ts <= until_ts):
        if ts in ddls:
            walk.ddl(ddls[ts])
        if ts in arrivals:
            walk.rows(ts, arrivals[ts])
    return walk.outline(ends, met)


def shorter(facts: Iterable[Facts]) -> Iterator[Limit]:
    """Pumps' logs that end before the newest of them: what they lack may be committed before that.
    Whatever a log gets later has a commit_ts above all that it has."""
    facts = list(facts)
    newest = max((one.last_ts for one in facts), default=0)
    ends: dict[Path, int] = {}
    for one in facts:
        if one.chunk.kind == "segment":
            log = Path(one.chunk.path).parent
            ends[log] = max(ends.get(log, 0), one.last_ts, one.fake_ts)
    for log, end in ends.items():
        if end < newest:
            yield Limit(
                end, f"{log} ends there, and another Pump's log does not", "it lacks the rest"
            )


def _ddls(facts: Iterable[Facts]) -> dict[int, Binlog]:
    """By commit_ts; several Pumps may have the same. Raises Conflict, Undecodable."""
    found: dict[int, Binlog] = {}
    for one in facts:
        for ddl in one.ddls:
            try:
                binlog = Binlog.FromString(ddl.payload)
            except DecodeError as error:
                raise Undecodable(ddl.commit_ts, "its bytes are no binlog") from error
            if found.setdefault(ddl.commit_ts, binlog).start_ts != binlog.start_ts:
                raise Conflict(
                    f"two DDLs have the commit_ts {ddl.commit_ts}",
                    hint="replay the logs of one cluster at a time",
                )
    return found


def _met(facts: Iterable[Facts]) -> list[Met]:
    """Of all chunks together, by their first."""
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for one in facts:
        for seen in one.versions:
            key = seen.table_id, seen.version
            first, last = spans.get(key, (seen.first_ts, seen.last_ts))
            spans[key] = min(first, seen.first_ts), max(last, seen.last_ts)
    met = [Met(*key, *span) for key, span in spans.items()]
    return sorted(met, key=lambda one: (one.first_ts, one.table_id, one.version))


def _short_history(newer: Sequence[Met], known: int) -> Limit:
    newest, first_ts = max(one.version for one in newer), min(one.first_ts for one in newer)
    return Limit(
        first_ts - 1,
        f"rows have schema versions up to {newest} from {first_ts} on, the DDL history ends at"
        f" {known}",
        "they are decoded as it says",
    )


class _Walk:
    """Through the log, by commit_ts."""

    def __init__(
        self,
        begins: int,
        ddls: dict[int, Binlog],
        tracker: SchemaTracker,
        config: DecodeConfig,
        names: Names,
    ) -> None:
        self._begins = self._after = begins
        self._binlogs = ddls
        self._tracker = tracker
        self._passed = Passed()
        self._ddls = Ddls(config, tracker, self._passed, tracker.query_of, Filters(config))
        self._ddls.begin(begins, 0, (), (), {one.ddl_job_id for one in ddls.values()})
        self._views = TableViews(config, tracker, self._passed, names)
        self._stretches: list[Stretch] = []
        self._waiting: list[DdlMessage] = []
        self._met: list[Met] = []
        """Versions that the rows of this stretch may have."""

    def ddl(self, binlog: Binlog) -> None:
        """Its own binlog, which no rows have the commit_ts of."""
        commit_ts = binlog.commit_ts
        self._end(commit_ts - 1)
        try:
            done = self._ddls.decode(commit_ts, binlog.start_ts, binlog)
        except UndecidedDdl as error:
            raise DdlNotDecided(error.ddl) from error
        self._begin(commit_ts, [done.message] if done is not None else [])

    def rows(self, ts: int, met: Sequence[Met]) -> None:
        """The first transaction with rows of these versions, behind the DDLs that it needs."""
        newer = [one for one in met if self._needs_ddls(one)]
        if newer:
            self._end(ts - 1)
            ahead = [ddl for one in newer for ddl in self._early(ts, one)]
            self._begin(ts - 1, sorted(ahead, key=lambda ddl: ddl.schema_version))
        self._met += met

    def outline(self, ends: int, met: Iterable[Met]) -> Outline:
        """`met`: all that the log has."""
        self._end(max(ends, self._after))
        if self._waiting:
            self._stretches.append(Stretch(self._after, self._after, self._waiting))
        known = self._tracker.seen_version
        newer = [one for one in met if one.version > known]
        limits = [_short_history(newer, known)] if newer else []
        return Outline(self._begins, ends, self._stretches, self._passed.dropped, limits=limits)

    def _needs_ddls(self, one: Met) -> bool:
        known = self._passed.version_of(one.table_id)
        return bool(self._tracker.jobs_between(one.table_id, known, one.version))

    def _early(self, ts: int, one: Met) -> list[DdlMessage]:
        while True:
            try:
                ahead, _ = self._ddls.early(ts, 0, one.table_id, one.version)
            except InDoubt as doubt:
                comes = any(
                    ts < later <= doubt.upto and binlog.ddl_job_id == doubt.job_id
                    for later, binlog in self._binlogs.items()
                )
                self._ddls.doubts.settle(doubt.job_id, comes=comes)
            except UndecidedDdl as error:
                raise DdlNotDecided(error.ddl) from error
            else:
                return [done.message for done in ahead]

    def _end(self, until: int) -> None:
        """Before anything more is passed: the stretch is decoded by what was until then."""
        if until > self._after:
            made = self._views.stretch(self._after, until, self._met)
            self._stretches.append(msgspec.structs.replace(made, ddls=self._waiting))
            self._waiting = []
        self._met = [one for one in self._met if one.last_ts > until]

    def _begin(self, after: int, ddls: Iterable[DdlMessage]) -> None:
        self._after = max(self._after, after)
        self._waiting += ddls
