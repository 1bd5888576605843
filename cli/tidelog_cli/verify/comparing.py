"""Compares one table, chunk by chunk."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from tidelog_cli.verify.kinds import meaning
from tidelog_cli.verify.report import DIFFERS, EQUAL, PROBLEM, Difference, TableResult
from tidelog_cli.verify.sides import Bucket, Chunk, Key, Range, Row, Side, Sum
from tidelog_cli.verify.tables import Column, Part, Plan

T = TypeVar("T")
HASHES_AT_ONCE = 200
"""Rows that differ are fetched by so many hashes."""
NOTHING = Sum()


class Limits(NamedTuple):
    """Rows of a chunk; differences that are kept of a table."""

    chunk_rows: int = 5000
    shown: int = 10


async def both(first: Coroutine[Any, Any, T], second: Coroutine[Any, Any, T]) -> tuple[T, T]:
    """Side by side."""
    async with asyncio.TaskGroup() as group:
        one, other = group.create_task(first), group.create_task(second)
    return one.result(), other.result()


class Comparison:
    """One table of two sides. `on_rows` is told how many rows of the source are done."""

    def __init__(
        self,
        sides: tuple[Side, Side],
        plan: Plan,
        limits: Limits,
        on_rows: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._source, self._downstream = sides
        self._plan = plan
        self._limits = limits
        self._on_rows = on_rows
        self._source_rows = self._downstream_rows = 0
        self._chunks = self._differing = 0
        self._differences: list[Difference] = []

    async def run(self) -> TableResult:
        plan = self._plan
        if plan.parts is None:
            return TableResult(
                plan.source, plan.downstream, PROBLEM, problem=plan.problem, notes=plan.notes
            )
        if plan.ranged:
            await self._by_ranges(plan.parts)
        else:
            await self._by_buckets(plan.parts)
        return TableResult(
            plan.source,
            plan.downstream,
            DIFFERS if self._differing else EQUAL,
            self._source_rows,
            self._downstream_rows,
            self._chunks,
            self._differing,
            notes=plan.notes,
            differences=self._differences,
        )

    async def _by_ranges(self, parts: tuple[Part, Part]) -> None:
        after: Key | None = None
        while True:
            rest = Range(after)
            upto = await self._source.upper(parts[0], rest, self._limits.chunk_rows)
            chunk = Range(after, upto)
            sums = await self._sums(parts, chunk)
            self._count(sums)
            if sums[0] != sums[1]:
                await self._narrow(parts, chunk, sums)
            if upto is None:
                return
            after = upto

    async def _by_buckets(self, parts: tuple[Part, Part]) -> None:
        count = max(1, -(-self._plan.rows // self._limits.chunk_rows))
        mine, theirs = await both(
            self._source.sums(parts[0], count), self._downstream.sums(parts[1], count)
        )
        for number in sorted(mine.keys() | theirs.keys()):
            sums = (mine.get(number, NOTHING), theirs.get(number, NOTHING))
            self._count(sums)
            if sums[0] != sums[1]:
                await self._drill(parts, Bucket(number, count))

    def _count(self, sums: tuple[Sum, Sum]) -> None:
        self._chunks += 1
        self._source_rows += sums[0].rows
        self._downstream_rows += sums[1].rows
        self._on_rows(sums[0].rows)

    async def _sums(self, parts: tuple[Part, Part], chunk: Chunk) -> tuple[Sum, Sum]:
        return await both(self._source.sum(parts[0], chunk), self._downstream.sum(parts[1], chunk))

    async def _narrow(self, parts: tuple[Part, Part], chunk: Range, sums: tuple[Sum, Sum]) -> None:
        """Drill into pieces that memory holds: the downstream may have far more rows there."""
        most = 2 * self._limits.chunk_rows
        while sums[1].rows > most:
            upto = await self._downstream.upper(parts[1], chunk, self._limits.chunk_rows)
            await self._drill(parts, Range(chunk.after, upto))
            chunk = Range(upto, chunk.upto)
            sums = await self._sums(parts, chunk)
        await self._drill(parts, chunk)

    async def _drill(self, parts: tuple[Part, Part], chunk: Chunk) -> None:
        mine, theirs = await both(
            self._source.hashes(parts[0], chunk), self._downstream.hashes(parts[1], chunk)
        )
        groups = _differing(_by_key(parts[0], mine), _by_key(parts[1], theirs))
        for batch in _batches(groups):
            rows = await both(
                self._source.rows(parts[0], chunk, batch),
                self._downstream.rows(parts[1], chunk, batch),
            )
            self._compare(parts[0], *rows)

    def _compare(self, part: Part, mine: Sequence[Row], theirs: Sequence[Row]) -> None:
        ours, others = _by_meaning(part, mine), _by_meaning(part, theirs)
        for key in sorted(ours.keys() | others.keys(), key=repr):
            here, there = ours.get(key, _Rows()), others.get(key, _Rows())
            left = list((here.counted - there.counted).elements())
            right = list((there.counted - here.counted).elements())
            if part.key and len(left) == len(right) == 1:
                pair = here.shown[left[0]], there.shown[right[0]]
                self._add(_changed(part, *pair, left[0], right[0]))
                continue
            for one in left:
                self._add(Difference("missing", _named(part, here.shown[one])))
            for one in right:
                self._add(Difference("extra", _named(part, there.shown[one])))

    def _add(self, difference: Difference) -> None:
        self._differing += 1
        if len(self._differences) < self._limits.shown:
            self._differences.append(difference)


class _Rows:
    """Rows of one key: how often each is there by its meaning, and how it was read."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[Any, ...]] = Counter()
        self.shown: dict[tuple[Any, ...], Row] = {}


