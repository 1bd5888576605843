"""pb_binlog files: their rows as the stream would tell them, as far as the files do.

ENUM, SET and BIT are numbers there, JSON is text, and no key is named. A file is one chunk.
"""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec
import structlog

from tidelog.changes import Event, RowMessage
from tidelog.pb_files import names
from tidelog.pb_files.framing import Record
from tidelog.pb_files.reader import file_records, parsed, whole_files
from tidelog.pb_files.values import Image, images
from tidelog.rows.errors import Malformed
from tidelog_backfill.files.chunk import Body, Chunk
from tidelog_backfill.files.parts import Part
from tidelog_backfill.files.records import OnCorrupt, corrupt
from tidelog_backfill.files.spans import Spans
from tidelog_proto import pb_binlog_pb2 as pb

log = structlog.get_logger()

_NUMBER_BITS = 40
"""Files are smaller than 2^40 bytes: a place in all of them is number and offset."""
_OPS = {pb.EventType.Insert: "c", pb.EventType.Update: "u", pb.EventType.Delete: "d"}
_json = msgspec.json.Encoder().encode


def holds(path: Path) -> bool:
    """Is it such a file, or a directory of some?"""
    if path.is_file():
        return names.parse(path.name) is not None
    return path.is_dir() and bool(names.in_order(entry.name for entry in path.iterdir()))


def parts(path: Path) -> list[Part]:
    """The files, up to the savepoint beside them. Raises Corrupt for one that is missing."""
    files, limits = whole_files(path)
    return [Part(str(file), limits.get(number, file.stat().st_size)) for file, number in files]


def records(chunk: Chunk, on_corrupt: OnCorrupt) -> Iterator[Record]:
    """Raises Corrupt. What follows a damaged record in a file is skipped with it; a torn end of the
    last file is passed over."""
    path = Path(chunk.path)
    for record in file_records(path, None if _packed(path) else chunk.end):
        if not record.bad:
            yield record
        elif record.torn and _is_last(path):
            return
        elif on_corrupt == "stop":
            raise corrupt(chunk.path, record.offset, record.bad)
        else:
            lost = chunk.end - record.offset
            log.warning("skipped", file=chunk.path, offset=record.offset, bytes=lost)


def _packed(path: Path) -> bool:
    name = names.parse(path.name)
    return name is not None and bool(name.packed)


def _is_last(path: Path) -> bool:
    files = names.in_order(entry.name for entry in path.parent.iterdir())
    return not files or files[-1].text == path.name


def pb_bodies(
    chunk: Chunk, spans: Spans, on_corrupt: OnCorrupt, left_out: Counter[str]
) -> Iterator[Body]:
    """`left_out`: of rows. Raises Corrupt."""
    path = Path(chunk.path)
    name = names.parse(path.name)
    base = (name.number if name is not None else 0) << _NUMBER_BITS
    for record in records(chunk, on_corrupt):
        binlog = parsed(path, record)
        if binlog.tp != pb.BinlogType.DML or spans.of(binlog.commit_ts) is None:
            continue
        try:
            yield from _told(binlog, base + record.offset, spans, left_out)
        except Malformed as error:
            raise corrupt(chunk.path, record.offset, f"a row: {error}") from error


def _told(binlog: pb.Binlog, seq: int, spans: Spans, left_out: Counter[str]) -> Iterator[Body]:
    """A record takes more bytes than it has rows: no two share a place. Raises Malformed."""
    runs = groupby(binlog.dml_data.events, lambda one: (one.schema_name, one.table_name))
    for (db, table), run in runs:
        events = [_event(one, binlog.commit_ts) for one in run]
        reason = spans.why_not(db, table, 0)
        if reason:
            left_out[reason] += len(events)
        else:
            yield Body(_json(RowMessage(db, table, 0, events)), seq)
        seq += len(events)


def _event(event: pb.Event, commit_ts: int) -> Event:
    before, after = images(event)
    marks = list(dict.fromkeys(_base64(before) + _base64(after)))
    for image in (before, after):
        for name in marks if image is not None else ():
            _agree(image, name)
    return Event(_OPS[event.tp], commit_ts, None, before, after, marks)


def _base64(image: Image | None) -> list[str]:
    """The columns whose values are bytes."""
    return [name for name, value in (image or {}).items() if isinstance(value, bytes)]


def _agree(image: Image | None, name: str) -> None:
    """`b64` names a column for both images."""
    value = image.get(name) if image is not None else None
    if image is not None and isinstance(value, bytes | str):
        raw = value if isinstance(value, bytes) else value.encode()
        image[name] = b64encode(raw).decode()
