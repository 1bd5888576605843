"""`on-refused = skip` on a real MariaDB whose table takes less than the upstream's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import msgspec
import pytest

from tests.adapters.mysql.mysql_rig import Rig, T, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import created, ddl, share
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, Lane, RowRefused, Work
from tidelog.real.disk import RealDisk
from tidelog_applier.apply.refused import RefusedRow
from tidelog_applier.apply.skipping import REFUSED_FILE, RefusedRows, SkippingLane
from tidelog_applier.position import Position

ROWS = 300
LONG = {117, 205, 206}
"""Rows whose values are above the downstream's column."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("skipping")) as found:
        yield found


def rows() -> list[Event]:
    return [created({"id": n, "v": "far too long" if n in LONG else f"v{n}"}) for n in range(ROWS)]


async def work(rig: Rig) -> Work:
    await rig.ddl(ddl("create_table", (None, T)))
    rig.sql("ALTER TABLE d.t MODIFY v VARCHAR(5)")
    rule = await rig.downstream.rule("d", T)
    rig.commit_ts += 1
    saved = Checkpoint(rig.commit_ts, feed="feed")
    return Work(share("d", T, rule, rows()), checkpoint=saved, up_to=rig.commit_ts)


def test_the_refused_rows_are_written_down_and_all_others_get_there(
    server: MariaDb, tmp_path: Path
) -> None:
    async def scenario(rig: Rig) -> None:
        lane_of = partial(rig.downstream.lane, 0)
        refused = RefusedRows(RealDisk(tmp_path), Position())
        lane: Lane = SkippingLane(await lane_of(), lane_of, refused)
        await lane.apply(await work(rig))
        await lane.close()
        refused.close()
        (found,) = rig.sql("SELECT checkPoint FROM tidb_binlog.checkpoint")
        assert f'"commitTS":{rig.commit_ts}' in str(found)

    rig = run(server, scenario)
    lines = (tmp_path / REFUSED_FILE).read_bytes().splitlines()
    told = [msgspec.json.decode(line, type=RefusedRow) for line in lines]
    assert {(one.after or {})["id"]: one.code for one in told} == dict.fromkeys(LONG, 1406)
    assert {one.up_to for one in told} == {rig.commit_ts}
    assert {number for (number,) in rig.sql("SELECT id FROM d.t")} == set(range(ROWS)) - LONG


def test_without_it_the_window_stops_whole_with_what_to_do(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        lane = await rig.downstream.lane(0)
        with pytest.raises(RowRefused, match="on-refused") as caught:
            await lane.apply(await work(rig))
        assert caught.value.code == 1406

    assert run(server, scenario).sql("SELECT id FROM d.t") == []
