"""Reads what fake Pumps took as a Drainer would, into tables in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tidelog.rows.table_codec import TableCodec
from tidelog.rows.values import Value
from tidelog.schema.model import DdlJob
from tidelog.schema.tracker import SchemaTracker
from tidelog.workload.ledger import Committed, Event, digest
from tidelog.workload.outcomes import COMMITTED, Outcomes
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, PrewriteValue

Rows = list[dict[str, Value]]


class Replay:
    """`told`: commit_ts -> (rows, digest) as decoded. Tables are lists of rows."""

    def __init__(self, jobs: list[bytes]) -> None:
        self._tracker = SchemaTracker()
        self._tracker.add_jobs(msgspec.json.decode(job, type=DdlJob) for job in jobs)
        self.tables: dict[tuple[str, str], Rows] = {}
        self.told: dict[int, tuple[int, str]] = {}

    def run(self, pumps: Iterable[list[Binlog]], outcomes: Outcomes) -> None:
        """Every Pump's transactions, merged by commit_ts; what a Pump holds open it asks about.
        Two Pumps may hold one transaction; a Pump never gets two ends of one, but a late Rollback
        of a copy it asked about."""
        committed: dict[int, Binlog] = {}
        for binlogs in pumps:
            for commit_ts, prewrite in _committed(binlogs, outcomes):
                twin = committed.setdefault(commit_ts, prewrite)
                assert twin.SerializeToString() == prewrite.SerializeToString()
        for commit_ts, prewrite in sorted(committed.items()):
            self.apply(commit_ts, prewrite)

    def apply(self, commit_ts: int, prewrite: Binlog) -> None:
        """One committed transaction: its Prewrite, or the Commit a Pump made of it."""
        if prewrite.ddl_job_id:
            self.told[commit_ts] = (0, "")
            self._ddl(prewrite)
            return
        value = PrewriteValue.FromString(prewrite.prewrite_value)
        events: list[Event] = []
        for mutation in value.mutations:
            at = self._tracker.table(mutation.table_id, value.schema_version)
            rows = self.tables[at.db, at.name]
            for change in TableCodec(at.info).decode(mutation):
                events.append((at.db, at.name, change.op, change.before, change.after))
                if change.before is not None:
                    rows.remove(change.before)
                if change.after is not None:
                    rows.append(change.after)
        self.told[commit_ts] = (len(events), digest(events))

    def _ddl(self, prewrite: Binlog) -> None:
        outcome = self._tracker.ddl(prewrite.ddl_job_id, prewrite.ddl_schema_state)
        for one in outcome.affected:
            before = one.before and (one.before.db, one.before.name)
            rows = self.tables.pop(before, []) if before else []
            if one.after is None:
                continue
            if one.before is not None and one.before.info.id != one.after.info.id:
                rows = []
            codec = TableCodec(one.after.info)
            names = [column.name.text for column in one.after.info.columns]
            for row in rows:
                for name in set(row) - set(names):
                    del row[name]
                for name in names:
                    if name not in row:
                        row[name] = codec._columns[name].default([])
            self.tables[one.after.db, one.after.name] = rows

    async def fetch(self, db: str, table: str) -> list[dict[str, object]]:
        """For `compare`."""
        return [dict(row) for row in self.tables[db, table]]


def _committed(binlogs: list[Binlog], outcomes: Outcomes) -> Iterator[tuple[int, Binlog]]:
    """One Pump's transactions as it must see them, a copy that got a Rollback left out."""
    prewrites: dict[int, Binlog] = {}
    ends: dict[int, Binlog] = {}
    for binlog in binlogs:
        if binlog.tp == Prewrite:
            prewrites[binlog.start_ts] = binlog
        else:
            first = ends.setdefault(binlog.start_ts, binlog)
            assert (first.tp, first.commit_ts) == (binlog.tp, binlog.commit_ts), binlog
    for start_ts, prewrite in prewrites.items():
        end = ends.get(start_ts)
        if end is None:
            verdict = outcomes.verdict(start_ts, force=False)
            if verdict.state == COMMITTED:
                yield verdict.commit_ts, prewrite
        elif end.tp == Commit:
            yield end.commit_ts, prewrite


def told_by(ledger: list[Committed]) -> dict[int, tuple[int, str]]:
    """The ledger in the form of `Replay.told`."""
    return {one.commit_ts: (one.rows, one.digest) for one in ledger}
