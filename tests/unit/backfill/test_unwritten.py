"""What a log itself says was committed without binlogs (docs/adr/0011) is told."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import AsyncMock, patch

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.backfill import relay_logs
from tests.unit.backfill.pump_logs import commit, ddl, write
from tests.unit.backfill.test_chain import apart, row
from tests.unit.backfill.test_losses import asked
from tests.unit.backfill.test_source_tasks import history
from tidelog import record
from tidelog.changes import MarkedTxn, Marker
from tidelog.errors import Corrupt
from tidelog.schema.tracker import SchemaTracker
from tidelog.skipped import KEY, Skipped, to_key
from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.records import FEW
from tidelog_backfill.replay.plan import Plan
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted
from tidelog_backfill.source.losses import Loss
from tidelog_backfill.source.pushdown import Window
from tidelog_backfill.source.tasks import lost, tasks
from tidelog_proto.binlog_pb2 import Binlog

__all__ = ["history"]
LACKS = Skipped("w", "NoPump: nobody took it", 20, 35, 1000, 2)


def with_key(start_ts: int, key: bytes, value: bytes = b"") -> bytes:
    one = Binlog(tp=0, start_ts=start_ts, prewrite_key=key, prewrite_value=value)  # type: ignore[arg-type]
    return one.SerializeToString()


def told(start_ts: int, lacks: Skipped = LACKS) -> list[bytes]:
    return [with_key(start_ts, to_key(lacks)), commit(start_ts, start_ts + 1)]


def pump(*between: bytes) -> list[bytes]:
    return [row(10, b"x"), commit(10, 11), *between, row(50, b"y"), commit(50, 51)]


def relay(directory: Path) -> None:
    """The record in a batch with other transactions."""
    batch = relay_logs.of_several(101, 111, 151)
    txns = [batch.txns[0], MarkedTxn(141, 140, 0, skipped=LACKS), batch.txns[1]]
    marker = msgspec.json.encode(Marker("a", 1, 101, txns))
    relay_logs.write(directory, (101, msgspec.structs.replace(batch, marker=marker, txns=txns)))


def planned(directory: Path, history: SchemaTracker, **wanted: int) -> Plan:
    return plan(apart(directory, 70), Wanted(**wanted), history=history)  # type: ignore[arg-type]


def test_a_replay_of_a_pumps_log_tells_it(tmp_path: Path, history: SchemaTracker) -> None:
    write(tmp_path, [pump(*told(40))])
    made = planned(tmp_path, history)
    assert (made.until, made.warnings) == (51, [str(LACKS)])
    assert "1000 transactions (2 DDLs) from 20 to 35" in made.warnings[0]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"until_ts": 19}, 0),
        ({"until_ts": 30}, 1),  # told behind it, committed before it
        ({"after_ts": 40}, 1),
        ({"after_ts": 41}, 0),
    ],
)
def test_it_is_told_of_the_time_it_speaks_of(
    tmp_path: Path, history: SchemaTracker, wanted: dict[str, int], count: int
) -> None:
    write(tmp_path, [pump(*told(40))])
    assert planned(tmp_path, history, **wanted).warnings == [str(LACKS)] * count


def test_a_record_that_two_pumps_hold_is_told_once(tmp_path: Path, history: SchemaTracker) -> None:
    facts: list[Facts] = []
    for name in ("a", "b"):
        write(tmp_path / name, [pump(*told(40))])
        facts += apart(tmp_path / name, 70)
    assert plan(facts, Wanted(), history=history).warnings == [str(LACKS)]


@pytest.mark.parametrize("chunk_bytes", [100, 1 << 20])
def test_of_many_the_first_few_are_told_and_all_are_counted(
    tmp_path: Path, history: SchemaTracker, chunk_bytes: int
) -> None:
    records = [
        told(100 + at, Skipped("w", "NoPump", 60 + at, 60 + at, 1)) for at in range(0, 60, 2)
    ]
    write(tmp_path, [pump(*(one for each in records for one in each))])
    facts = apart(tmp_path, chunk_bytes)
    assert max(len(one.lacks) for one in facts) <= FEW + 1
    *few, rest = plan(facts, Wanted(), history=history).warnings
    assert [one.partition(" tr")[0] for one in few] == ["1"] * FEW
    assert rest.startswith(f"{30 - FEW} transactions (0 DDLs) from {60 + 2 * FEW} to 118 ")


def test_a_replay_of_a_relay_tells_it(tmp_path: Path) -> None:
    relay(tmp_path)
    made = plan(apart(tmp_path, 1 << 20), Wanted())
    assert (made.until, made.warnings) == (151, [str(LACKS)])


def test_a_dataframe_of_what_is_lost_has_a_row_of_it(
    tmp_path: Path, history: SchemaTracker
) -> None:
    (tmp_path / "relay").mkdir()
    relay(tmp_path / "relay")
    write(tmp_path / "pump", [pump(*told(40))])
    row_of_it = Loss(str(LACKS), after_ts=19, until_ts=35)
    assert lost(asked(tmp_path / "relay"), Window()) == [row_of_it]
    with patch("tidelog_backfill.source.tasks.schema_history", AsyncMock(return_value=history)):
        for more in ({}, {"ddl_history": "file:x"}):
            assert lost(asked(tmp_path / "pump", **more), Window()) == [row_of_it]
        with capture_logs() as logged:
            tasks(asked(tmp_path / "pump", ddl_history="file:x"), Window())
    assert [one["first"] for one in logged if one["event"] == "left out"] == [str(LACKS)]
    assert lost(asked(tmp_path / "pump"), Window(until_ts=15)) == []


ODD = {
    "none": with_key(40, KEY + b'{"client":"w"}'),
    "no text": with_key(40, KEY + b'{"client":"\xff"}'),
    "rows": with_key(40, to_key(LACKS), Binlog.FromString(row(40, b"z")).prewrite_value),
}


@pytest.mark.parametrize("odd", ODD)
def test_one_that_the_drainer_stops_at_is_named_or_counted(
    tmp_path: Path, history: SchemaTracker, odd: str
) -> None:
    log = pump(ODD[odd], commit(40, 41))
    write(tmp_path, [log])
    at = sum(len(record.frame(one)) for one in log[:2])
    with pytest.raises(Corrupt, match=f"vlog at offset {at}: no Binlog: it"):
        apart(tmp_path, 1 << 20)
    facts = apart(tmp_path, 1 << 20, "skip")
    size = len(record.frame(ODD[odd]))
    assert [place for one in facts for place in one.skipped_at] == [(at, size)]
    (warning,) = plan(facts, Wanted(on_corrupt="skip"), history=history).warnings
    assert warning.startswith(f"{size} damaged bytes were skipped")


def test_a_key_of_a_ddl_is_no_record(tmp_path: Path) -> None:
    one = Binlog.FromString(ddl(40, 3))
    one.prewrite_key = KEY
    write(tmp_path, [pump(one.SerializeToString(), commit(40, 41))])
    (facts,) = apart(tmp_path, 1 << 20)
    assert ([found.commit_ts for found in facts.ddls], facts.lacks) == ([41], [])
