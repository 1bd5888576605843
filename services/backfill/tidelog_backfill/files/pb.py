"""pb_binlog files: where they lie, and the records of a chunk of one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal, final

import structlog
from google.protobuf.message import DecodeError

from tidelog.errors import Stopped
from tidelog.pb_files import framing, names, savepoint
from tidelog.pb_files.framing import Record
from tidelog.pb_files.reader import file_records, whole_files
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.parts import Part
from tidelog_backfill.files.purged import Gone
from tidelog_backfill.files.records import FEW, LogFile, OnCorrupt, corrupt, search
from tidelog_proto.pb_binlog_pb2 import Binlog

log = structlog.get_logger()

Writer = Literal["ours", "original", ""]
_MAGIC = framing.MAGIC.to_bytes(4, "little")


def holds(path: Path) -> bool:
    """Is it such a file, or a directory of some?"""
    if path.is_file():
        return names.parse(path.name) is not None
    return path.is_dir() and bool(names.in_order(entry.name for entry in path.iterdir()))


def parts(path: Path) -> list[Part]:
    """The files, up to the savepoint beside them. Raises Corrupt for one that is missing."""
    files, limits = whole_files(path)
    return [Part(str(file), limits.get(number, file.stat().st_size)) for file, number in files]


def gone(path: Path) -> list[Gone]:
    """What was before the oldest file, if that isn't the first one. None or one."""
    if path.is_file():
        return [Gone(str(path), 0, alone=True)] if file_number(path) else []
    found = names.in_order(entry.name for entry in path.iterdir())
    return [Gone(str(path), 0)] if found[0].number else []


def file_number(path: Path) -> int:
    """The place of a file among those of its directory."""
    name = names.parse(path.name)
    return name.number if name is not None else 0


def is_packed(path: Path) -> bool:
    name = names.parse(path.name)
    return name is not None and bool(name.packed)


def writer(path: Path) -> Writer:
    """Of a file, as the savepoint beside it tells; "": there is none that can be read."""
    try:
        saved = savepoint.load(path.with_name(names.SAVEPOINT).read_bytes())
    except (FileNotFoundError, Stopped):
        return ""
    return "original" if saved.file is None else "ours"


@final
class PbRecords:
    """The records of an exact chunk, once. A packed file can't be entered in its midst: all of it
    belongs to the chunk that begins at 0, and offsets are those of what is unpacked. A torn end of
    the last file is passed over; `skipped` says how many bytes of a damaged one were, `skipped_at`
    where the first few of them are."""

    def __init__(self, chunk: Chunk, on_corrupt: OnCorrupt) -> None:
        self._chunk = chunk
        self._path = Path(chunk.path)
        self._stop = on_corrupt == "stop"
        self._limit = max(chunk.limit, chunk.end)
        self.skipped = 0
        self.skipped_at: list[tuple[int, int]] = []

    def __iter__(self) -> Iterator[tuple[Record, Binlog]]:
        """Raises Corrupt."""
        found = self._packed() if is_packed(self._path) else self._plain()
        for record in found:
            try:
                binlog = Binlog.FromString(record.payload)
            except DecodeError as error:
                bad = f"the payload is no pb_binlog: {error}"
                self._lose(record._replace(bad=bad), record.end)
            else:
                yield record, binlog

    def _packed(self) -> Iterator[Record]:
        if self._chunk.begin:
            return
        for record in file_records(self._path):
            if not record.bad:
                yield record
            elif not self._is_end(record, None):
                self._lose(record, max(record.offset, self._limit))

    def _plain(self) -> Iterator[Record]:
        at = self._chunk.begin
        with LogFile(self._chunk.path) as file, closing(self._path.open("rb")) as stream:
            while at < self._chunk.end:
                stream.seek(at)
                begin, at = at, self._chunk.end
                for one in framing.records(stream, self._limit - begin):
                    record = one._replace(offset=begin + one.offset)
                    if record.offset >= self._chunk.end:
                        return
                    if not record.bad:
                        yield record
                        continue
                    behind = _behind(file, record.offset, self._limit)
                    if self._is_end(record, behind):
                        return
                    at = self._limit if behind is None else behind
                    self._lose(record, at)

    def _is_end(self, record: Record, behind: int | None) -> bool:
        """Was it being written when the writer died?"""
        return record.torn and behind is None and _is_last(self._path)

    def _lose(self, record: Record, behind: int) -> None:
        """Raises Corrupt, unless damage may be skipped."""
        if self._stop:
            raise corrupt(str(self._path), record.offset, record.bad)
        lost = behind - record.offset
        self.skipped += lost
        if len(self.skipped_at) <= FEW:
            self.skipped_at.append((record.offset, lost))
        log.warning("skipped", file=str(self._path), offset=record.offset, bytes=lost)


def _is_last(path: Path) -> bool:
    files = names.in_order(entry.name for entry in path.parent.iterdir())
    return not files or files[-1].text == path.name


def _behind(file: LogFile, bad_at: int, limit: int) -> int | None:
    """Where a record begins after a damaged one: where that says it ends, else where one looks like
    one (which a row's value may do, too)."""
    told = framing.told_end(file.read, bad_at)
    if told is not None and told < limit and framing.is_whole(file.read, told, limit):
        return told
    return search(
        file, bad_at + 1, limit, _MAGIC, lambda _, at: framing.is_whole(file.read, at, limit)
    )
