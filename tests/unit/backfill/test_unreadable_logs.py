"""Records whose bytes are whole and mean nothing: which file, where, and what was expected."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.unit.backfill import pb_logs, pump_logs
from tests.unit.backfill.relay_logs import of_several
from tests.unit.backfill.relay_logs import write as write_relay
from tests.unit.relay.relay_rig import STRUCTURES
from tidelog import record
from tidelog.changes import Event
from tidelog.decode.errors import Undecodable
from tidelog.downstreams.writing import rule_of
from tidelog.errors import BadInput, ConfigError, Corrupt, TidelogError
from tidelog.pb_files.framing import OVERHEAD
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog.schema.tracker import SchemaTracker
from tidelog_backfill.files.bodies import bodies
from tidelog_backfill.files.chunk import Facts, FoundDdl
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.files.survey import survey
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay.pb_ddls import text_ddls, told_apart
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.routing import routing
from tidelog_backfill.replay.wanted import Wanted
from tidelog_backfill.replay.write import Reading, without_spark
from tidelog_backfill.snapshot.dump_tables import defined
from tidelog_backfill.source import changes, options, raw_records
from tidelog_backfill.source.data_source import TidelogReader
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


def raw(directory: Path, on_corrupt: OnCorrupt = "stop") -> list[tuple[int, str]]:
    """Offset and kind of each record."""
    asked = options.parse({"path": str(directory), "rows": "raw"})
    return [
        (row["offset"], row["kind"])
        for task in tasks(asked, Window())
        for one in raw_records.batches(task.chunk, raw_records.SCHEMA, on_corrupt)
        for row in one.to_pylist()
    ]


def test_a_record_of_a_relay_that_is_none(tmp_path: Path) -> None:
    path = relay(tmp_path, GARBAGE)
    for read in (surveyed, raw):
        with pytest.raises(Corrupt) as raised:
            read(tmp_path)
        assert str(path) in str(raised.value)


@pytest.mark.parametrize("kind", ["relay", "pb", "segment"])
def test_one_in_the_midst_is_passed_by_where_that_is_asked_for(tmp_path: Path, kind: str) -> None:
    lost = len(record.frame(GARBAGE))
    if kind == "relay":
        expected = ["header", "batch", "batch"]
        whole = relay(tmp_path).read_bytes()
        header, first, second = (data for _, data in record.split(whole).records)
        (tmp_path / "relay-000000").write_bytes(
            b"".join(map(record.frame, map(bytes, (header, first, GARBAGE, second))))
        )
    elif kind == "pb":
        row = pb_logs.inserted(5, "t", i=1)
        pb_logs.write(tmp_path, row, GARBAGE, row)
        expected, lost = ["dml", "dml"], OVERHEAD + len(GARBAGE)
    else:
        good = pump_logs.prewrite(10, pump_logs.inserts([7])), pump_logs.commit(10, 11)
        pump_logs.write(tmp_path, [[good[0], GARBAGE, good[1]]])
        expected = ["prewrite", "commit"]
    assert [one for _, one in raw(tmp_path, "skip")] == expected
    (chunk,) = found(tmp_path).chunks(1 << 20)
    facts = survey(chunk, on_corrupt="skip")
    assert facts.rows
    ((at, size),) = facts.skipped_at
    assert (facts.skipped, size) == (lost, lost)
    for read in (surveyed, raw):
        with pytest.raises(Corrupt, match=f"at offset {at}: "):
            read(tmp_path)


def test_a_relay_whose_first_record_is_no_header(tmp_path: Path) -> None:
    (tmp_path / "relay-000000").write_bytes(record.frame(GARBAGE))
    with pytest.raises(Corrupt, match="relay-000000 at offset 0: it is no relay record"):
        found(tmp_path)
    damaged = bytearray(relay(tmp_path).read_bytes())
    damaged[record.HEADER_BYTES] ^= 1
    (tmp_path / "relay-000000").write_bytes(damaged)
    with pytest.raises(Corrupt, match="begins with a header") as raised:
        found(tmp_path)
    assert raised.value.hint.startswith("restore the file")


def test_a_body_that_is_no_row_message(tmp_path: Path) -> None:
    batch = of_several(101, 105)
    write_relay(tmp_path, (101, msgspec.structs.replace(batch, rows=[GARBAGE])))
    (chunk,) = found(tmp_path).chunks(1 << 20)
    with pytest.raises(Corrupt, match=r"relay-000000.*a body of the stream"):
        survey(chunk)


def test_a_body_that_is_no_row_message_is_named_by_whoever_looks_into_it(tmp_path: Path) -> None:
    batch = of_several(101, 105)
    write_relay(tmp_path, (101, msgspec.structs.replace(batch, rows=[GARBAGE])))
    (chunk,) = found(tmp_path).chunks(1 << 20)
    whole, cut = View([Span(0, 200)]), View([Span(0, 200)], only=("d.t1",))
    assert [one.body for one in bodies(chunk, whole)] == [GARBAGE], "nothing to be cut"
    with pytest.raises(
        Corrupt, match=r"relay-000000 at offset \d+: a body of the stream"
    ) as raised:
        list(bodies(chunk, cut))
    assert "skip does not pass it by" in raised.value.hint


def test_events_that_are_none_are_named_by_whoever_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker tells how many there are: a survey looks at none."""
    monkeypatch.setattr("tidelog_backfill.source.data_source.settle", lambda: None)
    batch = of_several(101, 105, tables=("d.t1",))
    none = batch.rows[0].replace(b'"op":"c"', b'"op":{}')
    write_relay(tmp_path, (101, msgspec.structs.replace(batch, rows=[none])))
    (facts,) = surveyed(tmp_path)
    assert facts.rows == 1
    structure = STRUCTURES["d", "t1", 1]
    route = routing([("d", structure, rule_of(structure))], 1)
    (chunk,) = found(tmp_path).chunks()
    reading = Reading([chunk], View([Span(0, 200)]), route, frozenset(), "stop")
    nobody: Any = None
    with pytest.raises(Corrupt, match=r"relay-000000 at offset \d+: a row message can't be read"):
        asyncio.run(without_spark(reading, nobody, 1 << 20))
    source = TidelogReader(options.parse({"path": str(tmp_path)}), changes.SCHEMA)
    (partition,) = source.partitions()
    with pytest.raises(Corrupt, match=r"relay-000000: a row message can't be read"):
        list(source.read(partition))


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


