"""Several runs as one: of each figure the run in the middle, and how far the others are. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bench.figure import Figure, Limit, Range, median


def spanned(values: Sequence[float]) -> Range:
    return Range(len(values), min(values), median(values), max(values))


def merged_limits(runs: Sequence[Iterable[Limit]]) -> list[Limit]:
    """By name, in the order of the first run that has each."""
    found: dict[str, list[Limit]] = {}
    for run in runs:
        for limit in run:
            found.setdefault(limit.name, []).append(limit)
    return [_limit(same) for same in found.values()]


def merged(runs: Sequence[Iterable[Figure]]) -> list[Figure]:
    """By section and name: the run with the middle value, with its own limit, spread and ratio: the
    middle figure over the middle limit would be of no run at all."""
    found: dict[tuple[str, str], list[Figure]] = {}
    for run in runs:
        for figure in run:
            found.setdefault((figure.section, figure.name), []).append(figure)
    return [_figure(same) for same in found.values()]


def _limit(same: Sequence[Limit]) -> Limit:
    runs = spanned([limit.value for limit in same])
    middle = next(limit for limit in same if limit.value == runs.median)
    return msgspec.structs.replace(middle, runs=runs)


def _figure(same: Sequence[Figure]) -> Figure:
    runs = spanned([figure.value for figure in same])
    middle = next(figure for figure in same if figure.value == runs.median)
    ratios = [figure.ratio for figure in same if figure.ratio is not None]
    limits = [figure.limit for figure in same if figure.limit is not None]
    limit = middle.limit
    if limit is not None:
        limit = msgspec.structs.replace(limit, runs=spanned([one.value for one in limits]))
    return msgspec.structs.replace(
        middle,
        limit=limit,
        runs=runs,
        ratios=Range(len(ratios), min(ratios), middle.ratio, max(ratios)) if middle.ratio else None,
    )
