"""What `gc-hard-cap` took while it was open, or though it was committed above the purge point (at a
timestamp that can't have been allocated): closed as lost, for nobody can give its rows any more.

Told by the gc once the purge record is durable and before a segment goes; done again by every
start. Whatever pairs in between is lost all the same. Pure but for the index.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.ports import IndexStore
from tidelog_pump.index import keys
from tidelog_pump.index.keys import NOWHERE, State

PAGE = 512


class Lost(NamedTuple):
    """One index batch, and the start_ts that it closes."""

    puts: list[tuple[bytes, bytes]]
    deletes: list[bytes]
    closed: list[int]


def taken(store: IndexStore, first: int, purge_ts: int) -> Iterator[Lost]:
    """Of the segments before `first`: a page each time, written by the caller before the next."""
    for page in pages(store, *keys.open_range()):
        lost = Lost([], [], [])
        for key, value in page:
            start_ts, _, place = keys.unpack_open(key, value)
            if place.fid < first:
                _lose(lost, start_ts, 0, [key])
        yield lost
    pointed = pages(store, *keys.pointed_range(first))
    up_to = max((keys.unpack_ts(ts) for page in pointed for _, ts in page), default=0)
    if up_to <= purge_ts:
        return
    for page in pages(store, *keys.commit_range(purge_ts, up_to)):
        lost = Lost([], [], [])
        for key, value in page:
            commit_ts, start_ts, place = keys.unpack_commit(key, value)
            if place.fid < first:
                late = keys.late_key(commit_ts, start_ts), keys.suspect_key(commit_ts, start_ts)
                _lose(lost, start_ts, commit_ts, [key, *late])
        yield lost


def pages(store: IndexStore, start: bytes, stop: bytes) -> Iterator[list[tuple[bytes, bytes]]]:
    while page := store.scan(start, stop, PAGE):
        yield page
        start = page[-1][0] + b"\x00"


def _lose(lost: Lost, start_ts: int, commit_ts: int, deletes: list[bytes]) -> None:
    ended = keys.pack_transaction(State.LOST, commit_ts, NOWHERE)
    lost.puts.append((keys.transaction_key(start_ts), ended))
    lost.deletes.extend(deletes)
    lost.closed.append(start_ts)
