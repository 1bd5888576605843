"""Which records of the log no reader can have been given, after a tombstone.

A tombstone says up to which commit_ts this Pump was read by everybody. What committed above it, and
what was open when the Pump was let go (its Commit may have gone nowhere), is stranded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog.timestamps import TS_MAX
from tidelog_pump.index import keys
from tidelog_pump.index.keys import Scan
from tidelog_pump.log.place import Pointer

PAGE = 256
Entries = Iterator[tuple[bytes, bytes]]


class Stray(NamedTuple):
    """One transaction. `commit_ts` 0: it is open. `prewrite` None: only its Commit came here, and
    that lies at `commit`."""

    start_ts: int
    commit_ts: int
    prewrite: Pointer | None
    commit: Pointer | None = None


def strays(scan: Scan, tombstone_ts: int) -> Iterator[Stray]:
    """Committed ones by commit_ts, Commits without their Prewrite, open ones by start_ts. Read a
    page at a time: the index may change between two."""
    for key, value in _pages(scan, *keys.commit_range(tombstone_ts, TS_MAX)):
        commit_ts, start_ts, place = keys.unpack_commit(key, value)
        yield Stray(start_ts, commit_ts, Pointer(place.fid, place.offset))
    for key, value in _pages(scan, *keys.unpaired_range()):
        start_ts, commit_ts, at = keys.unpack_unpaired(key, value)
        if commit_ts > tombstone_ts:
            yield Stray(start_ts, commit_ts, None, at)
    for key, value in _pages(scan, *keys.open_range()):
        start_ts, _, place = keys.unpack_open(key, value)
        yield Stray(start_ts, 0, Pointer(place.fid, place.offset))


def _pages(scan: Callable[..., list[tuple[bytes, bytes]]], start: bytes, stop: bytes) -> Entries:
    while True:
        page = scan(start, stop, PAGE)
        yield from page
        if len(page) < PAGE:
            return
        start = page[-1][0] + b"\x00"
