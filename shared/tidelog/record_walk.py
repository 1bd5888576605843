"""The records of one file, a step at a time, and why they end where they end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from tidelog import record

READ_BYTES = 1 << 20
_ENDS = "the file ends within it"


class Step(NamedTuple):
    """Records, the offset after them, why they end there ("" = they don't)."""

    records: list[record.Placed]
    end: int
    bad: str


def walk(read: Callable[[int, int], bytes], begin: int, size: int) -> Iterator[Step]:
    """From offset `begin` up to `size`, READ_BYTES or one record a step; `read(offset, length)`
    gives the file's bytes."""
    at, wanted = begin, READ_BYTES
    while at < size:
        asked = min(wanted, size - at)
        data = read(at, asked)
        found = record.split(data, at)
        at += found.consumed
        yield Step(found.records, at, found.bad)
        if found.bad:
            return
        needed = found.wanted or record.HEADER_BYTES
        if len(data) < asked or at < size < at + needed:
            yield Step([], at, _ENDS)
            return
        wanted = max(READ_BYTES, found.wanted)
