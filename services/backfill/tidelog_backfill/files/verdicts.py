"""Verdicts that lie far from their Prewrites: found in what all chunks of a log tell.

A verdict may be in any chunk behind its Prewrite and, though that is odd, before it. The first one
in the log counts, so that it does not matter where chunks are cut. What can't be told from this is
a Prewrite that was written twice, each with another verdict near behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import msgspec

from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.held import Held
from tidelog_backfill.files.records import LogFile, OnCorrupt
from tidelog_backfill.files.segments import verdicts_of
from tidelog_backfill.files.survey import survey


def settled(facts: Sequence[Facts], on_corrupt: OnCorrupt, held: Held | None = None) -> list[Facts]:
    """Of exact chunks of some logs, in their order: those are surveyed again whose Prewrites have
    verdicts that they did not see, and `held` is told of them. Raises as `survey` does."""
    logs = groupby(facts, lambda one: Path(one.chunk.path).parent)
    return [one for _, log in logs for one in _of_log(list(log), on_corrupt, held)]


def _of_log(log: list[Facts], on_corrupt: OnCorrupt, held: Held | None) -> list[Facts]:
    lone: dict[int, int] = {}
    for one in log:
        for start_ts, commit_ts in one.lone:
            lone.setdefault(start_ts, commit_ts)
    lone = (
        _again(log, {start for one in log for start in one.waiting} - lone.keys(), on_corrupt)
        | lone
    )
    early: dict[int, int] = {}
    seen: set[int] = set()
    found = []
    for one in log:
        first, last = one.starts
        told = {start: ts for start, ts in early.items() if first <= start <= last}
        told |= {start: lone[start] for start in one.waiting if start in lone}
        found.append(_told(one, told, on_corrupt, held) if told else one)
        seen.update(one.waiting, (start for start, _ in one.chunk.verdicts))
        early |= {start: ts for start, ts in one.lone if start not in seen and start not in early}
    return found


def _told(
    facts: Facts, verdicts: dict[int, int], on_corrupt: OnCorrupt, held: Held | None
) -> Facts:
    told = tuple(sorted((dict(facts.chunk.verdicts) | verdicts).items()))
    chunk = msgspec.structs.replace(facts.chunk, cuts=(), verdicts=told)
    return survey(chunk, on_corrupt=on_corrupt, held=held)


def _again(log: list[Facts], open_: set[int], on_corrupt: OnCorrupt) -> dict[int, int]:
    """Verdicts of Prewrites that were written a second time, in another chunk, and closed there."""
    found: dict[int, int] = {}
    for one in log:
        first, last = one.starts
        wanted = (
            {start for start in open_ if first <= start <= last} - set(one.waiting) - found.keys()
        )
        if wanted:
            with LogFile(one.chunk.path) as file:
                for start_ts, commit_ts in verdicts_of(file, one.chunk, wanted, on_corrupt):
                    found.setdefault(start_ts, commit_ts)
    return found
