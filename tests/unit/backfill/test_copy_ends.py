"""How a copy into a database ends, and what of it nobody takes for the next one's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.unit.backfill.copied_database import FEED, REACH, Database, Died, copy
from tests.unit.backfill.copied_database import copied as copied
from tidelog.downstream import Checkpoint
from tidelog.downstreams.target import Target
from tidelog.errors import Refused, Stopped, Unavailable
from tidelog_backfill.snapshot.plan_table import PlanTable

S = 470_000_000_000_000_000
OF_TIDB = f"SHOW MASTER STATUS:\n\tLog: tidb-binlog\n\tPos: {S}\n"
ROWS = [{"id": 1}, {"id": 2}]


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    (tmp_path / "metadata").write_text(OF_TIDB)
    (tmp_path / "d.t-schema.sql").write_text("CREATE TABLE `t` (`id` int PRIMARY KEY);\n")
    (tmp_path / "d.t.0.csv").write_text("1\n2\n")
    return tmp_path


def test_it_says_how_far_its_rows_go(copied: Database, dump: Path) -> None:
    copy(str(dump))
    assert copied.rows == ROWS
    assert copied.checkpoint == Checkpoint(S, consistent=True, feed=FEED, epoch=1)


def test_that_no_relay_log_can_tell_better(copied: Database, dump: Path) -> None:
    """An Applier takes the checkpoint for its own by its epoch, which another database's may have
    had, and what its relay log has for all that was applied."""
    (dump / "metadata").unlink()
    copy(str(dump), snapshot_ts=5)
    expected = Checkpoint(5, consistent=False, feed=FEED, epoch=1, reach=REACH, unsure=REACH)
    assert copied.checkpoint == expected


@pytest.mark.parametrize("call", ["say_whole", "let_go", "forget"])
@pytest.mark.parametrize("error", [Unavailable("NATS is away"), Died()], ids=["error", "death"])
def test_one_whose_end_was_not_reached_comes_to_it(
    copied: Database, dump: Path, call: str, error: BaseException
) -> None:
    copied.ends[call] = error
    with pytest.raises(type(error)):
        copy(str(dump))
    assert copied.checkpoint is not None
    assert copied.checkpoint.commit_ts == S
    report = copy(str(dump))
    assert (report.commit_ts, report.rows) == (S, 0), "nothing is copied again"
    assert copied.rows == ROWS
    assert not copied.pinned
    assert copied.plan is None
    with pytest.raises(Refused, match=f"has the feed {FEED} up to {S}"):
        copy(str(dump))


def test_also_where_its_applier_has_gone_on(copied: Database, dump: Path) -> None:
    copied.ends["let_go"] = Unavailable("NATS is away")
    with pytest.raises(Unavailable):
        copy(str(dump))
    copied.save(Checkpoint(S + 7, feed=FEED))
    after = copied.checkpoint
    copy(str(dump))
    assert copied.checkpoint == after
    assert not copied.pinned


@pytest.mark.parametrize("call", ["let_go", "forget"])
def test_also_where_a_replay_has_forgotten_its_parts(
    copied: Database, dump: Path, call: str
) -> None:
    copied.ends[call] = Unavailable("away")
    with pytest.raises(Unavailable):
        copy(str(dump))
    copied.save(Checkpoint(S + 7, feed=FEED))
    copied.parts.clear()
    report = copy(str(dump))
    assert (report.commit_ts, report.rows, copied.rows) == (S, 0, ROWS)
    assert not copied.pinned
    assert copied.plan is None


def test_one_whose_checkpoint_is_gone_is_not_whole(copied: Database, dump: Path) -> None:
    copied.ends["let_go"] = Unavailable("NATS is away")
    with pytest.raises(Unavailable):
        copy(str(dump))
    copied.save(Checkpoint(S - 1, feed=FEED))
    with pytest.raises(Refused, match="it is no copy any more"):
        copy(str(dump))


@pytest.mark.parametrize("ordered", [False, True])
def test_what_is_begun_anew_is_copied_whole(copied: Database, dump: Path, ordered: bool) -> None:
    """Its plan is the same to the last letter; a person has deleted the earlier one, and emptied
    the table, and nothing else."""
    copied.ordered = ordered
    copied.ends["let_go"] = Died()
    with pytest.raises(Died):
        copy(str(dump))
    assert copied.parts
    copied.plan, copied.whole = None, False
    copied.rows.clear()
    copied.save(Checkpoint(0, feed=FEED, reach=S))
    copy(str(dump))
    assert copied.rows == ROWS


def test_a_plan_that_can_not_be_read_says_all_that_is_to_be_deleted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def damaged(*_: object) -> list[tuple[object, ...]]:
        return [('{"ts":',)]

    monkeypatch.setattr(PlanTable, "_all", damaged)
    plans = PlanTable(Target.parse("mysql://u@copy/", ""), FEED, "drop the copied tables")
    with pytest.raises(Stopped, match="can't be read") as stopped:
        asyncio.run(plans.load())
    assert stopped.value.hint == "to begin anew, drop the copied tables"
