"""What is stored of a timestamp, for people: /debug/binlog/{ts}."""

from __future__ import annotations

import msgspec
from google.protobuf.message import DecodeError

from tidelog.errors import TidelogError
from tidelog.ports import IndexStore
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, PrewriteValue
from tidelog_pump.index import keys
from tidelog_pump.index.indexer import locate, look_up
from tidelog_pump.log.files import name
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments

SHOWN_BYTES = 4 << 20
"""A larger record is not read to be shown."""
SHOWN_TWINS = 8


class Mutation(msgspec.Struct, frozen=True):
    """Rows of one table within a Prewrite."""

    table_id: int
    inserted: int
    updated: int
    deleted: int


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored binlog: the Prewrite, or the Commit where no Prewrite is."""

    type: str
    prewrite_key: bytes = b""
    prewrite_value_bytes: int = 0
    schema_version: int = 0
    ddl_query: str = ""
    ddl_job_id: int = 0
    mutations: list[Mutation] = []


class Shown(msgspec.Struct, frozen=True):
    """`state`: open, committed, rolled_back, unpaired, lost. `error`: why `record` is not shown."""

    start_ts: int
    commit_ts: int
    state: str
    file: str = ""
    offset: int = 0
    bytes: int = 0
    record: Record | None = None
    error: str = ""


def binlogs_at(segments: Segments, store: IndexStore, ts: int) -> list[Shown]:
    """The transactions that have `ts` as start_ts or commit_ts; none is no error."""
    start, stop = keys.commit_range(ts - 1, ts)
    committed = store.scan(start, stop, SHOWN_TWINS)
    starts = {ts: None} | {keys.unpack_commit(key, value)[1]: None for key, value in committed}
    return [shown for at in starts if (shown := _show(segments, store, at)) is not None]


def _show(segments: Segments, store: IndexStore, start_ts: int) -> Shown | None:
    known = look_up(store, start_ts)
    if known is None:
        return None
    state, commit_ts, _ = known
    where = locate(store, start_ts)
    if where is None or (known.place == keys.NOWHERE and state is not keys.State.UNPAIRED):
        return Shown(start_ts, commit_ts, state.name.lower(), error="nothing but its end is stored")
    file, size, record, error = name(where.fid), 0, None, ""
    try:
        size = segments.header(Pointer(*where)).length
        if size > SHOWN_BYTES:
            error = f"{size} bytes are too many to show"
        else:
            record = describe(segments.payload(Pointer(*where)))
    except TidelogError as failed:
        error = str(failed)
    return Shown(start_ts, commit_ts, state.name.lower(), file, where.offset, size, record, error)


def describe(payload: bytes) -> Record:
    """A binlog's facts without its rows."""
    try:
        binlog = Binlog.FromString(payload)
        value = PrewriteValue.FromString(binlog.prewrite_value)
    except DecodeError:
        return Record("no readable binlog")
    return Record(
        BinlogType.Name(binlog.tp),
        binlog.prewrite_key,
        len(binlog.prewrite_value),
        value.schema_version,
        binlog.ddl_query.decode(errors="replace"),
        binlog.ddl_job_id,
        [
            Mutation(m.table_id, len(m.inserted_rows), len(m.updated_rows), len(m.deleted_rows))
            for m in value.mutations
        ],
    )
