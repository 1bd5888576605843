"""Rows written while a column is being added or dropped: it exists for writers, not for readers."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.unit.decode.upstream import Upstream, table_info
from tidelog.decode.transactions import RowTxn, Txn
from tidelog.rows.table_codec import TableCodec
from tidelog.schema.model import HistoryInfo, TableInfo
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation

DELETE_ONLY, WRITE_ONLY, REORGANIZING = 1, 2, 3
WIDE = ("id", "n", "x")


def inserted(up: Upstream, info: TableInfo, version: int, **row: int) -> Txn:
    up.ts += 1
    codec = TableCodec(info)
    mutation = TableMutation(
        table_id=info.id, inserted_rows=[codec.encode_insert(row, 1)], sequence=[Insert]
    )
    value = PrewriteValue(schema_version=version, mutations=[mutation])
    binlog = Binlog(start_ts=up.ts - 1, commit_ts=up.ts, prewrite_value=value.SerializeToString())
    return up.ts, up.ts - 1, binlog.SerializeToString()


def events(found: object) -> bytes:
    assert isinstance(found, RowTxn)
    return b"".join(event for table in found.tables for event in table.events)


def test_a_column_that_writers_fill_already_is_not_shown_before_its_ddl() -> None:
    """Adding goes by delete-only, write-only and reorganizing to public; writers are one state
    apart. Versions in between are of no job: rows under them have the column, readers don't."""
    up = Upstream()
    up.create("app", "t")
    created = up.version
    wide = table_info(up.id_of("app.t"), "t", WIDE)
    for step in (1, 2, 3):
        row = inserted(up, wide, created + step, id=step, n=0, x=7)
        assert b'"x"' not in events(up.decoder.decode(row))
    up.version += 3
    ddl = up.alter("app", "t", "x")
    assert ddl is not None
    late = inserted(up, wide, created + 2, id=9, n=0, x=7)
    assert b'"x":7' in events(up.decoder.decode(late)), "by now readers know it"


@pytest.mark.parametrize("state", [DELETE_ONLY, WRITE_ONLY, REORGANIZING])
def test_a_column_that_is_not_public_is_in_rows_and_in_no_event(state: int) -> None:
    """A table's definition may itself hold a column that is on its way."""
    up = Upstream()
    up.create("app", "t")
    wide = table_info(up.id_of("app.t"), "t", WIDE)
    cols = tuple(replace(c, state=state if c.name.text == "x" else 5) for c in wide.columns)
    halfway = replace(wide, cols=cols)
    up.version += 1
    history = HistoryInfo(up.version, table_info=halfway)
    job = up.job("modify_column", "app", wide.id, "ALTER TABLE t", history)
    found = up.decoded(job)
    assert found is not None
    assert found.message.table is not None
    assert [column.name for column in found.message.table.columns] == ["id", "n"]
    event = events(up.decoder.decode(inserted(up, wide, up.version, id=1, n=2, x=3)))
    assert b'"n":2' in event
    assert b'"x"' not in event


def test_the_two_binlogs_of_drop_column() -> None:
    """The first says that the column is delete-only: rows lack it, and readers still know it."""
    up = Upstream()
    up.create("app", "t", WIDE)
    created, table_id = up.version, up.id_of("app.t")
    wide, narrow = table_info(table_id, "t", WIDE), table_info(table_id, "t", WIDE[:2])
    up.version += 4
    history = HistoryInfo(up.version, table_info=narrow)
    job = up.job("drop_column", "app", table_id, "ALTER TABLE t DROP COLUMN x", history)
    up.ts += 1
    first = Binlog(start_ts=up.ts - 1, commit_ts=up.ts, ddl_query=b"ALTER", ddl_job_id=job)
    first.ddl_schema_state = DELETE_ONLY
    assert up.decoder.decode((up.ts, up.ts - 1, first.SerializeToString())) is None
    assert up.dropped == {"drop_column_first": 1}
    without = inserted(up, narrow, created + 2, id=1, n=2)
    assert b'"x":3' not in events(up.decoder.decode(without))
    with_it = inserted(up, wide, created + 1, id=2, n=2, x=3)
    assert b'"x":3' in events(up.decoder.decode(with_it))
    assert up.decoded(job) is not None
    late = inserted(up, wide, created + 1, id=3, n=2, x=3)
    assert b'"x"' not in events(up.decoder.decode(late))
