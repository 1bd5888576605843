"""Runs of transactions between DDLs: what a chunk has by commit_ts, and where. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from tidelog.timestamps import TS_MAX
from tidelog_backfill.files.chunk import Run

RUN_BYTES = 4 << 20

Piece = tuple[int, int, int, int, int, int]
"""The fields of a Run, of one transaction or a few: there is a piece for each of a log's."""


def runs(pieces: Iterable[Piece], ddls: Iterable[int]) -> list[Run]:
    """Pieces joined, to RUN_BYTES where they follow one another without a DDL (commit_ts in `ddls`)
    between, and beyond that where they overlap."""
    found: list[Run] = []
    barriers = [*sorted(ddls), TS_MAX + 1]
    barrier = last = -1
    first = rows = size = begin = end = 0
    for piece in sorted(pieces):
        if piece[0] > last and (piece[0] >= barrier or size + piece[3] > RUN_BYTES):
            if rows:
                found.append(Run(first, last, rows, size, begin, end))
            first, last, rows, size, begin, end = piece
        else:
            last = max(last, piece[1])
            rows += piece[2]
            size += piece[3]
            begin = min(begin, piece[4])
            end = max(end, piece[5])
        if last >= barrier:
            barrier = barriers[bisect_right(barriers, last)]
    if rows:
        found.append(Run(first, last, rows, size, begin, end))
    return found
