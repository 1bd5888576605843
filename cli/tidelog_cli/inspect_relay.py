"""`tidelog inspect` of an Applier's relay files: a line for each record. Only reads, so that an
Applier may run on them; the stream and its bucket of structures may be gone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from google.protobuf.message import DecodeError
from rich.text import Text

from tidelog.changes import Marker
from tidelog.errors import UnparsablePayload
from tidelog.ports import Buffer
from tidelog.record import HEADER_BYTES
from tidelog.record_walk import walk
from tidelog.synced import unpack
from tidelog.unreadable import NOT_READABLE
from tidelog_proto.relay_pb2 import RelayBatch, RelayHeader, RelayRecord

_NAME = re.compile(r"relay-(\d{6,10})")
WHY = {
    "magic": "no record starts here",
    "length": "its length is none of a record",
    "crc": "its checksum does not match",
}
"""In words what the walk says."""
_MARKER = msgspec.json.Decoder(Marker)


class RelayLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record. `after`: of a header or a batch, what stands before it. `attempt` and `number`:
    of a piece of a large batch, which is closed by a batch with that many `pieces`."""

    offset: int
    bytes: int
    kind: str
    after: int = 0
    commit_ts: int = 0
    txns: list[int] = []
    rows: int = 0
    messages: int = 0
    ddls: int = 0
    tables: list[str] = []
    attempt: str = ""
    number: int = 0
    pieces: int = 0


class RelayReport(msgspec.Struct, frozen=True):
    """One file. `bad`: why the record at `bad_offset` can't be read. `torn` bytes at the end of the
    last file lie beyond what is synced: nothing of them was applied."""

    file: str
    bytes: int
    feed: str = ""
    cluster_id: int = 0
    prev_commit_ts: int = 0
    first_ts: int = 0
    last_ts: int = 0
    torn: int = 0
    bad: str = ""
    bad_offset: int = 0
    records: list[RelayLine] = []


class RelayInspection(msgspec.Struct, frozen=True):
    files: list[RelayReport]
    bad: bool


def relay_files(path: Path) -> list[Path]:
    """The file itself, those in the directory, or in one below, as `data-dir/relay` is; none if
    these are no relay's."""
    if path.is_file():
        return [path] if _NAME.fullmatch(path.name) else []
    for pattern in ("relay-*", "*/relay-*"):
        found = sorted(p for p in path.glob(pattern) if _NAME.fullmatch(p.name) and p.is_file())
        if found:
            return found
    return []


def inspect(files: list[Path], ts: int = 0) -> RelayInspection:
    """`ts`: only the batches with this commit_ts are listed."""
    reports = [_file(path, ts) for path in files]
    return RelayInspection(reports, any(report.bad for report in reports))


def _file(path: Path, ts: int) -> RelayReport:
    size = path.stat().st_size
    found = _read(path, size)
    torn = size - found.end if found.bad and _beyond_synced(path, found.end) else 0
    bad = "" if torn else found.bad
    at = [line.commit_ts for line in found.lines if line.commit_ts]
    return RelayReport(
        str(path),
        size,
        found.header.feed,
        found.header.cluster_id,
        found.header.prev_commit_ts,
        at[0] if at else 0,
        at[-1] if at else 0,
        torn,
        bad,
        found.end if bad else 0,
        [line for line in found.lines if not ts or ts in line.txns],
    )


class _Found(NamedTuple):
    """The records up to offset `end`, and why there are no more."""

    header: RelayHeader
    lines: list[RelayLine]
    end: int
    bad: str


def _read(path: Path, size: int) -> _Found:
    header, lines, end, bad = RelayHeader(), list[RelayLine](), 0, ""
    with path.open("rb") as file:

        def read(offset: int, length: int) -> bytes:
            file.seek(offset)
            return file.read(length)

        for step in walk(read, 0, size):
            try:
                for offset, payload in step.records:
                    one = parsed(payload)
                    lines.append(line_of(offset, one, len(payload)))
                    end = offset + lines[-1].bytes
                    header = one.header if one.HasField("header") else header
            except UnparsablePayload as error:
                bad = error.message
                break
            bad = WHY.get(step.bad, step.bad)
    return _Found(header, lines, end, bad)


