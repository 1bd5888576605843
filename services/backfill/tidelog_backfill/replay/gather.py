"""A part's bundles -> the changes that are to be written: the first half of the reduce side. Pure.

One bucket is in hand at a time, whatever a part holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter

from tidelog_backfill.replay.bundles import PINNED, Bundle, Change, unpacked

_TABLE = attrgetter("table")
_BUCKET = attrgetter("bucket")
Group = tuple[int, list[Change]]
"""A table, and changes of it."""


def gathered(bundles: Iterable[Bundle], spread: list[bool], pins: set[int]) -> Iterator[Group]:
    """Of a spread table a bucket's last changes, all at once, those that delete first: a row that
    is deleted may be equal, for the database, to one that is put and spelled otherwise. Of any
    other table its changes in order, each once though two logs have it.

    `pins` gets tables that must have one part, of which nothing is told."""
    for table, of_table in groupby(bundles, _TABLE):
        if not spread[table]:
            for changes in _once(of_table):
                yield table, changes
            continue
        for bucket, of_bucket in groupby(of_table, _BUCKET):
            if bucket == PINNED:
                pins.add(table)
            if table not in pins:
                yield table, _last(of_bucket)


def _last(bundles: Iterable[Bundle]) -> list[Change]:
    last: dict[bytes, Change] = {}
    for bundle in bundles:
        for change in unpacked(bundle):
            known = last.get(change.key)
            if (
                known is None
                or known.commit_ts < change.commit_ts
                or (known.commit_ts == change.commit_ts and known.seq <= change.seq)
            ):
                last[change.key] = change
    # Numbers rise with their texts within those of one length: neighbours share pages.
    changes = [last[key] for key in sorted(sorted(last), key=len)]
    changes.sort(key=attrgetter("kind"))
    return changes


def _once(bundles: Iterable[Bundle]) -> Iterator[list[Change]]:
    reached = (-1, -1)
    for bundle in bundles:
        changes = [one for one in unpacked(bundle) if (one.commit_ts, one.seq) > reached]
        if changes:
            reached = changes[-1].commit_ts, changes[-1].seq
            yield changes
