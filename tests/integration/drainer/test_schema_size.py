"""A small share of T8: `python -m tests.schema_size.run` is the whole."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.schema_size.run import run

FULL = pytest.mark.full


@pytest.mark.parametrize(
    "history",
    ["http", pytest.param("file", marks=FULL), pytest.param("embedded", marks=FULL)],
)
def test_many_jobs_are_read_once_and_tables_on_first_use(tmp_path: Path, history: str) -> None:
    """The rig reads rows back, of tables that only the history tells, then only the snapshot."""
    found = run(tmp_path, 20_000, 2_000, history)
    print(msgspec.to_builtins(found))
    assert found.first_start_s < 60
    assert found.restart_s < 60
    assert max(found.peak_mib, found.restart_mib) < 1024
    assert found.bucket_messages < 300, "pages and a structure a table used, not a table or a job"
