"""Transactions that two chunks hold: whoever got no ack for a Prewrite wrote it again, to another
Pump or further down the same log.

For readers who show each change that they find; a replay folds them, and needs none of it. What
chunks hold is kept in a file, 24 bytes for a transaction; in memory are two chunks' shares of it.
Whoever reads a chunk is told only what it passes over, a pair of offsets for all that lie together.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from typing import IO, Any

import msgspec
import numpy as np
import numpy.typing as npt
import structlog

from tidelog.errors import Conflict
from tidelog_backfill.files.chunk import Chunk, Facts

log = structlog.get_logger()

_Rows = npt.NDArray[np.int64]
"""All commit_ts, rising; their start_ts; their offsets."""
_FIELDS = 3


class _Share(msgspec.Struct, frozen=True):
    """Of a chunk, where it lies in the file."""

    at: int
    count: int
    first_ts: int
    last_ts: int

    def touches(self, other: _Share) -> bool:
        return self.first_ts <= other.last_ts and other.first_ts <= self.last_ts


class Held:
    """Of transactions with after_ts < commit_ts <= until_ts. `file`: an empty one."""

    def __init__(self, file: IO[bytes], after_ts: int, until_ts: int) -> None:
        self._file = file
        self._after, self._until = after_ts, until_ts
        self._shares: dict[tuple[str, int], _Share | None] = {}

    def tell(self, chunk: Chunk, found: array[int]) -> None:
        """`found`: commit_ts, start_ts, offset of each. Of a chunk what is told last counts."""
        rows = np.array(found, np.int64).reshape(-1, _FIELDS).T
        rows = rows[:, (rows[0] > self._after) & (rows[0] <= self._until)]
        rows = rows[:, rows[0].argsort()]
        share = None
        if count := rows.shape[1]:
            at = self._file.seek(0, os.SEEK_END)
            self._file.write(rows.tobytes())
            share = _Share(at, count, int(rows[0, 0]), int(rows[0, -1]))
        self._shares[_key(chunk)] = share

    def once(self, facts: Sequence[Facts]) -> list[Facts]:
        """Of all chunks, in order: each passes over what one before it holds. Raises Conflict."""
        found, before = [], list[_Share]()
        passed = 0
        for one in facts:
            share = self._shares[_key(one.chunk)]
            if share is not None:
                rows, is_held = self._compared(share, before)
                passed += int(np.count_nonzero(is_held))
                again = _ranges(rows[2], is_held)
                one = msgspec.structs.replace(
                    one, chunk=msgspec.structs.replace(one.chunk, again=again)
                )
                before.append(share)
            found.append(one)
        if passed:
            log.info("transactions are in the logs a second time, and told once", count=passed)
        return found

    def _compared(
        self, share: _Share, before: Sequence[_Share]
    ) -> tuple[_Rows, npt.NDArray[np.bool_]]:
        """Its own, and which of them are held before."""
        rows = self._read(share)
        is_held = np.zeros(share.count, np.bool_)
        for other in before:
            if share.touches(other):
                theirs = self._read(other)
                _, mine, at = np.intersect1d(rows[0], theirs[0], return_indices=True)
                odd = np.flatnonzero(rows[1, mine] != theirs[1, at])
                if odd.size:
                    raise Conflict(
                        f"two transactions have the commit_ts {rows[0, mine[odd[0]]]}",
                        hint="read the logs of one cluster at a time",
                    )
                is_held[mine] = True
        return rows, is_held

    def _read(self, share: _Share) -> _Rows:
        self._file.seek(share.at)
        data = self._file.read(share.count * _FIELDS * np.dtype(np.int64).itemsize)
        return np.frombuffer(data, np.int64).reshape(_FIELDS, -1)


def _key(chunk: Chunk) -> tuple[str, int]:
    """Where it begins is a guess at first, its end is none."""
    return chunk.path, chunk.end


def _ranges(
    offsets: npt.NDArray[Any], chosen: npt.NDArray[np.bool_]
) -> tuple[tuple[int, int], ...]:
    """Of the chosen ones, neighbours as one: what was not told of between them nobody shows."""
    order = offsets.argsort()
    offsets, chosen = offsets[order], chosen[order]
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False))
    begins, lasts = offsets[edges[::2]].tolist(), offsets[edges[1::2] - 1].tolist()
    return tuple((begin, last + 1) for begin, last in zip(begins, lasts, strict=True))
