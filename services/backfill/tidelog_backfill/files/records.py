"""The records of one chunk, whatever is damaged between them. Plain functions on a file.

A chunk may begin within a record: then its first one is found by magic, length and checksum. It
answers for what lies between its last record and the next one, wherever that begins, so that no
damage falls between two chunks.
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
Placed = tuple[int, memoryview]
"""Offset of a record, and its payload."""

BLOCK = 1 << 20
MAGIC = record.MAGIC.to_bytes(4, "little")
HINT = (
    "look at it with `tidelog inspect`; restore the file, or go on without what is damaged:"
    " --on-corrupt skip"
)


def corrupt(path: str, offset: int, what: str) -> Corrupt:
    return Corrupt(f"{path} at offset {offset}: {what}", hint=HINT)


class LogFile:
    """A file that is open for reading; `size` as it was then."""

    def __init__(self, path: str) -> None:
        self._file = Path(path).open("rb")  # noqa: SIM115 - closed by whoever has this one
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


class Records:
    """Iterate once over `steps`; then `begin` and `end` are offsets of the first record and behind
    the last (both the chunk's end if none begins in it), `count` says how many there were, and
    `skipped` bytes were passed by."""

    def __init__(self, file: LogFile, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self._file = file
        self._path = chunk.path
        self._from, self._to = chunk.begin, chunk.end
        self._limit = max(chunk.limit, chunk.end)
        self._stop = on_corrupt == "stop"
        self.begin = self.end = chunk.end
        self.count = self.skipped = 0

    def steps(self) -> Iterator[list[Placed]]:
        """About a MiB of records at a time. Raises Corrupt, unless what is damaged is skipped."""
        at = self._first()
        self.begin = min(at, self._to)
        while at < self._to:
            bad = ""
            for step in walk(self._file.read, at, self._file.size):
                at, bad = step.end, step.bad
                own = [one for one in step.records if one[0] < self._to]
                if own:
                    offset, payload = own[-1]
                    self.end = offset + record.HEADER_BYTES + len(payload)
                    self.count += len(own)
                    yield own
                if at >= self._to:
                    break
            if at < self._to:
                at = self._behind(at, bad)
            elif self.end < self._limit and not is_whole(self._file, self.end):
                self._behind(self.end, "")

    def _first(self) -> int:
        if self._from == 0 < self._to and not is_whole(self._file, 0):
            return self._behind(0, "magic")
        found = search(self._file, self._from, self._to, MAGIC, is_whole)
        return self._to if found is None else found

    def _behind(self, bad_at: int, why: str) -> int:
        """Where the records go on behind a damaged one. Raises Corrupt."""
        if self._stop:
            raise corrupt(self._path, bad_at, _WHY.get(why, why))
        found = search(self._file, bad_at + 1, self._limit, MAGIC, is_whole)
        at = self._limit if found is None else found
        self.skipped += at - bad_at
        log.warning("skipped", file=self._path, offset=bad_at, bytes=at - bad_at)
        return at


_WHY = {
    "": "no whole record follows",
    "magic": "no record begins here",
    "length": "its length is none of a record",
    "crc": "its checksum does not match",
}
