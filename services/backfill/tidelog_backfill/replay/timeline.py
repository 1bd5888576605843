"""Where the rows of a time lie, and how many they are: what jobs have to read. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from tidelog_backfill.files.chunk import Chunk, Facts, Run
from tidelog_backfill.replay.intervals import Intervals
from tidelog_backfill.replay.plan import Surveyed


class Share(msgspec.Struct, frozen=True):
    """Chunks to read, and about how many rows and bytes of rows will be found there. `surveyed`: as
    in Segment."""

    chunks: list[Chunk]
    rows: int
    size: int
    surveyed: list[Surveyed]


class Timeline:
    """Of all chunks."""

    def __init__(self, facts: Iterable[Facts]) -> None:
        self._chunks: dict[str, list[Chunk]] = {}
        self._surveyed: dict[str, list[Surveyed]] = {}
        runs: list[tuple[int, int, tuple[str, Run]]] = []
        for one in facts:
            self._chunks.setdefault(one.chunk.path, []).append(one.chunk)
            told = one.records, one.rows, one.size, one.open, one.skipped
            self._surveyed.setdefault(one.chunk.path, []).append(told)
            runs += ((run.first_ts, run.last_ts, (one.chunk.path, run)) for run in _runs(one))
        self._runs = Intervals(runs)

    def share(self, after: int, until: int) -> Share:
        """What lies in (after, until]. Of a file's chunk only that part is read where its rows
        are."""
        parts: dict[Chunk, tuple[int, int]] = {}
        rows = size = 0.0
        for first, last, (path, run) in self._runs.over(after, until):
            inside = _part(first, last, after, until)
            rows += run.rows * inside
            size += run.size * inside
            for chunk in self._chunks[path]:
                if chunk.begin < run.end and run.begin < chunk.end:
                    begin, end = parts.get(chunk, (run.begin, run.end))
                    parts[chunk] = min(begin, run.begin), max(end, run.end)
        chunks = [_narrowed(chunk, *part) for chunk, part in parts.items()]
        chunks.sort(key=lambda chunk: (chunk.path, chunk.begin))
        paths = sorted({chunk.path for chunk in chunks})
        surveyed = [one for path in paths for one in self._surveyed[path]]
        return Share(chunks, round(rows), round(size), surveyed)

    def empty(self, after: int, until: int) -> bool:
        """No row lies in (after, until]."""
        return not self._runs.over(after, until)

    def cut(self, after: int, until: int, size: int) -> Iterator[tuple[int, int]]:
        """(after, until] in spans of about `size` bytes of rows, the last perhaps smaller. They end
        where runs end, so that the same log is always cut the same way."""
        taken = 0.0
        begin = after
        ends = sorted({last for _, last, _ in self._runs.over(after, until) if last < until})
        for low, high in pairwise([after, *ends, until]):
            taken += sum(
                run.size * _part(first, last, low, high)
                for first, last, (_, run) in self._runs.over(low, high)
            )
            if taken >= size and high < until:
                yield begin, high
                begin, taken = high, 0.0
        yield begin, until


def _runs(facts: Facts) -> list[Run]:
    """Of facts without any, all of the chunk is one."""
    if facts.runs or not facts.rows:
        return facts.runs
    chunk = facts.chunk
    return [Run(facts.first_ts, facts.last_ts, facts.rows, facts.size, chunk.begin, chunk.end)]


def _part(first: int, last: int, after: int, until: int) -> float:
    """How much of [first, last] lies in (after, until], as if rows were spread evenly."""
    low, high = max(first - 1, after), min(last, until)
    return (high - low) / (last - first + 1)


def _narrowed(chunk: Chunk, begin: int, end: int) -> Chunk:
    return msgspec.structs.replace(chunk, begin=max(chunk.begin, begin), end=min(chunk.end, end))