def test_a_prewrite_whose_rows_are_none_is_passed_by_where_that_is_asked_for(
    tmp_path: Path,
) -> None:
    good = [pump_logs.prewrite(20, pump_logs.inserts([7])), pump_logs.commit(20, 21)]
    none = pump_logs.with_value(10, b"\x12\x7f")
    pump_logs.write(tmp_path, [[none, pump_logs.commit(10, 11), *good]])
    (chunk,) = found(tmp_path).chunks()
    shown = pump_logs.view(0, 30)
    for read in (survey, lambda one: list(bodies(one, shown))):
        with pytest.raises(Corrupt, match=r"000000\.vlog at offset 0: no Binlog: "):
            read(chunk)
    facts = survey(chunk, on_corrupt="skip")
    size = len(record.frame(none))
    assert (facts.rows, facts.skipped, facts.skipped_at) == (1, size, [(0, size)])
    assert [one.start_ts for one in bodies(chunk, shown, on_corrupt="skip")] == [20]
    ignored = msgspec.structs.replace(pump_logs.view(11, 30), ignored_txns=frozenset((11,)))
    counted: Counter[str] = Counter()
    assert len(list(bodies(chunk, ignored, on_corrupt="skip", left_out=counted))) == 1
    assert not +counted


def test_a_document_of_a_pb_file_that_is_none(tmp_path: Path) -> None:
    columns = (ColumnStructure("i", "int", "int"), ColumnStructure("j", "json", "json"))
    table = TableStructure("t", 1, columns=columns)
    as_text = msgspec.structs.replace(
        table, columns=(columns[0], ColumnStructure("j", "varchar(9)", "varchar"))
    )
    pb_logs.write(tmp_path, pb_logs.rows(5, as_text, Event("c", 5, after={"i": 1, "j": '{"a":'})))
    (chunk,) = found(tmp_path).chunks()
    with pytest.raises(Corrupt, match=r"at offset 0: a row: column j: "):
        list(bodies(chunk, View([Span(0, 9, named=[("shop", table)])])))


def test_a_ddl_of_a_pump_that_is_no_binlog(tmp_path: Path) -> None:
    pump_logs.write(tmp_path, [[pump_logs.ddl(10, 3), pump_logs.commit(10, 11)]])
    (facts,) = surveyed(tmp_path)
    broken = msgspec.structs.replace(facts, ddls=[FoundDdl(11, 10, GARBAGE)])
    with pytest.raises(Undecodable, match="11: its bytes are no binlog"):
        plan([broken], Wanted(), history=SchemaTracker())


def test_a_time_that_is_none_is_named() -> None:
    with pytest.raises(ConfigError, match="from: "):
        options.parse({"path": "/x", "from": "yesterday"})
    with pytest.raises(ConfigError, match="until: "):
        options.parse({"path": "/x", "until": "2026-13-01"})


def test_a_dump_whose_words_can_not_be_told_apart() -> None:
    with pytest.raises(BadInput, match="can't be told apart"):
        defined("d", "CREATE TABLE `t (id int)")
