"""A log's files, oldest first, and where the records of each end."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import msgspec

from tidelog import record, synced
from tidelog.record_walk import walk
from tidelog.synced import UNKNOWN, Synced
from tidelog_backfill.files.records import MAGIC, LogFile, corrupt, is_whole, missing, search

SEGMENT = re.compile(r"(\d{6,10})\.vlog")
RELAY = re.compile(r"relay-(\d{6,10})")
SYNCED = "synced"


class Part(msgspec.Struct, frozen=True):
    """A file; `end`: where its records end. A footer, or what a crash left half written, lies
    behind."""

    path: str
    end: int


def numbered(directory: Path, pattern: re.Pattern[str]) -> list[tuple[int, Path]]:
    """A directory's files of that name, by their numbers; none if there is no such directory."""
    entries = directory.iterdir() if directory.is_dir() else ()
    return sorted(
        (int(match[1]), path) for path in entries if (match := pattern.fullmatch(path.name))
    )


def parts(directory: Path, pattern: re.Pattern[str]) -> list[Part]:
    """Raises Corrupt where a file is missing, or ends before what was synced of it."""
    files = numbered(directory, pattern)
    for (before, path), (after, _) in pairwise(files):
        if after != before + 1:
            raise missing(f"{path}: the file after it, {before + 1}, is gone")
    if not files:
        return []
    known = _synced(directory)
    last, path = files[-1]
    if known is not None and known.fid > last:
        raise missing(f"{path}: file {known.fid} was written and is gone")
    closed = [Part(str(one), _closed_end(one)) for _, one in files[:-1]]
    return [*closed, Part(str(path), _last_end(path, last, known))]


def following(path: str) -> Part | None:
    """The file of a Pump's log behind one of them. Raises Corrupt."""
    before = Path(path)
    number = int(before.stem) + 1
    after, behind = (before.with_name(f"{at:06d}.vlog") for at in (number, number + 1))
    if not after.exists():
        return None
    if behind.exists():
        return Part(str(after), _closed_end(after))
    return Part(str(after), _last_end(after, number, _synced(after.parent)))


def _synced(directory: Path) -> Synced | None:
    """None: nobody of ours wrote here."""
    path = directory / SYNCED
    if not path.exists():
        return None
    return synced.unpack(path.read_bytes()) or UNKNOWN


def _closed_end(path: Path) -> int:
    with LogFile(str(path)) as file:
        return file.size - (record.FOOTER_BYTES if _has_footer(file) else 0)


def _has_footer(file: LogFile) -> bool:
    tail = file.read(max(0, file.size - record.FOOTER_BYTES), record.FOOTER_BYTES)
    return record.parse_footer(tail) is not None


def _last_end(path: Path, number: int, synced: Synced | None) -> int:
    """What is no whole record at the end of the newest file is torn, or is being written: it was
    promised to nobody, unless it was synced, or whole records follow."""
    known = synced if synced is not None and synced.fid == number else UNKNOWN
    with LogFile(str(path)) as file:
        if file.size < known.offset:
            raise corrupt(str(path), file.size, f"the file ends here, {known.offset} were synced")
        if synced is None and _has_footer(file):
            return file.size - record.FOOTER_BYTES  # the original closed it, and synced that
        end = known.offset
        for step in walk(file.read, end, file.size):
            end = step.end
        if synced is None and search(file, end + 1, file.size, MAGIC, is_whole) is not None:
            return file.size  # nothing tells what was synced: who reads it meets the damage
        return end
