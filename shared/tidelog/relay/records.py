"""Relay records: what stands in them, and their bytes (proto/tidelog_proto/relay.proto). Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from google.protobuf.message import DecodeError

from tidelog import record
from tidelog.errors import UnparsablePayload
from tidelog.ports import Buffer
from tidelog.relay.batches import Piece, Structures, TableKey, Whole
from tidelog.schema.structure import TableStructure
from tidelog_proto.relay_pb2 import RelayBatch, RelayHeader, RelayPiece, RelayRecord, RelayTable

_STRUCTURE = msgspec.json.Decoder(TableStructure)
_json = msgspec.json.Encoder().encode


def header(feed: str, cluster_id: int, prev_commit_ts: int) -> list[Buffer]:
    return _framed(
        RelayRecord(
            header=RelayHeader(feed=feed, cluster_id=cluster_id, prev_commit_ts=prev_commit_ts)
        )
    )


def piece(one: Piece, tables: Iterable[TableKey], structures: Structures) -> list[Buffer]:
    """`tables`: whose structures go with it."""
    return _framed(
        RelayRecord(
            piece=RelayPiece(
                attempt=one.attempt,
                number=one.number,
                rows=one.rows,
                tables=_tables(tables, structures),
            )
        )
    )


def batch(
    one: Whole, after: int, pieces_at: int, tables: Iterable[TableKey], structures: Structures
) -> list[Buffer]:
    """`after`: what the relay had before it. `pieces_at`: where its first piece begins."""
    return _framed(
        RelayRecord(
            batch=RelayBatch(
                after=after,
                commit_ts=one.commit_ts,
                marker=one.marker,
                rows=one.rows,
                ddls=one.ddls,
                pieces=one.pieces,
                pieces_at=pieces_at,
                tables=_tables(tables, structures),
            )
        )
    )


def parsed(payload: Buffer) -> RelayRecord:
    """Raises UnparsablePayload."""
    try:
        return RelayRecord.FromString(bytes(payload))
    except DecodeError as error:
        raise UnparsablePayload(f"it is no relay record: {error}") from error


def structures_in(tables: Iterable[RelayTable]) -> dict[TableKey, TableStructure]:
    """Raises msgspec.DecodeError."""
    found = {}
    for table in tables:
        structure = _STRUCTURE.decode(table.structure)
        found[table.db, structure.name, structure.version] = structure
    return found


def _tables(tables: Iterable[TableKey], structures: Structures) -> list[RelayTable]:
    return [RelayTable(db=key[0], structure=_json(structures[key])) for key in sorted(tables)]


def _framed(one: RelayRecord) -> list[Buffer]:
    payload = one.SerializeToString()
    return [record.header(payload), payload]
