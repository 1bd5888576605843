"""`tidelog inspect` of pb_binlog files."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import BadInput
from tidelog.pb_files import names, savepoint
from tidelog.pb_files.framing import frame
from tidelog.pb_files.savepoint import Savepoint
from tidelog_cli.inspect import inspect
from tidelog_cli.inspect_report import Found, lines
from tidelog_proto.pb_binlog_pb2 import Binlog, BinlogType, DMLData, Event

BASE = 470_000_000_000_000_000


def record(commit_ts: int, rows: int = 0) -> bytes:
    binlog = Binlog(tp=BinlogType.DDL, commit_ts=commit_ts, ddl_query=b"use `d`; DROP TABLE t;")
    if rows:
        data = DMLData(events=[Event(schema_name="d", table_name="t")] * rows)
        binlog = Binlog(tp=BinlogType.DML, commit_ts=commit_ts, dml_data=data)
    return b"".join(frame(binlog.SerializeToString()))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Two files; behind the savepoint stand a record and a half."""
    first, second = (tmp_path / names.file_name(n, BASE) for n in (0, 1))
    first.write_bytes(record(BASE, 2) + record(BASE + 1))
    whole = record(BASE + 2, 3)
    second.write_bytes(whole + record(BASE + 3, 1) + record(BASE + 4, 1)[:20])
    saved = Savepoint(BASE + 2, feed="f", file=1, offset=len(whole))
    (tmp_path / "savepoint").write_bytes(savepoint.dump(saved))
    return tmp_path


def test_what_is_in_the_files_and_what_is_not_saved(directory: Path) -> None:
    found = inspect(directory)
    first, second = found.files
    assert not found.bad
    assert (first.kinds, first.first_ts, first.last_ts) == (
        {"transaction": 1, "ddl": 1},
        BASE,
        BASE + 1,
    )
    assert (first.footer, second.footer) == (BASE + 1, None)
    assert second.torn == second.bytes - len(record(BASE + 2, 3))
    said = "\n".join(map(str, lines(found)))
    assert "closed" in said
    assert "beyond what is synced" in said


def test_the_records_of_a_timestamp(directory: Path) -> None:
    rows, query = inspect(directory, BASE).files[0], inspect(directory, BASE + 1).files[0]
    size = len(record(BASE, 2))
    assert rows.found == [Found(0, size, "transaction of 2 rows", 0, BASE)]
    assert [one.kind for one in query.found] == ["use `d`; DROP TABLE t;"]
    assert f"transaction of 2 rows at {BASE}" in "\n".join(
        map(str, lines(inspect(directory, BASE)))
    )


def test_damage_before_the_savepoint_is_told(directory: Path) -> None:
    second = directory / names.file_name(1, BASE)
    content = bytearray(second.read_bytes())
    content[30] ^= 1
    second.write_bytes(content)
    found = inspect(second)
    assert (found.bad, found.files[0].bad_offset) == (True, 0)
    assert "checksum" in found.files[0].bad


def test_a_torn_end_is_no_damage_without_a_savepoint_in_the_last_file_only(
    directory: Path,
) -> None:
    (directory / "savepoint").unlink()
    assert [report.torn for report in inspect(directory).files] == [0, 20]
    first = directory / names.file_name(0, BASE)
    first.write_bytes(first.read_bytes()[:-1])
    assert [bool(report.bad) for report in inspect(directory).files] == [True, False]


def test_a_directory_of_neither_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(BadInput) as caught:
        inspect(tmp_path)
    assert "file://" in caught.value.hint
