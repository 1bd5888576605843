"""The checkpoint's row: whose it is, and what is said of one that isn't ours (design section 6)."""

from __future__ import annotations

import msgspec
import pytest

from tidelog.downstream import Checkpoint
from tidelog.downstreams.checkpoint_table import CheckpointTable, Found, dump, load
from tidelog.errors import Stopped

OURS = Checkpoint(commit_ts=7, consistent=True, ts_map={"a": 1}, feed="f", epoch=3)


def test_a_row_is_read_as_it_was_written() -> None:
    text = dump("f", msgspec.structs.replace(OURS, feed=""))
    assert msgspec.json.decode(text)["commitTS"] == 7
    assert load([(0, text)], "f") == Found(OURS, (0,))
    assert load([], "f") is None


def test_the_statement_says_who_wrote_it() -> None:
    table = CheckpointTable("f", "sync.`place", cluster_id=12, epoch=9)
    written = table.replace(OURS)
    assert written.startswith("REPLACE INTO `sync`.```place` VALUES (12, '")
    kept = msgspec.structs.replace(OURS, epoch=9)
    assert dump("f", kept) in written


def lives(*whose: int) -> list[tuple[int, Checkpoint | None]]:
    """One after the other, each knows the cluster by this id, 0 = doesn't know it, and does as
    `MysqlDownstream` does: under which key it saves, which is the only row then, and where it
    begins."""
    rows: dict[int, str] = {}
    seen: list[tuple[int, Checkpoint | None]] = []
    for epoch, cluster_id in enumerate(whose, 1):
        table = CheckpointTable("f", cluster_id=cluster_id, epoch=epoch)
        found = load(sorted(rows.items()), "f", cluster_id)
        table = table.with_key(found)
        for step in table.adopt(found) if found is not None else ():
            if step.startswith("DELETE"):
                del rows[int(step.split()[-1])]
            else:
                rows[table.cluster_id] = rows.pop(int(step.split()[-1]))
        rows[table.cluster_id] = dump("f", Checkpoint(100 * epoch, epoch=epoch))
        seen.append((table.cluster_id, found.checkpoint if found is not None else None))
        assert list(rows) == [table.cluster_id]
    return seen


def test_a_row_from_before_the_clusters_id_was_known_is_adopted() -> None:
    found = load([(0, dump("f", OURS))], "f", 12)
    assert found == Found(OURS, (0,))
    adopt = CheckpointTable("f", "s.t", cluster_id=12).adopt(found)
    assert adopt == ("UPDATE `s`.`t` SET clusterID = 12 WHERE clusterID = 0",)


def test_of_the_feeds_rows_the_newest_counts_and_goes_on_alone() -> None:
    """One that an earlier life left at key 0 won over all that came later."""
    older, newer = (dump("f", Checkpoint(ts, epoch=epoch)) for ts, epoch in ((900, 3), (200, 4)))
    table = CheckpointTable("f", "s.t", cluster_id=12)
    found = load([(0, older), (12, newer)], "f", 12)
    assert found is not None
    assert (found.checkpoint.commit_ts, found.keys) == (200, (12, 0))
    assert table.adopt(found) == ("DELETE FROM `s`.`t` WHERE clusterID = 0",)
    found = load([(0, newer), (12, older)], "f", 12)
    assert found is not None
    assert (found.checkpoint.commit_ts, found.keys) == (200, (0, 12))
    assert table.adopt(found) == (
        "DELETE FROM `s`.`t` WHERE clusterID = 12",
        "UPDATE `s`.`t` SET clusterID = 12 WHERE clusterID = 0",
    )
    same = load([(0, newer), (12, newer)], "f", 12)
    assert same is not None
    assert same.keys == (12, 0)


def test_who_does_not_know_the_clusters_id_goes_on_in_the_row_it_found() -> None:
    begun = lives(77, 0, 77, 0, 0, 77)
    assert [key for key, _ in begun] == [77] * 6
    assert [at and at.commit_ts for _, at in begun] == [None, 100, 200, 300, 400, 500]
    begun = lives(0, 0, 77, 77)
    assert [key for key, _ in begun] == [0, 0, 77, 77]
    assert [at and at.commit_ts for _, at in begun] == [None, 100, 200, 300]


def test_rows_of_other_clusters_are_left_alone() -> None:
    text, other = dump("f", OURS), dump("f", Checkpoint(5))
    assert load([(11, "garbage"), (12, text)], "f", 12) == Found(OURS, (12,))
    assert load([(11, text)], "f", 12) is None
    found = load([(11, other), (12, text)], "f")
    assert found == Found(OURS, (12, 11))
    assert CheckpointTable("f").with_key(found).adopt(found) == ()


def test_another_clusters_feed_of_our_name_is_a_stop() -> None:
    """Its locks, its epochs and its progress have that name, too."""
    ours, theirs = CheckpointTable("f", cluster_id=12), (11, dump("f", OURS))
    with pytest.raises(Stopped, match="name f of cluster 11 is written here") as stop:
        ours.check_cluster([(0, dump("f", OURS)), theirs, (12, dump("f", OURS))])
    assert "another name" in stop.value.hint
    assert "row 11 of tidb_binlog.checkpoint" in stop.value.hint
    CheckpointTable("f").check_cluster([theirs])  # it may be ours: nobody has told which we are
    foreign = [(11, dump("g", OURS)), (13, "garbage"), (14, '{"commitTS":5}')]
    ours.check_cluster([(0, dump("f", OURS)), *foreign, (12, dump("f", OURS))])


def test_another_feeds_row_is_not_in_the_way_of_ours_under_another_key() -> None:
    text, other = dump("f", OURS), dump("g", Checkpoint(900, epoch=9))
    found = load([(0, other), (12, text)], "f", 12)
    assert found == Found(OURS, (12,))
    assert CheckpointTable("f", cluster_id=12).adopt(found) == ()
    with pytest.raises(Stopped, match="belongs to feed g"):
        load([(0, text), (12, other)], "f", 12)  # it would be written over


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
