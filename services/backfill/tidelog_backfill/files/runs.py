"""Runs of transactions between DDLs: what a chunk has by commit_ts, and where. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable

from tidelog_backfill.files.chunk import Run

RUN_BYTES = 4 << 20


def runs(ones: Iterable[Run], ddls: Iterable[int]) -> list[Run]:
    """Runs of one or a few transactions each, joined: to RUN_BYTES where they follow one another
    without a DDL (commit_ts in `ddls`) between, and beyond that where they overlap."""
    at = sorted(ddls)
    found: list[Run] = []
    for one in sorted(ones, key=lambda run: run.first_ts):
        last = found[-1] if found else None
        if last is not None and (one.first_ts <= last.last_ts or _follows(last, one, at)):
            found[-1] = _joined(last, one)
        else:
            found.append(one)
    return found


def _follows(last: Run, one: Run, ddls: list[int]) -> bool:
    if last.size + one.size > RUN_BYTES:
        return False
    ddl = bisect_left(ddls, last.last_ts + 1)
    return ddl == len(ddls) or ddls[ddl] > one.first_ts


def _joined(last: Run, one: Run) -> Run:
    return Run(
        last.first_ts,
        max(last.last_ts, one.last_ts),
        last.rows + one.rows,
        last.size + one.size,
        min(last.begin, one.begin),
        max(last.end, one.end),
    )
