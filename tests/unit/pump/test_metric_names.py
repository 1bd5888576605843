"""The Pump's metrics as a dashboard of the original asks for them (original.md A.8)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tidelog import metrics
from tidelog_pump import metrics as pump
from tidelog_pump.write.intake import Note

NAMES = (
    'binlog_pump_rpc_duration_seconds_bucket{label="succ",le="1.0",method="WriteBinlog"}',
    "binlog_pump_loss_binlog_count",
    'binlog_pump_detected_drainer_binlog_purge_count{id="x"}',
    "binlog_pump_storage_gc_ts",
    "binlog_pump_storage_done_gc_ts",
    "binlog_pump_storage_deleted_kv_total",
    'binlog_pump_storage_storage_size_bytes{type="capacity"}',
    'binlog_pump_storage_storage_size_bytes{type="available"}',
    "binlog_pump_storage_max_commit_ts",
    "binlog_pump_storage_query_tikv_count",
    'binlog_pump_storage_error_count{type="Corrupt"}',
    'binlog_pump_storage_write_binlog_size_sum{type="batch"}',
    'binlog_pump_storage_write_binlog_duration_time_bucket{le="1.0",type="batch"}',
    'binlog_pump_storage_write_binlog_duration_time_count{type="rotate"}',
    'binlog_pump_storage_write_binlog_duration_time_count{type="to_disk"}',
    'binlog_pump_storage_slow_chaser_count{type="turned_on"}',
    'binlog_pump_rpc_duration_seconds_bucket{label="succ",le="1.0",method="PullBinlogs"}',
)


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_the_originals(name: str) -> None:
    for kind in ("capacity", "available"):
        pump.STORAGE_SIZE.labels(kind)
    pump.ERRORS.labels("Corrupt")
    pump.CHASER.labels("turned_on")
    pump.EARLY_ALERTS.labels("x")
    assert re.search(f"^{re.escape(name)} ", metrics.exposition({}).decode(), re.MULTILINE)


def test_every_documented_note_is_counted_somewhere_and_no_other() -> None:
    """`NOTED.labels("…")` in the code, or the writer's, which come by `Note`."""
    counted = {note.value for note in Note}
    for path in Path(pump.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "NOTED.labels":
                counted |= {str(arg.value) for arg in node.args if isinstance(arg, ast.Constant)}
    assert counted == set(pump.NOTES)
