"""Backfills on a local Spark, with real MariaDBs."""

from __future__ import annotations

from pathlib import Path

from tests.spark.backfill_rig import play, rig

ROWS = 20_000


def test_a_table_that_changes_while_it_is_copied_and_the_stream_after_it(tmp_path: Path) -> None:
    with rig(tmp_path, ROWS) as on:
        report = play(on, tmp_path, seed=8)
        assert report.rows >= ROWS
        assert "between the snapshot's timestamp and the copy's end" in report.guarantee
        last = on.progress[-1]
        assert last.done == last.total >= 10
