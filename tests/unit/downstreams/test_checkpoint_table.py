"""The checkpoint's row: whose it is, and what is said of one that isn't ours (design section 6)."""

from __future__ import annotations

import msgspec
import pytest

from tidelog.downstream import Checkpoint
from tidelog.downstreams.checkpoint_table import CheckpointTable, dump, load
from tidelog.errors import Stopped

OURS = Checkpoint(commit_ts=7, consistent=True, ts_map={"a": 1}, feed="f", epoch=3)


def test_a_row_is_read_as_it_was_written() -> None:
    text = dump("f", msgspec.structs.replace(OURS, feed=""))
    assert msgspec.json.decode(text)["commitTS"] == 7
    assert load([(0, text)], "f") == OURS
    assert load([], "f") is None


def test_the_statement_says_who_wrote_it() -> None:
    table = CheckpointTable("f", "sync.`place", cluster_id=12, epoch=9)
    written = table.replace(OURS)
    assert written.startswith("REPLACE INTO `sync`.```place` VALUES (12, '")
    kept = msgspec.structs.replace(OURS, epoch=9)
    assert dump("f", kept) in written


def test_a_row_from_before_the_clusters_id_was_known_is_adopted() -> None:
    text = dump("f", OURS)
    assert load([(0, text)], "f", 12) == OURS
    adopt = CheckpointTable("f", "s.t", cluster_id=12).adopt()
    assert adopt == "UPDATE `s`.`t` SET clusterID = 12 WHERE clusterID = 0"


def test_rows_of_other_clusters_are_left_alone() -> None:
    text = dump("f", OURS)
    assert load([(11, "garbage"), (12, text)], "f", 12) == OURS
    assert load([(11, text)], "f", 12) is None


@pytest.mark.parametrize(
    ("text", "whose"),
    [(dump("g", OURS), "feed g"), ('{"consistent":true,"commitTS":5}', "the original drainer")],
)
def test_somebody_elses_row_is_a_stop_that_asks_for_another_table(text: str, whose: str) -> None:
    with pytest.raises(Stopped, match=f"belongs to {whose}") as stop:
        load([(0, text)], "f")
    assert "checkpoint-table" in stop.value.hint


@pytest.mark.parametrize("text", ["", "{", '{"commitTS":"x"}', "[]"])
def test_a_row_that_cant_be_read_is_a_stop(text: str) -> None:
    with pytest.raises(Stopped, match="can't be read") as stop:
        load([(0, text)], "f")
    assert stop.value.hint


def test_what_belongs_to_a_checkpoint_is_told_apart_by_its_place() -> None:
    assert CheckpointTable("f").owner == "f"
    owners = {CheckpointTable(feed, place).owner for feed in "fg" for place in ("a.t", "b.t")}
    assert len(owners | {"f", "g"}) == 6


def test_it_is_made_in_its_own_database_beside_ours() -> None:
    made = CheckpointTable("f", "other.place").create()
    assert made[0] == "CREATE DATABASE IF NOT EXISTS `tidb_binlog`"
    assert made[1] == "CREATE DATABASE IF NOT EXISTS `other`"
    assert made[2].startswith("CREATE TABLE IF NOT EXISTS `other`.`place` (clusterID")
    alone = CheckpointTable("f", "place")
    assert alone.select().split(" FROM ")[1] == "`tidb_binlog`.`place` ORDER BY clusterID"
