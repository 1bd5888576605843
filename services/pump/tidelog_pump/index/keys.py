"""What the index keeps: keys and values as bytes (design section 6, Index). Pure.

    c commit_ts start_ts -> where its Prewrite is               what a pull scans
    p start_ts   -> state, commit_ts, where its Prewrite is     pairing, duplicates, inspection
    o start_ts   -> bound, where its Prewrite is                the open Prewrites, for the restart
    u start_ts   -> commit_ts, where the Commit is              Commits without their Prewrite
    l commit_ts start_ts -> where the Prewrite is               readable too late for some readers
    x commit_ts start_ts -> where the Prewrite is               the same, if no other Pump has it
    s fid        -> the largest commit_ts of a pair whose Prewrite lies in that segment
    g fid start_ts -> commit_ts, 0 = rolled back                Prewrites that came after their end
    f            -> the format of all this; an index of another one is built again
    h            -> head: the next record to index, and W there

Timestamps in keys are big-endian, so that the order of bytes is the order of time.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from tidelog.timestamps import TS_MAX
from tidelog_pump.log.place import Place, Pointer


class State(IntEnum):
    OPEN = 0
    COMMITTED = 1
    ROLLED_BACK = 2
    UNPAIRED = 3
    """A Commit came, its Prewrite did not."""
    LOST = 4
    """`gc-hard-cap` took its Prewrite while it was open, or committed above the purge point;
    commit_ts 0 = it was open, and no end came since."""


class Transaction(NamedTuple):
    """What `p` says of a start_ts; `place` is all zero while UNPAIRED or LOST."""

    state: State
    commit_ts: int
    place: Place

    @property
    def endless(self) -> bool:
        """Lost, and nobody said what became of it: it may begin or end once more."""
        return self.state is State.LOST and not self.commit_ts


class Head(NamedTuple):
    """Everything before this pointer is indexed; `high_ts` is W there, in log order."""

    fid: int
    offset: int
    high_ts: int


_KEY = struct.Struct(">cQ")
_POINTER = struct.Struct("<IQ")
_COMMIT_KEY = struct.Struct(">cQQ")
_PLACE = struct.Struct("<IQIB")
_TRANSACTION = struct.Struct("<BQIQIB")
_OPEN = struct.Struct("<QIQIB")
_UNPAIRED = struct.Struct("<QIQ")
_HEAD = struct.Struct("<IQQ")
_SEGMENT_KEY = struct.Struct(">cQ")
_ENDED_KEY = struct.Struct(">cQQ")
_TS = struct.Struct("<Q")
HEAD_KEY = b"h"
FORMAT_KEY, FORMAT = b"f", b"2"
NOWHERE = Place(0, 0, 0, 0)


def pack_pointer(pointer: Pointer) -> bytes:
    """12 bytes, as the original's (original.md B.1.5)."""
    return _POINTER.pack(*pointer)


def unpack_pointer(data: bytes) -> Pointer:
    return Pointer(*_POINTER.unpack(data))


def commit_key(commit_ts: int, start_ts: int) -> bytes:
    """With the start_ts, so that two transactions of one commit_ts are seen, not overwritten."""
    return _COMMIT_KEY.pack(b"c", commit_ts, start_ts)


def commit_range(after_ts: int, up_to: int) -> tuple[bytes, bytes]:
    """Keys of the Commits with after_ts < commit_ts <= up_to, as [start, stop)."""
    return _KEY.pack(b"c", after_ts + 1), _KEY.pack(b"c", min(up_to, TS_MAX) + 1)


def pack_place(place: Place) -> bytes:
    return _PLACE.pack(*place)


def unpack_commit(key: bytes, value: bytes) -> tuple[int, int, Place]:
    """(commit_ts, start_ts, where the Prewrite is)."""
    _, commit_ts, start_ts = _COMMIT_KEY.unpack(key)
    return commit_ts, start_ts, Place(*_PLACE.unpack(value))


def transaction_key(start_ts: int) -> bytes:
    return _KEY.pack(b"p", start_ts)


Scan = Callable[[bytes, bytes, int], list[tuple[bytes, bytes]]]
"""As an `IndexStore`'s."""


def newest_transaction(scan: Scan) -> int:
    """The largest start_ts that the index knows, 0 if none."""
    return _newest(scan, b"p")


def newest_commit(scan: Scan) -> int:
    """The largest commit_ts that can be read, 0 if none."""
    return _newest(scan, b"c")


def _newest(scan: Scan, kind: bytes) -> int:
    newest, above = 0, TS_MAX
    while newest < above:
        middle = (newest + above + 1) // 2
        found = scan(_KEY.pack(kind, middle), _KEY.pack(kind, above + 1), 1)
        if found:
            newest = int.from_bytes(found[0][0][1:9], "big")
        else:
            above = middle - 1
    return newest


