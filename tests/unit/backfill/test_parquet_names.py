"""Tables of which no Parquet file of a replay could be read."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import structure_key
from tidelog.errors import Stopped
from tidelog_backfill.replay.parquet import ParquetTarget


def ruled(directory: Path, name: str) -> int:
    shape = table("t", column("id", "int(11)"), column(name, "int(11)"), key=("id",))
    target = ParquetTarget(str(directory), "f")
    return len(asyncio.run(target.rules({structure_key("d", shape): shape})))


@pytest.mark.parametrize("name", ["_op", "_Commit_TS", "_seq"])
def test_a_table_with_a_column_like_ours_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Stopped, match=f"a column {name} of its own"):
        ruled(tmp_path, name)


def test_any_other_is_not(tmp_path: Path) -> None:
    assert ruled(tmp_path, "op") == 1
