"""Reads directories and files of pb_binlog records in order, also while an Applier writes them.

Large transactions may be several Binlogs of one commit_ts, one after the other.
"""

from __future__ import annotations

import gzip
import io
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, cast

from google.protobuf.message import DecodeError

from tidelog.errors import BadInput, Corrupt
from tidelog.pb_files import names, savepoint
from tidelog.pb_files.framing import Record, records
from tidelog.pb_files.names import FileName
from tidelog_proto.pb_binlog_pb2 import Binlog

HINT = "name a directory of a file:// downstream, or a file of it (plain, .gz or .tar.gz)"


def binlogs(path: Path, after_ts: int = 0) -> Iterator[Binlog]:
    """Those with commit_ts above `after_ts`, in order. Of a directory up to its savepoint; a torn
    end of the last file is passed over. Raises BadInput, Corrupt."""
    files, limit = whole_files(path)
    for at, name in enumerate(files):
        last = at == len(files) - 1
        if not last and _first_ts(files[at + 1][0]) <= after_ts:
            continue
        where, number = name
        for record in file_records(where, limit.get(number)):
            if record.bad:
                if record.torn and last:
                    break
                raise Corrupt(f"{where} at {record.offset}: {record.bad}")
            binlog = parsed(where, record)
            if binlog.commit_ts > after_ts:
                yield binlog


def parsed(where: Path, record: Record) -> Binlog:
    """What a good record holds. Raises Corrupt."""
    try:
        return Binlog.FromString(record.payload)
    except DecodeError as error:
        raise Corrupt(f"{where} at {record.offset}: the payload is no pb_binlog") from error


def file_records(path: Path, limit: int | None = None) -> Iterator[Record]:
    """Of one file, packed or not."""
    name = names.parse(path.name)
    with ExitStack() as stack:
        yield from records(_opened(stack, path, name.packed if name else ""), limit)


def whole_files(path: Path) -> tuple[list[tuple[Path, int]], dict[int, int]]:
    """Places and numbers of the files, and up to where those at the end are whole."""
    if path.is_file():
        return [(path, -1)], {}
    found = names.in_order(entry.name for entry in path.iterdir()) if path.is_dir() else []
    if not found:
        raise BadInput(f"no binlog files in {path}", hint=HINT)
    _unbroken(path, found)
    place = path / names.SAVEPOINT
    saved = savepoint.load(place.read_bytes()) if place.exists() else None
    if saved is None or saved.file is None:
        return [(path / one.text, one.number) for one in found], {}
    whole = [(path / one.text, one.number) for one in found if one.number <= saved.file]
    return whole, {saved.file: saved.offset}


def _unbroken(path: Path, found: list[FileName]) -> None:
    for before, after in pairwise(found):
        if after.number != before.number + 1:
            missing = before.number + 1
            raise Corrupt(f"{path}: file {missing} is missing or there twice, before {after.text}")


def _first_ts(path: Path) -> int:
    """A record that can't be read is met when its file is read."""
    first = next(file_records(path), None)
    return 1 << 63 if first is None or first.bad else parsed(path, first).commit_ts


def _opened(stack: ExitStack, path: Path, packed: str) -> BinaryIO:
    if packed == ".gz":
        return cast(BinaryIO, stack.enter_context(gzip.open(path)))
    if packed == ".tar.gz":
        archive = stack.enter_context(tarfile.open(path))  # noqa: SIM115
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                return cast(BinaryIO, stack.enter_context(content))
        return io.BytesIO()
    return stack.enter_context(path.open("rb"))