def parsed(payload: Buffer) -> RelayRecord:
    """Raises UnparsablePayload."""
    try:
        return RelayRecord.FromString(bytes(payload))
    except DecodeError as error:
        raise UnparsablePayload("the payload is no relay record") from error


def line_of(offset: int, one: RelayRecord, payload_bytes: int) -> RelayLine:
    """Raises UnparsablePayload."""
    size = HEADER_BYTES + payload_bytes
    kind = one.WhichOneof("content") or "nothing"
    if kind == "batch":
        return _batch(offset, size, one.batch)
    if kind == "piece":
        piece, tables = one.piece, [_table(table.db, table.structure) for table in one.piece.tables]
        return RelayLine(
            offset,
            size,
            kind,
            messages=len(piece.rows),
            tables=tables,
            attempt=piece.attempt,
            number=piece.number,
        )
    return RelayLine(offset, size, kind, after=one.header.prev_commit_ts)


def _batch(offset: int, size: int, batch: RelayBatch) -> RelayLine:
    try:
        marker = _MARKER.decode(batch.marker)
    except NOT_READABLE as error:
        raise UnparsablePayload(f"its marker can't be read: {error}") from error
    return RelayLine(
        offset,
        size,
        "batch",
        batch.after,
        batch.commit_ts,
        [txn.commit_ts for txn in marker.txns],
        sum(txn.rows for txn in marker.txns),
        len(batch.rows),
        len(batch.ddls),
        [_table(table.db, table.structure) for table in batch.tables],
        marker.attempt,
        pieces=batch.pieces,
    )


class _Named(msgspec.Struct):
    name: str
    version: int


def _table(db: str, structure: bytes) -> str:
    """Raises UnparsablePayload."""
    try:
        named = msgspec.json.decode(structure, type=_Named)
    except NOT_READABLE as error:
        raise UnparsablePayload(f"a table's structure can't be read: {error}") from error
    return f"{db}.{named.name}@{named.version}"


def _beyond_synced(path: Path, end: int) -> bool:
    """Of the last file, and if something says what is synced."""
    hint = path.parent / "synced"
    synced = unpack(hint.read_bytes()) if hint.exists() else None
    number = int(path.name.partition("-")[2])
    return synced is not None and (number, end) >= synced[:2]


def lines(found: RelayInspection) -> Iterator[Text]:
    """For a person: a line a file, and below it one for each record."""
    for report in found.files:
        state, colour = "good", "green"
        if report.torn:
            state, colour = f"{report.torn} bytes beyond what is synced", "yellow"
        if report.bad:
            state, colour = f"BAD at offset {report.bad_offset}: {report.bad}", "red"
        yield Text.assemble(
            f"{report.file}: feed {report.feed} of cluster {report.cluster_id}, {report.bytes} "
            f"bytes, after {report.prev_commit_ts}, from {report.first_ts} to {report.last_ts}, ",
            (state, colour),
        )
        for line in report.records:
            yield Text(f"  offset {line.offset}: {_said(line)}, {line.bytes} bytes")


def _said(line: RelayLine) -> str:
    tables = f", with the structures of {', '.join(line.tables)}" if line.tables else ""
    if line.kind == "piece":
        return f"piece {line.number} of {line.attempt}: {line.messages} messages{tables}"
    if line.kind != "batch":
        return f"{line.kind}, after {line.after}"
    how = f"{line.pieces} pieces" if line.pieces else f"{line.messages} messages"
    ddls = f", {line.ddls} DDL" if line.ddls else ""
    return (
        f"batch at {line.commit_ts} after {line.after}: {len(line.txns)} transactions, "
        f"{line.rows} rows in {how}{ddls}{tables}"
    )
