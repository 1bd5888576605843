"""What a replay's driver makes of its job, into Parquet, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import msgspec
import pytest

from tests.spark import relay_files
from tests.spark.relay_files import BASE_TS, FEED, RelayFiles, keyed
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog import record
from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.told import Report
from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput, ForeignCluster, NotFound, Purged, Stopped
from tidelog.relay import RelayGap
from tidelog_backfill.files.chain import in_order
from tidelog_backfill.replay import run
from tidelog_backfill.replay.parquet import LOCK, STATE

TABLE = table(
    "t", column("id", "bigint", nullable=False), column("v", "longtext"), key=("id",), version=2
)


@pytest.fixture
def surveyed_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        run, "surveyed", lambda _, chunks, on_corrupt: in_order(chunks, on_corrupt=on_corrupt)
    )


def relay(root: Path, rows: int, file_bytes: int = 64 << 10) -> int:
    """A database, a table, and so many transactions of a row; the last one's commit_ts."""
    log = RelayFiles(root / "relay", file_bytes)
    log.ddl(ddl("create_schema"))
    log.ddl(ddl("create_table", (None, TABLE)))
    for number in range(rows):
        row = {"id": number, "v": "x"}
        log.batch([("d", TABLE, keyed(TABLE, log.end + 1, None, row))])
    log.close()
    return log.end


def replayed(root: Path, **more: Any) -> Report:
    job = ReplayJob(inputs=(str(root / "relay"),), feed=FEED, parquet=str(root / "lake"), **more)
    spark = MagicMock()
    spark.sparkContext.defaultParallelism = 2
    return run.replay(spark, job, lambda _: None)


def saved(root: Path) -> Checkpoint:
    return msgspec.json.decode((root / "lake" / STATE).read_bytes(), type=Checkpoint)


def put(root: Path, checkpoint: Checkpoint) -> None:
    (root / "lake").mkdir()
    (root / "lake" / STATE).write_bytes(msgspec.json.encode(checkpoint))


pytestmark = pytest.mark.usefixtures("surveyed_here")


def test_a_replay_reads_a_relay_to_its_end(tmp_path: Path) -> None:
    end = relay(tmp_path, 5)
    told = replayed(tmp_path)
    assert (told.began_ts, told.commit_ts, told.written, told.ddls) == (BASE_TS, end, 5, 2)
    assert saved(tmp_path) == Checkpoint(end, consistent=True, feed=FEED, ddls_done=(1, 2))


def test_another_clusters_relay_is_refused(tmp_path: Path) -> None:
    """Its feed may have the same name, and what it holds was written over this one's rows."""
    log = RelayFiles(tmp_path / "relay", cluster_id=8)
    log.batch([("d", TABLE, keyed(TABLE, log.end + 1, None, {"id": 1, "v": "x"}))])
    log.close()
    with pytest.raises(ForeignCluster, match="is of cluster 8, not of 7"):
        replayed(tmp_path, cluster_id=7)


def test_where_the_downstream_is_said_to_be_it_is_written_at_once(tmp_path: Path) -> None:
    end = relay(tmp_path, 3)
    told = replayed(tmp_path, start_ts=end - 1, until_ts=end - 1)
    assert (told.began_ts, told.commit_ts, told.rows) == (end - 1, end - 1, 0)
    assert saved(tmp_path).commit_ts == end - 1
    assert replayed(tmp_path).written == 1


def test_the_place_of_the_start_is_kept_though_nothing_more_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = relay(tmp_path, 3)

    async def fails(*_: object) -> None:
        raise BadInput("no")

    monkeypatch.setattr(run._Replay, "_segment", fails)
    with pytest.raises(BadInput):
        replayed(tmp_path, start_ts=end - 1)
    assert saved(tmp_path).commit_ts == end - 1


def test_a_time_before_the_logs_begin_is_refused(tmp_path: Path) -> None:
    relay(tmp_path, 1)
    with pytest.raises(BadInput, match="begin behind"):
        replayed(tmp_path, until_ts=BASE_TS - 1)
    with pytest.raises(BadInput, match=f"everything up to {BASE_TS + 1}"):
        replayed(tmp_path, start_ts=BASE_TS + 1, until_ts=BASE_TS)
    assert not (tmp_path / "lake" / STATE).exists()


def test_a_time_is_refused_that_an_earlier_life_may_have_passed(tmp_path: Path) -> None:
    end = relay(tmp_path, 9)
    begun = Checkpoint(BASE_TS + 2, feed=FEED, reach=end - 2)
    put(tmp_path, begun)
    with pytest.raises(BadInput, match=f"may hold changes up to {end - 2}"):
        replayed(tmp_path, until_ts=end - 3)
    assert saved(tmp_path) == begun
    assert replayed(tmp_path, until_ts=end - 2).commit_ts == end - 2
    assert saved(tmp_path).consistent


