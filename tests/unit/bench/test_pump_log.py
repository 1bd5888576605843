"""The Pump's log of `bench replay` is what it says."""

from __future__ import annotations

from pathlib import Path

import msgspec

from bench import pump_log
from bench.shapes import SHAPES, load
from tidelog_backfill.source.changes import SCHEMA
from tidelog_backfill.source.data_source import TidelogReader
from tidelog_backfill.source.options import parse


def test_a_load_as_a_pump_has_it(tmp_path: Path) -> None:
    made = load(SHAPES[1], 7, 0.01)
    log = pump_log.write(tmp_path, made)
    options = {"path": str(tmp_path), "ddl-history": log.history, "chunk-bytes": "50000"}
    reader = TidelogReader(parse(options), SCHEMA)
    told = [
        (row["commit_ts"], row["seq"], row["op"], *_state(row["key"], row["after"]))
        for partition in reader.partitions()
        for batch in reader.read(partition)
        for row in batch.to_pylist()
    ]
    changes = [change for transaction in made.measured for change in transaction]
    shown = [one[2:] for one in sorted(told, key=lambda one: one[:2])]
    assert len(reader.partitions()) > 5
    assert shown == [(one.op, one.number, one.after) for one in changes]


def _state(key: str, after: str | None) -> tuple[int, int | None]:
    row = msgspec.json.decode(after) if after else {}
    return msgspec.json.decode(key)["id"], row.get("version")
