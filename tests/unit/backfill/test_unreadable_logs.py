"""Records whose bytes are whole and mean nothing: which file, where, and what was expected."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.unit.backfill import pb_logs, pump_logs
from tests.unit.backfill.relay_logs import of_several
from tests.unit.backfill.relay_logs import write as write_relay
from tidelog import record
from tidelog.errors import BadInput, ConfigError, Corrupt, TidelogError
from tidelog_backfill.files.chunk import Facts, FoundDdl
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.survey import survey
from tidelog_backfill.replay.pb_ddls import text_ddls, told_apart
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted
from tidelog_backfill.snapshot.dump_tables import defined
from tidelog_backfill.source import options, raw_records
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import tasks
from tidelog_proto.pb_binlog_pb2 import Binlog, BinlogType

GARBAGE = b"\xff\xff\xff\xff garbage"


def surveyed(directory: Path) -> list[Facts]:
    return [survey(chunk) for chunk in found(directory).chunks(1 << 20)]


def relay(directory: Path, *more: bytes) -> Path:
    """A relay with one batch of a row, and records behind it."""
    write_relay(directory, (101, of_several(101, 105)))
    path = directory / "relay-000000"
    path.write_bytes(path.read_bytes() + b"".join(map(record.frame, more)))
    return path


def raw(directory: Path) -> list[object]:
    asked = options.parse({"path": str(directory), "rows": "raw"})
    return [
        one
        for task in tasks(asked, Window())
        for one in raw_records.batches(task.chunk, raw_records.SCHEMA, "stop")
    ]


def test_a_record_of_a_relay_that_is_none(tmp_path: Path) -> None:
    path = relay(tmp_path, GARBAGE)
    for read in (surveyed, raw):
        with pytest.raises(Corrupt) as raised:
            read(tmp_path)
        assert str(path) in str(raised.value)


def test_a_relay_whose_first_record_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "relay-000000").write_bytes(record.frame(GARBAGE))
    with pytest.raises(Corrupt, match="relay-000000"):
        found(tmp_path)


def test_a_body_that_is_no_row_message(tmp_path: Path) -> None:
    batch = of_several(101, 105)
    write_relay(tmp_path, (101, msgspec.structs.replace(batch, rows=[GARBAGE])))
    (chunk,) = found(tmp_path).chunks(1 << 20)
    with pytest.raises(Corrupt, match=r"relay-000000.*a body of the stream"):
        survey(chunk)


def test_a_ddl_or_a_structure_of_a_relay_that_is_none(tmp_path: Path) -> None:
    relay(tmp_path)
    (facts,) = surveyed(tmp_path)
    ddl = msgspec.structs.replace(facts, ddls=[FoundDdl(105, 104, b"[")])
    with pytest.raises(Corrupt, match="a DDL of the stream"):
        plan([ddl], Wanted())
    structure = msgspec.structs.replace(facts, structures=[("d", b"[")])
    with pytest.raises(Corrupt, match="a table's structure"):
        plan([structure], Wanted())


def test_a_ddl_of_a_pb_file_that_is_no_text(tmp_path: Path) -> None:
    ddl = Binlog(tp=BinlogType.DDL, commit_ts=7, ddl_query=b"\xff").SerializeToString()
    pb_logs.write(tmp_path, ddl)
    with pytest.raises(Corrupt, match="a DDL that is no text"):
        text_ddls(surveyed(tmp_path), 1 << 60)
    assert told_apart("ALTER TABLE `t ADD") == []


def test_a_binlog_of_a_pump_that_is_none(tmp_path: Path) -> None:
    pump_logs.write(tmp_path, [[GARBAGE]])
    for read in (surveyed, raw):
        with pytest.raises(TidelogError, match=r"000000\.vlog"):
            read(tmp_path)


def test_a_time_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="from: "):
        options.parse({"path": "/x", "from": "yesterday"})
    with pytest.raises(ConfigError, match="until: "):
        options.parse({"path": "/x", "until": "2026-13-01"})


def test_a_dump_whose_words_can_not_be_told_apart() -> None:
    with pytest.raises(BadInput, match="can't be told apart"):
        defined("d", "CREATE TABLE `t (id int)")
