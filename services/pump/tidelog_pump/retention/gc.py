"""Retention: which segments may go, and the purge point then. Pure (design section 7).

A segment goes when all of this holds, and all before it go too:

    it is closed, and everything in it is indexed (the caller offers no others)
    it holds nothing above the target: no record, and no rows of a transaction committed above
    no Prewrite in it is open

The target is the smallest of: now - `gc`, the safe point, what the feeds known here have pulled,
resolved_ts. Once its last record is older than the hard cap, and so is the last Commit that points
into it, a segment goes all the same: disks end. That is loss, and `Decision.forced` says so. (A
Commit at a timestamp that can't have been allocated yet holds nothing then; the others of that
segment do.)

The purge point is what really went, not the target: nothing is refused that is still stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tidelog.timestamps import TS_MAX, compose

AHEAD_S = 20 * 3600.0
"""How long before the end of the retention a reader that is behind is named; at most half of it."""


class Held(NamedTuple):
    """A closed segment: the largest timestamp of its records, the largest commit_ts of those whose
    Prewrite lies in it (0 = none), its open Prewrites. `possible_ts`: the largest of those
    commit_ts that can have been allocated, looked up for `hiding` segments only."""

    fid: int
    max_ts: int
    pointed_ts: int
    open: int
    bytes: int
    possible_ts: int = 0


class Limits(NamedTuple):
    """`floor`: what every reader that is known has, and `whose` that is; 0 = that is not known.
    `cap_ts`: the hard cap's end. `newest_ts`: nothing above it can have been allocated."""

    age_ts: int
    cap_ts: int
    floor: int
    resolved_ts: int
    whose: str = ""
    newest_ts: int = TS_MAX

    @property
    def target(self) -> int:
        return min(self.age_ts, self.floor, self.resolved_ts)


class Decision(NamedTuple):
    """`going`, the oldest segments, and of them those that only the hard cap takes; the purge point
    after it; why the next one stays ("" = there is no next one)."""

    going: list[Held]
    forced: list[Held]
    purge_ts: int
    stays: str


def limits(
    now_ms: int,
    age_s: float,
    cap_s: float,
    positions: Mapping[str, int],
    resolved_ts: int,
    newest_ts: int = TS_MAX,
) -> Limits:
    """`positions`: by name, up to where each reader has everything."""
    age_ts, cap_ts = (compose(max(0, now_ms - int(s * 1000))) for s in (age_s, cap_s))
    whose, floor = min(positions.items(), key=lambda entry: entry[1], default=("", 0))
    return Limits(age_ts, cap_ts, floor, resolved_ts, whose, newest_ts)


def decide(held: Sequence[Held], limit: Limits, purge_ts: int) -> Decision:
    """`held`: the closed and indexed segments, oldest first; `purge_ts`: the point so far."""
    going: list[Held] = []
    forced: list[Held] = []
    stays = ""
    for segment, written_ts in zip(held, _written_by(held), strict=True):
        stays = _why_it_stays(segment, limit)
        last_ts = max(segment.max_ts, segment.pointed_ts)
        if stays:
            is_possible = segment.pointed_ts <= limit.newest_ts
            last_ts = max(written_ts, segment.pointed_ts if is_possible else segment.possible_ts)
            if last_ts > limit.cap_ts:
                break
            forced.append(segment)
            stays = ""
        going.append(segment)
        purge_ts = max(purge_ts, last_ts)
    return Decision(going, forced, purge_ts, stays)


def hiding(held: Sequence[Held], limit: Limits) -> frozenset[int]:
    """Segments that the hard cap may take, whose largest Commit can't have been allocated: it hides
    up to where the others of them go."""
    return frozenset(
        segment.fid
        for segment, written_ts in zip(held, _written_by(held), strict=True)
        if segment.pointed_ts > limit.newest_ts and written_ts <= limit.cap_ts
    )


def _why_it_stays(segment: Held, limit: Limits) -> str:
    if segment.open:
        return f"{segment.open} open Prewrites lie in segment {segment.fid}"
    last_ts = max(segment.max_ts, segment.pointed_ts)
    if last_ts <= limit.target:
        return ""
    if last_ts > limit.age_ts:
        return f"segment {segment.fid} is younger than gc"
    if last_ts > limit.floor:
        if not limit.floor:
            return f"segment {segment.fid} may be needed"
        return f"segment {segment.fid} is needed by a reader at {limit.floor}: {limit.whose}"
    return f"segment {segment.fid} is not resolved yet"


def _written_by(held: Sequence[Held]) -> list[int]:
    """For each segment a timestamp by which it was written: its largest one, or that of one written
    later. (A single absurd timestamp in a record must not keep the log for ever.)"""
    found, lowest = [], None
    for segment in reversed(held):
        lowest = segment.max_ts if lowest is None else min(lowest, segment.max_ts)
        found.append(lowest)
    return found[::-1]


def warned_below(now_ms: int, age_s: float) -> int:
    """Readers below this lose their claim by age soon: within AHEAD_S, or half of a short `gc`."""
    ahead_s = min(AHEAD_S, age_s / 2)
    return compose(max(0, now_ms - int((age_s - ahead_s) * 1000)))
