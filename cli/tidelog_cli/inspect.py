"""`tidelog inspect`: what segment files hold, and the first bad record. Only reads, a window at a
time, so that a Pump may run on them and a record may be of any size. Its gc deletes segments
meanwhile: one that vanishes is no damage if the purge record, written before, gave it up."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec
from crc32c import crc32c
from google.protobuf.message import DecodeError

from tidelog import record
from tidelog.errors import BadInput
from tidelog.ports import Buffer
from tidelog.sealed import unseal
from tidelog.synced import unpack
from tidelog.unreadable import NOT_READABLE
from tidelog_cli import inspect_pb
from tidelog_cli.inspect_relay import WHY
from tidelog_cli.inspect_report import Found, Inspection, Report, judged
from tidelog_proto.binlog_pb2 import Binlog

WINDOW_BYTES = 1 << 20
HEAD_BYTES = 64
FOUND = 64
_NAME = re.compile(r"\d{6,10}\.vlog")
_CLOSED = struct.Struct("<IQQ")
"""An entry of `value/closed`: segment, largest timestamp, bytes; a crc ends the file."""
_CRC = struct.Struct("<I")
GONE = "it was written and is gone"
KINDS = ("prewrite", "commit", "rollback", "fake")


class _Purged(msgspec.Struct, frozen=True):
    """`purged.json`, what of it matters here: the oldest segment that stays."""

    first: int = 0


class _Record(NamedTuple):
    """`head` are the payload's first bytes; `bad` says why it can't be read."""

    offset: int
    end: int
    head: bytes
    bad: str


def inspect(path: Path, ts: int = 0) -> Inspection:
    """A segment, a Pump's data directory, or a topology's; pb_binlog files. Raises BadInput if
    there is none."""
    if inspect_pb.holds(path):
        return judged(inspect_pb.reports(path, ts))
    segments = _segments(path)
    reports = [report for file in segments if (report := _looked_at(file, ts)) is not None]
    if path.is_dir():
        told = {report.file for report in reports if report.bad == GONE}
        for folder in sorted({segment.parent for segment in segments}):
            reports += [report for report in _lost(folder) if report.file not in told]
    return judged(reports)


def _looked_at(path: Path, ts: int) -> Report | None:
    """None of one that the gc deletes meanwhile."""
    try:
        return _file(path, ts)
    except FileNotFoundError:
        return None if _purged(path) else Report(str(path), bad=GONE)


def _segments(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    for pattern in ("*.vlog", "value/*.vlog", "*/value/*.vlog", "*/*/value/*.vlog"):
        found = sorted(p for p in path.glob(pattern) if _NAME.fullmatch(p.name))
        if found:
            return found
    raise BadInput(
        f"neither segments, pb_binlog nor relay files in {path}",
        hint="name a .vlog file, a Pump's data directory, a file:// downstream's directory or an"
        " Applier's relay",
    )


def _synced(folder: Path) -> tuple[int, int] | None:
    """(segment, offset) up to which the last one is synced; None if nothing says it."""
    found = unpack(_content(folder / "synced"))
    return None if found is None else found[:2]


def _lost(folder: Path) -> Iterator[Report]:
    """Closed segments that are gone, or are not as long as when they were closed."""
    closed = _closed(folder)
    if closed is None:
        file = folder / "closed"
        yield Report(str(file), bytes=len(_content(file)), bad="its checksum does not match")
        return
    for fid, (max_ts, size) in closed.items():
        segment = folder / f"{fid:06d}.vlog"
        try:
            found = segment.stat().st_size
        except FileNotFoundError:
            # Since `closed` was read the gc may have taken it: then that doesn't name it any more.
            if not _purged(segment) and fid in (_closed(folder) or ()):
                yield Report(str(segment), max_ts=max_ts, bad=GONE)
            continue
        if found != size:
            yield Report(str(segment), bytes=found, bad=f"it was closed with {size} bytes")


def _closed(folder: Path) -> dict[int, tuple[int, int]] | None:
    """What `closed` says: segment -> largest timestamp, bytes; None if it can't be read."""
    data = _content(folder / "closed")
    if not data:
        return {}
    body, crc = data[: -_CRC.size], data[-_CRC.size :]
    whole = len(crc) == _CRC.size and len(body) % _CLOSED.size == 0
    if not whole or _CRC.unpack(crc)[0] != crc32c(body):
        return None
    return {fid: (max_ts, size) for fid, max_ts, size in _CLOSED.iter_unpack(body)}


def _purged(segment: Path) -> bool:
    """Does the purge record give this segment up? A record that can't be read gives up nothing;
    the Pump's start says what is wrong with it."""
    data = _content(segment.parent.parent / "purged.json")
    try:
        first = unseal(data, _Purged).first if data else 0
    except NOT_READABLE:
        first = 0
    return _NAME.fullmatch(segment.name) is not None and int(segment.stem) < first


