"""Relay logs by hand: what a survey would tell of them, and what a replay has to come to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise

import msgspec

from tidelog.changes import DdlMessage, DdlTable
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.chunk import Chunk, Facts, FoundDdl, FoundVersion, Run
from tidelog_backfill.replay.plan import Plan, Segment

PATH = "relay/relay-000000"
SIZE = 100
"""Bytes of a record."""
_json = msgspec.json.Encoder().encode


class Batch(msgspec.Struct, frozen=True):
    """One transaction with `rows` rows, in so many `pieces`; DDLs before it, or alone."""

    commit_ts: int
    rows: int = 0
    ddls: tuple[DdlMessage, ...] = ()
    pieces: int = 0

    @property
    def records(self) -> int:
        return self.pieces + 1


def ddl(
    commit_ts: int, version: int, *, early: bool = False, db: str = "shop", table: str = "orders"
) -> DdlMessage:
    """An ALTER of one table."""
    shape = TableStructure(table, version)
    tables = [DdlTable(db, db, TableStructure(table, version - 1), shape)]
    query = f"ALTER TABLE {table} COMMENT '{version}'"
    return DdlMessage(
        commit_ts, query, "modify_table_comment", db, version, shape, tables, early=early
    )


class Log:
    """Batches in their order, cut into chunks at the records with the numbers in `cuts`."""

    def __init__(self, batches: Sequence[Batch], cuts: Sequence[int] = (), begins: int = 0) -> None:
        self.begins = begins
        self.batches = list(batches)
        self.end = sum(one.records for one in batches) * SIZE
        inner = sorted({cut * SIZE for cut in cuts if 0 < cut * SIZE < self.end})
        bounds = [0, *inner, self.end]
        self._chunks = [
            Chunk("relay", PATH, begin, end) for begin, end in pairwise(bounds) if begin < end
        ]

    def _places(self) -> list[tuple[int, int, int, Batch]]:
        """Of each batch where its first record begins, its own, what stands before it."""
        at, after, found = 0, self.begins, []
        for one in self.batches:
            found.append((at, at + one.pieces * SIZE, after, one))
            at, after = at + one.records * SIZE, one.commit_ts
        return found

    def facts(self) -> list[Facts]:
        return [self._facts(chunk) for chunk in self._chunks]

    def _facts(self, chunk: Chunk) -> Facts:
        inside = [one for one in self._places() if chunk.begin <= one[1] < chunk.end]
        row_batches = [one for one in inside if one[3].rows]
        times = [one.commit_ts for *_, one in inside]
        return Facts(
            chunk,
            chunk.begin,
            chunk.end,
            rows=sum(one.rows for *_, one in inside),
            size=sum(one.rows for *_, one in inside) * 10,
            first_ts=min(times, default=0),
            last_ts=max(times, default=0),
            ddls=[
                FoundDdl(found.commit_ts, 0, _json(found))
                for *_, one in inside
                for found in one.ddls
            ],
            versions=[
                FoundVersion(7, one.commit_ts, one.commit_ts, one.rows, db="shop", table="orders")
                for *_, one in row_batches
            ],
            structures=[("shop", _json(TableStructure("orders", 7)))],
            after=inside[0][2] if inside else 0,
            runs=_runs(inside),
        )

    def rows_of(self, segment: Segment) -> list[int]:
        """The commit_ts of each row that a job of the segment finds, sorted."""
        (span,) = segment.view.spans
        found = []
        for at, own, _, one in self._places():
            places = [at + number * SIZE for number in range(one.pieces)] or [own]
            for number in range(one.rows):
                place = places[number % len(places)]
                read = [chunk for chunk in segment.chunks if chunk.begin <= place < chunk.end]
                assert len(read) <= 1, "a row is read twice"
                if read and span.after_ts < one.commit_ts <= span.until_ts:
                    found.append(one.commit_ts)
        return sorted(found)

    def done(self, plan: Plan) -> list[str]:
        """What a downstream sees: DDLs and rows, the rows of a segment in no order."""
        found = []
        for segment in plan.segments:
            found += [f"ddl {one.schema_version}" for one in segment.ddls]
            found += [f"row {ts}" for ts in self.rows_of(segment)]
        return found

    def expected(self, after: int, until: int) -> list[str]:
        """The same as the Applier does it, batch by batch, which got as far as `after` before."""
        run: set[int] = set()
        found = []
        for one in self.batches:
            done = []
            for each in one.ddls:
                if each.schema_version not in run:
                    done.append(f"ddl {each.schema_version}")
                run.add(each.schema_version)
            if after < one.commit_ts <= until:
                found += [*done, *[f"row {one.commit_ts}"] * one.rows]
        return found


def _runs(places: Sequence[tuple[int, int, int, Batch]]) -> list[Run]:
    found = []
    for has_rows, group in groupby(places, key=lambda one: bool(one[3].rows and not one[3].ddls)):
        batches = list(group)
        if has_rows:
            found.append(_run(batches))
        else:
            found += [_run([one]) for one in batches if one[3].rows]
    return found


def _run(places: Sequence[tuple[int, int, int, Batch]]) -> Run:
    rows = sum(one.rows for *_, one in places)
    first, last = places[0], places[-1]
    return Run(first[3].commit_ts, last[3].commit_ts, rows, rows * 10, first[0], last[1] + SIZE)
