"""`tidelog inspect` of pb_binlog files: a file:// downstream's, or the original drainer's."""

from __future__ import annotations

from pathlib import Path

from tidelog.pb_files import names, savepoint
from tidelog.pb_files.framing import OVERHEAD, Record
from tidelog.pb_files.reader import file_records, parsed
from tidelog.pb_files.savepoint import Savepoint
from tidelog_cli.inspect_report import Found, Report
from tidelog_proto.pb_binlog_pb2 import Binlog, BinlogType

FOUND = 64


def holds(path: Path) -> bool:
    """Is it such a file, or a directory of them?"""
    if path.is_file():
        return names.parse(path.name) is not None
    return path.is_dir() and any(names.parse(entry.name) for entry in path.iterdir())


def reports(path: Path, ts: int) -> list[Report]:
    """Of each file. What stands behind the savepoint is being written, or was when its writer
    ended."""
    folder = path if path.is_dir() else path.parent
    files = [path] if path.is_file() else [folder / one.text for one in _named(folder)]
    place = folder / names.SAVEPOINT
    saved = savepoint.load(place.read_bytes()) if place.exists() else None
    last = _named(folder)[-1].text
    return [_file(file, ts, saved, last=file.name == last) for file in files]


def _named(folder: Path) -> list[names.FileName]:
    return names.in_order(entry.name for entry in folder.iterdir())


def _file(path: Path, ts: int, saved: Savepoint | None, *, last: bool) -> Report:
    kinds = {"transaction": 0, "ddl": 0}
    found: list[Found] = []
    first = latest = end = 0
    bad: Record | None = None
    for record in file_records(path):
        if record.bad:
            bad = record
            break
        binlog = parsed(path, record)
        kinds["ddl" if binlog.tp == BinlogType.DDL else "transaction"] += 1
        first, latest, end = first or binlog.commit_ts, binlog.commit_ts, record.end
        if ts and binlog.commit_ts == ts and len(found) < FOUND:
            found.append(_found(record, binlog))
    size = path.stat().st_size
    whole = _whole_up_to(path, saved)
    beyond = max(0, size - whole) if whole is not None else 0
    if bad is not None and (bad.offset >= whole if whole is not None else last and bad.torn):
        beyond, bad = max(beyond, size - bad.offset), None
    return Report(
        str(path),
        size,
        sum(kinds.values()),
        kinds,
        first,
        latest,
        latest,
        None if last else latest,
        beyond,
        bad.bad if bad is not None else "",
        end if bad is not None else 0,
        found,
    )


def _whole_up_to(path: Path, saved: Savepoint | None) -> int | None:
    """The offset that the savepoint gives of this file, if it does."""
    name = names.parse(path.name)
    if saved is None or saved.file is None or name is None or name.packed:
        return None
    if name.number == saved.file:
        return saved.offset
    return 0 if name.number > saved.file else None


def _found(record: Record, binlog: Binlog) -> Found:
    what = f"transaction of {len(binlog.dml_data.events)} rows"
    if binlog.tp == BinlogType.DDL:
        what = binlog.ddl_query.decode(errors="replace")
    size = OVERHEAD + len(record.payload)
    return Found(record.offset, size, what, 0, binlog.commit_ts)