def _content(file: Path) -> bytes:
    """Nothing of one that is not there (any more)."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def _file(path: Path, ts: int) -> Report:
    synced = _synced(path.parent)
    size = path.stat().st_size
    kinds = dict.fromkeys(KINDS, 0)
    count = first = last = largest = 0
    end, bad = 0, ""
    found: list[Found] = []
    with path.open("rb") as file:
        for at in _records(file, size):
            bad = at.bad
            if bad:
                break
            facts = _facts(at.head)
            if facts is None:
                bad = "the payload is no Binlog of a known type"
                break
            kind, start_ts, commit_ts = facts
            end = at.end
            kinds[kind] += 1
            last = commit_ts or start_ts
            first, largest, count = first or last, max(largest, last), count + 1
            if ts in (start_ts, commit_ts) and ts and len(found) < FOUND:
                found.append(Found(at.offset, at.end - at.offset, kind, start_ts, commit_ts))
        footer, bad, torn = _end(file, path, size, end, bad, largest, synced)
    bad_offset = end if bad else 0
    return Report(
        str(path), size, count, kinds, first, last, largest, footer, torn, bad, bad_offset, found
    )


def _end(
    file: BinaryIO,
    path: Path,
    size: int,
    end: int,
    bad: str,
    largest: int,
    synced: tuple[int, int] | None,
) -> tuple[int | None, str, int]:
    """Of what follows the last good record: the footer, what is wrong, how much is a torn tail."""
    rest = size - end
    if rest == record.FOOTER_BYTES:
        file.seek(end)
        footer = record.parse_footer(file.read(record.FOOTER_BYTES))
        if footer is not None:
            wrong = f"its footer says {footer}, the largest timestamp is {largest}"
            return footer, "" if footer == largest else wrong, 0
    if not rest:
        return None, "", 0
    fid = int(path.stem) if _NAME.fullmatch(path.name) else -1
    if synced is not None and fid >= synced[0] and (fid, end) >= synced:
        return None, "", rest
    return None, bad, 0


def _records(file: BinaryIO, size: int) -> Iterator[_Record]:
    """One after the other up to the first bad one, which is told too; up to a footer."""
    at = 0
    while at < size:
        file.seek(at)
        window = file.read(min(WINDOW_BYTES, size - at))
        found = record.split(window, at)
        for offset, payload in found.records:
            end = offset + record.HEADER_BYTES + len(payload)
            yield _Record(offset, end, _head(payload), "")
        at += found.consumed
        if found.bad:
            yield _Record(at, at, b"", WHY[found.bad])
            return
        if found.consumed and at < size:
            continue
        if found.wanted and at + found.wanted <= size:
            one = _large(file, at, found.wanted)
            yield one
            at = one.end
            if one.bad:
                return
        elif at < size:
            yield _Record(at, at, b"", "the file ends within the record")
            return


def _large(file: BinaryIO, at: int, length: int) -> _Record:
    """A record longer than a window, read in windows."""
    file.seek(at)
    header = record.parse_header(file.read(record.HEADER_BYTES))
    head, crc, left = b"", 0, length - record.HEADER_BYTES
    while left:
        piece = file.read(min(WINDOW_BYTES, left))
        if not piece:
            return _Record(at, at, b"", "the file ends within the record")
        head = head or piece[:HEAD_BYTES]
        crc = crc32c(piece, crc)
        left -= len(piece)
    if header is None or header.crc != crc:
        return _Record(at, at, b"", WHY["crc"])
    return _Record(at, at + length, head, "")


def _head(payload: Buffer) -> bytes:
    """Its first bytes; all of it where the timestamps don't stand first."""
    head = bytes(payload[:HEAD_BYTES])
    return head if head[:1] == b"\x08" else bytes(payload)


def _facts(head: bytes) -> tuple[str, int, int] | None:
    """Kind, start_ts, commit_ts of a payload's first bytes: tp, start_ts, commit_ts as varints."""
    values, at = {1: 0, 2: 0, 3: 0}, 0
    while at < len(head) and head[at] & 7 == 0 and head[at] >> 3 in values:
        number, value, shift, at = head[at] >> 3, 0, 0, at + 1
        while at < len(head):
            byte = head[at]
            value |= (byte & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if byte < 0x80:
                break
        values[number] = value
    if not values[2]:
        try:
            whole = Binlog.FromString(head)
        except DecodeError:
            return None
        values = {1: int(whole.tp), 2: whole.start_ts, 3: whole.commit_ts}
    tp, start_ts, commit_ts = values.values()
    if tp > 2 or not start_ts:
        return None
    return KINDS[3 if tp == 2 and start_ts == commit_ts else tp], start_ts, commit_ts