def start_of(key: bytes) -> int:
    """Of a transaction's key."""
    return int.from_bytes(key[1:], "big")


def pack_transaction(state: State, commit_ts: int, place: Place) -> bytes:
    return _TRANSACTION.pack(state, commit_ts, *place)


def closed_at(value: bytes) -> int | None:
    """Of a transaction's value: its commit_ts, 0 if it was rolled back, None while it is open, or
    lost without an end."""
    commit_ts = int.from_bytes(value[1:9], "little")
    if value[0] == State.OPEN or (value[0] == State.LOST and not commit_ts):
        return None
    return commit_ts


def unpack_transaction(value: bytes) -> Transaction:
    state, commit_ts, fid, offset, length, body = _TRANSACTION.unpack(value)
    return Transaction(State(state), commit_ts, Place(fid, offset, length, body))


def open_key(start_ts: int) -> bytes:
    return _KEY.pack(b"o", start_ts)


def open_range() -> tuple[bytes, bytes]:
    return b"o", b"p"


def pack_open(bound: int, place: Place) -> bytes:
    return _OPEN.pack(bound, *place)


def unpack_open(key: bytes, value: bytes) -> tuple[int, int, Place]:
    """(start_ts, bound, where the Prewrite is)."""
    bound, fid, offset, length, body = _OPEN.unpack(value)
    return int.from_bytes(key[1:], "big"), bound, Place(fid, offset, length, body)


def unpaired_key(start_ts: int) -> bytes:
    return _KEY.pack(b"u", start_ts)


def unpaired_range() -> tuple[bytes, bytes]:
    return b"u", b"v"


def pack_unpaired(commit_ts: int, pointer: Pointer) -> bytes:
    return _UNPAIRED.pack(commit_ts, *pointer)


def unpack_unpaired(key: bytes, value: bytes) -> tuple[int, int, Pointer]:
    """(start_ts, commit_ts, where the Commit is)."""
    commit_ts, fid, offset = _UNPAIRED.unpack(value)
    return int.from_bytes(key[1:], "big"), commit_ts, Pointer(fid, offset)


def late_key(commit_ts: int, start_ts: int) -> bytes:
    return _COMMIT_KEY.pack(b"l", commit_ts, start_ts)


def late_range(after_ts: int, up_to: int) -> tuple[bytes, bytes]:
    """Keys of the late pairs with after_ts < commit_ts <= up_to, as [start, stop)."""
    return _KEY.pack(b"l", after_ts + 1), _KEY.pack(b"l", min(up_to, TS_MAX) + 1)


def suspect_key(commit_ts: int, start_ts: int) -> bytes:
    return _COMMIT_KEY.pack(b"x", commit_ts, start_ts)


def suspect_range(after_ts: int = -1, up_to: int = TS_MAX) -> tuple[bytes, bytes]:
    """Keys of the late copies to verify, after_ts < commit_ts <= up_to, as [start, stop)."""
    return _KEY.pack(b"x", after_ts + 1), _KEY.pack(b"x", min(up_to, TS_MAX) + 1)


def unpack_late(key: bytes, value: bytes) -> tuple[int, int, Pointer]:
    """Of an `l` or `x`: (start_ts, commit_ts, where the Prewrite is)."""
    _, commit_ts, start_ts = _COMMIT_KEY.unpack(key)
    return start_ts, commit_ts, unpack_pointer(value)


def pointed_key(fid: int) -> bytes:
    return _SEGMENT_KEY.pack(b"s", fid)


def pointed_range(before: int) -> tuple[bytes, bytes]:
    """Keys of the segments before that one, as [start, stop)."""
    return b"s", pointed_key(before)


def pack_ts(ts: int) -> bytes:
    return _TS.pack(ts)


def unpack_ts(value: bytes | None) -> int:
    """0 for a key that is not there."""
    return 0 if value is None else int(_TS.unpack(value)[0])


def ended_key(fid: int, start_ts: int) -> bytes:
    return _ENDED_KEY.pack(b"g", fid, start_ts)


def ended_range(first: int, before: int) -> tuple[bytes, bytes]:
    """Keys of the segments first <= fid < before, as [start, stop)."""
    return _SEGMENT_KEY.pack(b"g", first), _SEGMENT_KEY.pack(b"g", before)


def unpack_ended(key: bytes, value: bytes) -> tuple[int, int]:
    """(start_ts, commit_ts, 0 = rolled back)."""
    return int(_ENDED_KEY.unpack(key)[2]), unpack_ts(value)


def pack_head(head: Head) -> bytes:
    return _HEAD.pack(*head)


def unpack_head(value: bytes) -> Head:
    return Head(*_HEAD.unpack(value))
