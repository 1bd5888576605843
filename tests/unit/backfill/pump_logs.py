"""A Pump's directory by hand: binlogs framed into segments, and views of their rows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.unit.rows.tables import column
from tidelog import payload, record, synced
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import FLAG_NOT_NULL, FLAG_PRIMARY, Name, TableInfo
from tidelog.synced import Synced
from tidelog_backfill.files.view import Span, TableView, View
from tidelog_proto.binlog_pb2 import Binlog, MutationType, PrewriteValue, TableMutation

VERSION = 5
TABLE = TableInfo(
    7,
    Name("t", "t"),
    cols=(
        column(0, "id", 8, flag=FLAG_NOT_NULL | FLAG_PRIMARY),
        column(1, "v", 253, charset="utf8mb4"),
    ),
    pk_is_handle=True,
)
CODEC = TableCodec(TABLE)


def inserts(ids: Sequence[int], table_id: int = 7, text: str = "x") -> TableMutation:
    rows = [CODEC.encode_insert({"id": one, "v": text}, None) for one in ids]
    sequence = [MutationType.Insert] * len(rows)
    return TableMutation(table_id=table_id, inserted_rows=rows, sequence=sequence)


def prewrite(start_ts: int, *mutations: TableMutation, version: int = VERSION) -> bytes:
    value = PrewriteValue(schema_version=version, mutations=mutations).SerializeToString()
    return with_value(start_ts, value)


def with_value(start_ts: int, value: bytes) -> bytes:
    """A Prewrite of whatever it is."""
    one = Binlog(tp=0, start_ts=start_ts, prewrite_key=b"k", prewrite_value=value)  # type: ignore[arg-type]
    return one.SerializeToString()


def ddl(start_ts: int, job_id: int) -> bytes:
    one = Binlog(tp=0, start_ts=start_ts, ddl_job_id=job_id, ddl_query=b"CREATE")  # type: ignore[arg-type]
    return one.SerializeToString()


def commit(start_ts: int, commit_ts: int) -> bytes:
    return payload.verdict(start_ts, commit_ts, b"k")


def rollback(start_ts: int) -> bytes:
    return payload.verdict(start_ts, 0, b"k")


def write(
    directory: Path,
    files: Sequence[Sequence[bytes]],
    *,
    tail: bytes = b"",
    known: Synced | None = None,
) -> None:
    """`files`: payloads of each segment; all but the last are closed. `tail`: at the last's end."""
    value = directory / "value"
    value.mkdir(parents=True)
    for number, payloads in enumerate(files):
        data = b"".join(map(record.frame, payloads))
        last = number == len(files) - 1
        (value / f"{number:06d}.vlog").write_bytes(data + (tail if last else record.footer(9)))
    if known is not None:
        (value / "synced").write_bytes(synced.pack(known))


def view(after: int, until: int, *, table_ids: Sequence[int] = (7,)) -> View:
    """One span in which TABLE stands for each of the table ids."""
    info = msgspec.json.encode(TABLE)
    tables = [TableView(one, VERSION, VERSION, "d", f"t{one}", info) for one in table_ids]
    return View([Span(after, until, tables)])