Hashes = dict[tuple[Any, ...], Counter[str]]


def _key_at(part: Part) -> list[tuple[int, Column]]:
    names = [column.name for column in part.columns]
    return [(names.index(column.name), column) for column in part.key_columns]


def _by_key(part: Part, found: Iterable[tuple[Key, str]]) -> Hashes:
    kinds = [column.kind for column in part.key_columns]
    groups: Hashes = defaultdict(Counter)
    for key, text in found:
        groups[tuple(map(meaning, kinds, key))][text] += 1
    return groups


def _differing(mine: Hashes, theirs: Hashes) -> Iterator[set[str]]:
    """For each key that may differ, its hashes on either side."""
    none = Counter[str]()
    for key in mine.keys() | theirs.keys():
        one, other = mine.get(key, none), theirs.get(key, none)
        if one != other:
            yield {*(one - other), *(other - one)}


def _batches(groups: Iterable[set[str]]) -> Iterator[set[str]]:
    """Whole groups together: both sides of a key are compared in one batch."""
    batch: set[str] = set()
    for group in groups:
        batch |= group
        if len(batch) >= HASHES_AT_ONCE:
            yield batch
            batch = set()
    if batch:
        yield batch


def _by_meaning(part: Part, rows: Iterable[Row]) -> dict[tuple[Any, ...], _Rows]:
    kinds = [column.kind for column in part.columns]
    at = [number for number, _ in _key_at(part)]
    found: dict[tuple[Any, ...], _Rows] = {}
    for row in rows:
        means = tuple(map(meaning, kinds, row))
        group = found.setdefault(tuple(means[number] for number in at), _Rows())
        group.counted[means] += 1
        group.shown[means] = row
    return found


def _named(part: Part, row: Row) -> dict[str, Any]:
    if part.key:
        return {column.name: row[at] for at, column in _key_at(part)}
    return {column.name: value for column, value in zip(part.columns, row, strict=True)}


def _changed(
    part: Part, mine: Row, theirs: Row, means: tuple[Any, ...], other: tuple[Any, ...]
) -> Difference:
    columns = {
        column.name: (mine[at], theirs[at])
        for at, column in enumerate(part.columns)
        if means[at] != other[at]
    }
    return Difference("changed", _named(part, mine), columns)
