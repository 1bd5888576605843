"""The records of one chunk, whatever is damaged between them. Plain functions on a file.

A chunk that is not exact may begin within a record: then its first one is what looks like one by
magic, length and checksum. It answers for what lies between its last record and the next one,
wherever that begins, so that no damage falls between two chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import structlog

from tidelog import record
from tidelog.errors import Corrupt
from tidelog.record_walk import walk
from tidelog_backfill.files.chunk import Chunk

log = structlog.get_logger()

OnCorrupt = Literal["stop", "skip"]
Placed = record.Placed
"""Offset of a record, and its payload."""

BLOCK = 1 << 20
CUT_BYTES = 4 << 20
"""A chunk's cuts are so far apart at least."""
FEW = 8
"""So many places of what is counted are told, and one more is kept: there are others."""
MAGIC = record.MAGIC.to_bytes(4, "little")
HINT = (
    "look at it with `tidelog inspect`; restore the file, or go on without what is damaged:"
    " --on-corrupt skip"
)
MISSING_HINT = "restore the file: nothing goes on without one, not even --on-corrupt skip"
UNREADABLE_HINT = (
    "its bytes are those that were written, so --on-corrupt skip does not pass it by: look at it"
    " with `tidelog inspect`, and report it"
)
_HEADER = record.HEADER_BYTES


def missing(what: str) -> Corrupt:
    """Of a whole file."""
    return Corrupt(what, hint=MISSING_HINT)


def corrupt(path: str, offset: int, what: str) -> Corrupt:
    return Corrupt(f"{path} at offset {offset}: {what}", hint=HINT)


def unreadable(path: str, offset: int, what: str) -> Corrupt:
    """Within a record that is whole."""
    return Corrupt(f"{path} at offset {offset}: {what}", hint=UNREADABLE_HINT)


class LogFile:
    """A file that is open for reading; `size` as it was then. Raises Corrupt where it is gone."""

    def __init__(self, path: str) -> None:
        try:
            self._file = Path(path).open("rb")  # noqa: SIM115 - closed by whoever has this one
        except FileNotFoundError as error:
            raise missing(f"{path} is gone: it was there when the log was listed") from error
        self.size = self._file.seek(0, 2)

    def read(self, offset: int, length: int) -> bytes:
        """Up to `length` bytes; shorter only at the end of the file."""
        self._file.seek(offset)
        return self._file.read(length)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()


def search(
    file: LogFile, begin: int, end: int, magic: bytes, whole: Callable[[LogFile, int], bool]
) -> int | None:
    """The first offset in [begin, end) where `magic` stands and a record is `whole`."""
    for at in range(begin, end, BLOCK):
        block = file.read(at, min(BLOCK, end - at) + len(magic) - 1)
        found = block.find(magic)
        while found >= 0:
            if whole(file, at + found):
                return at + found
            found = block.find(magic, found + 1)
    return None


def is_whole(file: LogFile, offset: int) -> bool:
    """Does a record begin there, and is it what was written?"""
    header = record.parse_header(file.read(offset, record.HEADER_BYTES))
    if header is None or offset + record.HEADER_BYTES + header.length > file.size:
        return False
    return record.matches(file.read(offset + record.HEADER_BYTES, header.length), header.crc)


def behind(file: LogFile, bad_at: int, limit: int) -> int:
    """Where records go on after a damaged one: `limit` if nowhere. What a row's value holds is not
    taken for a record as long as the header says where the damaged one ends, by its length or (if
    that is what is damaged) by its checksum."""
    found = search(file, bad_at + 1, limit, MAGIC, is_whole)
    first = limit if found is None else found
    told = record.parse_header(MAGIC + file.read(bad_at + len(MAGIC), _HEADER - len(MAGIC)))
    if told is None:
        return first
    end = bad_at + _HEADER + told.length
    if end <= first or not (end == limit or (end < limit and is_whole(file, end))):
        return first
    payload = file.read(bad_at + _HEADER, first - bad_at - _HEADER)
    return first if record.matches(payload, told.crc) else end


class Records:
    """Iterate once over `steps`; then `begin` is where the first record begins and `end` where the
    one behind the last does (both the chunk's end if none begins in it). `count` says how many
    there were, `cuts` where some of them begin, and `skipped` bytes were passed by, the first few
    of them at `skipped_at` (offset, bytes)."""

    def __init__(self, file: LogFile, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self._file = file
        self._chunk = chunk
        self._limit = max(chunk.limit, chunk.end)
        self._stop = on_corrupt == "stop"
        self.begin = self.end = chunk.end
        self.count = self.skipped = 0
        self.skipped_at: list[tuple[int, int]] = []
        self.cuts: list[int] = []

    def steps(self) -> Iterator[list[Placed]]:
        """About a MiB of records at a time. Raises Corrupt, unless what is damaged is skipped."""
        upto = self._chunk.end
        self.begin = self.end = self._first()
        while self.end < upto:
            bad = ""
            for step in walk(self._file.read, self.end, self._file.size):
                bad = step.bad
                own = step.records
                if own and own[-1][0] >= upto:
                    own = [one for one in own if one[0] < upto]
                if own:
                    self._seen(own)
                    yield own
                if step.end >= upto:
                    break
            if self.end < self._limit and not is_whole(self._file, self.end):
                self._pass_by(bad)

    def lose(self, offset: int, size: int, why: str) -> None:
        """Bytes that can't be used. Raises Corrupt, unless they may be skipped."""
        if self._stop:
            raise corrupt(self._chunk.path, offset, why)
        self.skipped += size
        if len(self.skipped_at) <= FEW:
            self.skipped_at.append((offset, size))
        log.warning("skipped", file=self._chunk.path, offset=offset, bytes=size, why=why)

    def _first(self) -> int:
        chunk = self._chunk
        if chunk.exact:
            return min(chunk.begin, chunk.end)
        found = search(self._file, chunk.begin, chunk.end, MAGIC, is_whole)
        return chunk.end if found is None else found

    def _seen(self, own: list[Placed]) -> None:
        first, (last, payload) = own[0][0], own[-1]
        self.end = last + _HEADER + len(payload)
        self.count += len(own)
        if first - (self.cuts[-1] if self.cuts else self.begin) >= CUT_BYTES:
            self.cuts.append(first)

    def _pass_by(self, why: str) -> None:
        bad_at = self.end
        end = bad_at if self._stop else behind(self._file, bad_at, self._limit)
        self.lose(bad_at, end - bad_at, _WHY.get(why, why))
        self.end = end


_WHY = {
    "": "no whole record follows",
    "magic": "no record begins here",
    "length": "its length is none of a record",
    "crc": "its checksum does not match",
}
