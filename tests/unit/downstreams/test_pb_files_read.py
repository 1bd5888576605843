"""Reading pb_binlog files: names that are none, records that hold something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import Corrupt
from tidelog.pb_files import names
from tidelog.pb_files.framing import Record
from tidelog.pb_files.reader import parsed
from tidelog.pb_files.values import images
from tidelog.rows.datum import put_bytes_datum
from tidelog.timestamps import compose
from tidelog_proto.pb_binlog_pb2 import Column, Event, EventType


def test_a_name_without_a_date_of_the_calendar_is_none() -> None:
    name = names.file_name(7, compose(1_600_000_000_000))
    assert name == "binlog-0000000000000007-20200913122640"
    assert names.parse(name) == names.FileName(name, 7, 1_600_000_000_000)
    assert names.parse("binlog-0000000000000007-20201332122640") is None
    found = names.in_order(["binlog-0000000000000007-20201332122640", "savepoint", name])
    assert [one.number for one in found] == [7]


def test_a_record_that_is_no_binlog_is_corrupt_at_its_place() -> None:
    with pytest.raises(Corrupt, match="binlog-7 at 33: the payload is no pb_binlog"):
        parsed(Path("binlog-7"), Record(33, b"\xff\xff\xff"))
    assert parsed(Path("binlog-7"), Record(33, b"")).commit_ts == 0


@pytest.mark.parametrize(
    ("mysql_type", "data", "value"),
    [
        ("varchar", "pén".encode(), "pén"),
        ("varchar", "pén".encode("latin-1"), "pén".encode("latin-1")),
        ("varbinary", b"pen", b"pen"),
    ],
)
def test_a_text_that_is_no_utf8_stays_bytes(
    mysql_type: str, data: bytes, value: str | bytes
) -> None:
    datum = bytearray()
    put_bytes_datum(datum, data)
    column = Column(name="a", mysql_type=mysql_type, value=bytes(datum))
    event = Event(tp=EventType.Insert, row=[column.SerializeToString()])
    assert images(event) == (None, {"a": value})
