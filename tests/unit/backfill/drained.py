"""Recorded transactions as a survey of a Pump's log would tell of them, and as they are decoded by
a plan's views; and what the Drainer's decoder makes of the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import msgspec

from tidelog.decode.config import DecodeConfig
from tidelog.decode.decoder import Decoder
from tidelog.decode.envelope import TidelogTable
from tidelog.decode.transactions import DdlTxn, RowTxn
from tidelog.filter.loopback import has_channel
from tidelog.filter.rows import without
from tidelog.rows.payload import read_payload
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.history import TableAt
from tidelog.schema.model import TableInfo
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.chunk import Chunk, Facts, FoundDdl, FoundVersion, Run
from tidelog_backfill.files.view import Span, TableView, View
from tidelog_backfill.replay.plan import Plan
from tidelog_proto.binlog_pb2 import Binlog

Done = tuple[str, int, object]
"""A DDL: "ddl", schema version, text. Rows of a transaction in a table: name, commit_ts, body."""


class PumpLog:
    """Committed binlogs in log order; the number of each is its offset."""

    def __init__(self, binlogs: Sequence[Binlog]) -> None:
        self.binlogs = list(binlogs)
        self.payloads = [one.SerializeToString() for one in binlogs]

    def facts(self, cuts: Sequence[int] = ()) -> list[Facts]:
        """In chunks that begin at `cuts`."""
        end = len(self.binlogs)
        bounds = [0, *sorted({cut for cut in cuts if 0 < cut < end}), end]
        return [self._facts(begin, upto) for begin, upto in pairwise(bounds)]

    def _facts(self, begin: int, end: int) -> Facts:
        ddls, runs = [], []
        versions: dict[tuple[int, int], list[int]] = {}
        for at in range(begin, end):
            payload, ts = self.payloads[at], self.binlogs[at].commit_ts
            value = read_payload(payload)
            if self._is_ddl(at):
                ddls.append(FoundDdl(ts, self.binlogs[at].start_ts, payload))
                continue
            runs.append(Run(ts, ts, 1, len(payload), at, at + 1))
            for one in value.mutations:
                versions.setdefault((one.table_id, value.schema_version), []).append(ts)
        times = [one.commit_ts for one in self.binlogs[begin:end]]
        return Facts(
            Chunk("segment", "value/000000.vlog", begin, end),
            begin,
            end,
            rows=len(runs),
            first_ts=min(times),
            last_ts=max(times),
            ddls=ddls,
            versions=[
                FoundVersion(version, min(found), max(found), len(found), table_id)
                for (table_id, version), found in versions.items()
            ],
            runs=sorted(runs, key=lambda run: run.first_ts),
        )

    def _is_ddl(self, at: int) -> bool:
        """TiDB writes a job id of 0, too."""
        return bool(self.binlogs[at].ddl_job_id or self.binlogs[at].ddl_query)

    def done(self, plan: Plan) -> list[Done]:
        """What the downstream is told, segment by segment."""
        found: list[Done] = []
        for segment in plan.segments:
            found += [("ddl", one.schema_version, one.query) for one in segment.ddls]
            places = {at for chunk in segment.chunks for at in range(chunk.begin, chunk.end)}
            ordered = sorted(places, key=lambda at: self.binlogs[at].commit_ts)
            for at in ordered:
                found += self._rows(at, segment.view)
        return found

    def _rows(self, at: int, view: View) -> Iterator[Done]:
        (span,) = view.spans
        ts = self.binlogs[at].commit_ts
        value = read_payload(self.payloads[at])
        inside = span.after_ts < ts <= span.until_ts and ts not in view.ignored_txns
        if not inside or self._is_ddl(at) or self._is_echo(at, span, view.channel_id):
            return
        views = {(one.table_id, one.version): one for one in span.tables}
        for mutation in value.mutations:
            one = views.get((mutation.table_id, value.schema_version))
            if one is None:
                assert mutation.table_id in span.dropped
                continue
            kept, _ = without(mutation, one.ignored)
            if kept.sequence:
                own = one.version >= one.known_version
                events, _ = _table(one).events(kept, own, ts, 0, 0)
                yield f"{one.db}.{one.name}", ts, _table(one).message(events)[0]

    def _is_echo(self, at: int, span: Span, channel_id: int) -> bool:
        value = read_payload(self.payloads[at])
        marks = {(one.table_id, one.version): one for one in span.marks}
        return any(
            has_channel(TableCodec(_info(mark)).decode(mutation), channel_id)
            for mutation in value.mutations
            if (mark := marks.get((mutation.table_id, value.schema_version)))
        )


def _info(view: TableView) -> TableInfo:
    return msgspec.json.decode(view.info, type=TableInfo)


def _table(view: TableView) -> TidelogTable:
    return TidelogTable(
        view.db, view.name, TableAt(view.db, view.name, view.known_version, _info(view))
    )


def drained(
    binlogs: Sequence[Binlog], tracker: SchemaTracker, config: DecodeConfig
) -> tuple[list[Done], dict[str, int]]:
    """What the Drainer makes of them in the order of commit_ts, and what it drops."""
    decoder = Decoder(config, tracker, tracker.query_of)
    decoder.allowed_version = 1 << 40
    found: list[Done] = []
    for one in sorted(binlogs, key=lambda one: one.commit_ts):
        item = decoder.decode((one.commit_ts, one.start_ts, one.SerializeToString()))
        if isinstance(item, DdlTxn):
            found.append(("ddl", item.message.schema_version, item.message.query))
        elif isinstance(item, RowTxn):
            ddls = [one.message for one in item.ddls]
            found += [("ddl", ddl.schema_version, ddl.query) for ddl in ddls]
            for rows in item.tables:
                body, _ = rows.route.envelope.message(rows.events)
                found.append(
                    (f"{rows.route.table.db}.{rows.route.table.name}", one.commit_ts, body)
                )
    return found, decoder.passed.dropped
