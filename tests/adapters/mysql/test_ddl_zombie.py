"""Two Appliers in one DDL on a real MariaDB: the one that was taken over changes nothing more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Coroutine, Iterator
from contextlib import closing
from typing import Any

import msgspec
import pytest

from tests.adapters.mysql.mysql_rig import (
    ADD_N,
    CRASHES,
    FINAL,
    PARTED,
    UNSYNCED,
    WAITS,
    Reader,
    Rig,
    T,
    run,
    seen,
)
from tests.processes import until
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import created, ddl
from tidelog import failpoints
from tidelog.downstream import TakenOver
from tidelog.errors import Unavailable

LATER = msgspec.structs.replace(T, name="later", id=50)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("zombie"), *UNSYNCED) as found:
        yield found


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm_all()


def everything(rig: Rig) -> list[Any]:
    """All tables, ours and the Applier's own, and their rows."""
    found: list[Any] = []
    for db, table in rig.sql(
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN"
        " ('d', 'tidb_binlog') ORDER BY 1, 2"
    ):
        found.append(rig.sql(f"SHOW CREATE TABLE {db}.{table}"))
        found.append(sorted(map(str, rig.sql(f"SELECT * FROM {db}.{table}"))))
    return found


def standing_still(another: asyncio.Runner, work: Coroutine[Any, Any, None]) -> None:
    """Whoever calls this does nothing until `work` is done, as a process that is frozen."""
    failpoints.disarm_all()
    thread = threading.Thread(target=another.run, args=(work,))
    thread.start()
    thread.join()


ZOMBIES = [(*one, True) for one in CRASHES if one[1] != "never"]
ZOMBIES += [(*one[:3], False) for one in ZOMBIES if one[0] in ("alter", "exchange")]


@pytest.mark.parametrize(("what", "place", "at", "still_there"), ZOMBIES)
def test_a_zombie_wakes_up_within_a_ddl(
    server: MariaDb, what: str, place: str, at: int, *, still_there: bool
) -> None:
    """The other one has ended the DDL and more; it may be gone again, with its lock."""
    message, final = FINAL[what]
    left: list[Any] = []
    other = Rig(server)

    async def scenario(rig: Rig) -> None:
        for one in (T, PARTED):
            await rig.ddl(ddl("create_table", (None, one)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.rows(PARTED, created({"id": 2, "v": "z"}))

        async def take_over() -> None:
            other.commit_ts = rig.commit_ts
            await other.downstream.open("feed")
            await other.again(message)
            await other.ddl(ddl("create_table", (None, LATER)))
            if not still_there:
                await other.downstream.close()
            left.extend(everything(other))

        failpoints.disarm_all()
        failpoints.arm(place, lambda: standing_still(another, take_over()), at)
        with pytest.raises((Unavailable, TakenOver)):
            await rig.ddl(message)
        assert left
        assert everything(rig) == left
        with pytest.raises(TakenOver):
            await rig.downstream.open("feed")
        assert everything(rig) == left

    with asyncio.Runner() as another:
        try:
            rig = run(server, scenario)
        finally:
            another.run(other.downstream.close())
    for query, rows in final:
        assert rig.sql(query) == rows


def test_where_no_lock_is_shared_the_epoch_stops_a_zombie_s_next_step(server: MariaDb) -> None:
    """As behind a proxy in front of several servers, which have locks of their own."""
    message, _ = FINAL["ring"]

    async def scenario(rig: Rig) -> None:
        for one in (T, PARTED):
            await rig.ddl(ddl("create_table", (None, one)))

        def raised() -> None:
            failpoints.disarm_all()
            rig.sql("UPDATE tidb_binlog.worker SET epoch = epoch + 1")

        failpoints.disarm_all()
        failpoints.arm("applier.ddl.run", raised)
        with pytest.raises(TakenOver):
            await rig.ddl(message)
        (text,) = rig.sql("SELECT checkPoint FROM tidb_binlog.checkpoint")[0]
        assert '"step":0' in text

    run(server, scenario)


def test_an_alter_that_outlives_its_client_is_ended_before_anybody_looks(server: MariaDb) -> None:
    running = f"SELECT ID FROM information_schema.PROCESSLIST WHERE STATE = '{WAITS}'"

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.downstream.close()
        rig.commit_ts += 1
        with closing(Reader(server)) as reader:
            reader.begin()
            module = "tests.adapters.mysql.ddl_victim"
            argv = [sys.executable, "-m", module, str(server.port), str(rig.commit_ts)]
            victim = await asyncio.to_thread(subprocess.Popen, argv)
            await asyncio.to_thread(until, lambda: bool(rig.sql(running)), "the victim's ALTER")
            victim.kill()
            victim.wait()
            (orphan,) = rig.sql(running)
            other = Rig(server)
            other.commit_ts = rig.commit_ts
            await other.downstream.open("feed")
            assert rig.sql(running) == []

            async def let_go() -> None:
                await seen(other, WAITS)
                assert rig.sql(running) != [orphan]
                reader.end()

            notes, _ = await asyncio.gather(other.again(ADD_N), let_go())
            await other.downstream.close()
            assert notes == []

    assert run(server, scenario).sql("SELECT n FROM d.t") == [(7,)]