def test_files_of_which_nobody_knows_what_they_hold_are_left_alone(tmp_path: Path) -> None:
    relay(tmp_path, 2)
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake" / STATE).write_bytes(b'{"commitTS":')
    with pytest.raises(Stopped, match=f"{STATE} does not say up to where") as raised:
        replayed(tmp_path)
    assert "empty this one" in raised.value.hint
    assert sorted(one.name for one in (tmp_path / "lake").iterdir()) == [STATE, LOCK]


def test_a_replay_from_the_very_beginning_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has a commit_ts yet when it dies, as in a first copy."""
    monkeypatch.setattr(relay_files, "BASE_TS", 0)
    log = RelayFiles(tmp_path / "relay")
    log.batch([("d", TABLE, keyed(TABLE, 5, None, {"id": 1, "v": "x"}))])
    log.close()

    async def dies(*_: object) -> None:
        raise BadInput("killed")

    with monkeypatch.context() as patched:
        patched.setattr(run, "carried_out", dies)
        with pytest.raises(BadInput, match="killed"):
            replayed(tmp_path)
    assert (saved(tmp_path).commit_ts, saved(tmp_path).reach) == (0, 5)
    assert replayed(tmp_path).written == 1
    assert saved(tmp_path).commit_ts == 5


def test_a_relay_whose_oldest_files_are_gone_needs_to_know_what_is_there(tmp_path: Path) -> None:
    end = relay(tmp_path, 20, file_bytes=300)
    names = sorted((tmp_path / "relay").glob("relay-*"))
    for name in names[: len(names) // 2]:
        name.unlink()
    with pytest.raises(Purged, match="nothing says what the downstream holds") as raised:
        replayed(tmp_path)
    assert "--start" in raised.value.hint
    with pytest.raises(Purged, match="purged up to"):
        replayed(tmp_path, start_ts=BASE_TS + 2)
    assert replayed(tmp_path, start_ts=end - 2).written == 2


def test_it_is_replayed_and_warned_of_where_that_is_asked_for(tmp_path: Path) -> None:
    end = relay(tmp_path, 20, file_bytes=300)
    min((tmp_path / "relay").glob("relay-*")).unlink()
    told = replayed(tmp_path, on_corrupt="skip")
    assert told.commit_ts == end
    assert "it has no checkpoint" in told.warnings[0]


def test_a_relay_with_a_header_only_ends_where_it_begins(tmp_path: Path) -> None:
    relay(tmp_path, 0)
    file = tmp_path / "relay" / "relay-000000"
    data = file.read_bytes()
    file.write_bytes(data[: record.split(data).records[1][0]])
    (tmp_path / "relay" / "synced").unlink()
    assert replayed(tmp_path).commit_ts == BASE_TS
    assert saved(tmp_path) == Checkpoint(BASE_TS, consistent=True, feed=FEED)


@pytest.mark.parametrize("size", [0, 10])
def test_a_relay_that_says_nothing_at_all_leaves_the_downstream_alone(
    tmp_path: Path, size: int
) -> None:
    relay(tmp_path, 3)
    file = tmp_path / "relay" / "relay-000000"
    file.write_bytes(file.read_bytes()[:size])
    (tmp_path / "relay" / "synced").unlink()
    with pytest.raises(NotFound, match="hold nothing yet"):
        replayed(tmp_path)
    assert not (tmp_path / "lake" / STATE).exists()
    assert replayed(tmp_path, start_ts=BASE_TS).commit_ts == BASE_TS


def test_changes_that_no_file_has_stop_or_are_warned_of(tmp_path: Path) -> None:
    relay(tmp_path, 3)
    with pytest.raises(RelayGap):
        replayed(tmp_path, start_ts=BASE_TS - 5)
    (warning,) = replayed(tmp_path, start_ts=BASE_TS - 5, on_corrupt="skip").warnings
    assert f"after {BASE_TS - 5} up to {BASE_TS}" in warning


def test_how_far_a_step_may_write_is_kept_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = relay(tmp_path, 4)

    async def dies(*_: object) -> None:
        raise BadInput("killed")

    with monkeypatch.context() as patched:
        patched.setattr(run, "carried_out", dies)
        with pytest.raises(BadInput, match="killed"):
            replayed(tmp_path, until_ts=end - 1)
    begun = saved(tmp_path)
    assert (begun.consistent, begun.reach) == (False, end - 1)
    assert replayed(tmp_path).commit_ts == end
    assert saved(tmp_path).consistent
