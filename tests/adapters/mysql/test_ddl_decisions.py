"""What a DDL finds at its start on a real MariaDB: as before it, as after it, or neither."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from tests.adapters.mysql.mysql_rig import (
    ADD_N,
    CRASHES,
    FINAL,
    ID,
    PARTED,
    UNSYNCED,
    Crash,
    Rig,
    T,
    V,
    run,
)
from tests.cycles import left_in_cycles
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, created, ddl, ranges, table
from tidelog import failpoints
from tidelog.changes import DdlMessage
from tidelog.ddl_pending import AGAIN, DONE, DdlPending
from tidelog.errors import Stopped
from tidelog.schema.structure import Partitioning, PartitionStructure, TableStructure

RECORDED, RUN = "applier.ddl.recorded", "applier.ddl.run"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("ddl"), *UNSYNCED) as found:
        yield found


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm_all()


async def crashing(rig: Rig, message: DdlMessage, place: str, at: int = 1) -> None:
    """Begin the DDL and die at `place`; then open again, as the next process does."""

    def crash() -> None:
        raise Crash

    failpoints.disarm_all()
    failpoints.arm(place, crash, at)
    with pytest.raises(Crash):
        await rig.ddl(message)
    failpoints.disarm_all()
    await rig.downstream.open("feed")


async def decided(rig: Rig, word: str) -> None:
    """An operator's word, recorded as the Applier records it: in the checkpoint."""
    opened = await rig.downstream.open("feed")
    checkpoint = opened.checkpoint
    assert checkpoint is not None
    assert checkpoint.ddl_pending is not None
    pending = msgspec.structs.replace(checkpoint.ddl_pending, decision=word)
    await rig.downstream.save_checkpoint(msgspec.structs.replace(checkpoint, ddl_pending=pending))
    await rig.downstream.open("feed")


OTHERS = "ALTER TABLE d.t ADD COLUMN own INT NOT NULL DEFAULT 5 COMMENT 'q''\\\\'"


@pytest.mark.parametrize("place", [RECORDED, RUN])
@pytest.mark.parametrize("word", [DONE, AGAIN])
def test_somebody_elses_change_in_between_asks_an_operator(
    server: MariaDb, place: str, word: str
) -> None:
    is_there = place == RUN

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await crashing(rig, ADD_N, place)
        rig.sql(OTHERS)
        for _ in range(2):  # as often as it is started again
            with pytest.raises(Stopped, match=r"table d\.t: it has `own`") as caught:
                await rig.again(ADD_N)
            assert ("it lacks `n`" in caught.value.message) is not is_there
            assert f"tidelog ddl {DONE} feed {rig.commit_ts}" in caught.value.hint
            await rig.downstream.open("feed")
        await decided(rig, word)
        if is_there and word == AGAIN:
            with pytest.raises(Stopped, match="Duplicate column"):
                await rig.again(ADD_N)
            await decided(rig, DONE)
        await rig.again(ADD_N)
        opened = await rig.downstream.open("feed")
        assert opened.checkpoint is not None
        assert opened.checkpoint.ddl_pending is None
        assert opened.checkpoint.commit_ts == rig.commit_ts

    rig = run(server, scenario)
    there = is_there or word == AGAIN
    assert rig.sql("SELECT own FROM d.t") == [(5,)]
    assert bool(rig.sql("SHOW COLUMNS FROM d.t LIKE 'n'")) is there


def test_the_same_change_made_by_hand_counts(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await crashing(rig, ADD_N, RECORDED)
        rig.sql("ALTER TABLE d.t ADD n INT DEFAULT 7")
        await rig.again(ADD_N)

    run(server, scenario)


@pytest.mark.parametrize(
    ("what", "place", "at"),
    [
        one
        for one in CRASHES
        # One with things of its own is emptied where it is: that is one step.
        if one[0] != "exchange" and (one[0] != "truncate" or one[2] == 1)
    ],
)
def test_a_crash_in_a_table_with_everything_is_decided_without_asking(
    server: MariaDb, what: str, place: str, at: int
) -> None:
    """Whatever else the downstream's table has, the server tells what a step makes of it."""
    message, _ = FINAL[what]
    extras = (
        "ADD own VARCHAR(9) COLLATE latin1_bin DEFAULT (CONCAT('\\\\', '''')) COMMENT 'a''\\\\'",
        "ADD `of v` INT AS (LENGTH(v) + LENGTH('\\\\')) VIRTUAL INVISIBLE",
        "ADD e ENUM('\\\\', '''', 'x\\\"') CHECK (e <> '\\\\')",
        "ADD KEY `odd ``name``` (v(3) DESC, id)",
        "ADD CONSTRAINT positive CHECK (id > 0)",
        "ADD FULLTEXT KEY words (v)",
        "ADD CONSTRAINT up FOREIGN KEY (id) REFERENCES d.parent (id) ON DELETE CASCADE",
        "COMMENT 'it''s \\\\ AUTO_INCREMENT=7'",
        "AUTO_INCREMENT = 1000",
    )

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.ddl(ddl("create_table", (None, PARTED)))
        rig.sql("CREATE TABLE d.parent (id INT PRIMARY KEY)")
        rig.sql(f"ALTER TABLE d.t {', '.join(extras)}")
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await crashing(rig, message, place, at)
        await rig.again(message)

    rig = run(server, scenario)
    assert rig.sql("SHOW TABLES FROM tidb_binlog LIKE 'ddl_shadow'") == []


def test_a_table_that_was_there_before_its_creation_is_told(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        rig.sql("CREATE TABLE d.t (id INT PRIMARY KEY)")
        told = await rig.ddl(ddl("create_table", (None, T)))
        assert told == ["table d.t: it was there before, with another definition"]
        assert await rig.ddl(ddl("create_table", (None, PARTED))) == []
        assert await rig.ddl(ddl("create_table", (None, PARTED))) == []

    run(server, scenario)


def test_a_drop_of_several_tables_runs_over_one_that_is_missing(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        message = ddl("drop_table", (PARTED, None), (T, None))
        assert await rig.ddl(message) == ["table d.r: it was not there to drop"]

    assert run(server, scenario).sql("SHOW TABLES FROM d") == []


def test_a_table_that_can_not_be_moved_aside_is_dropped_with_its_rows(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        rig.sql("CREATE TRIGGER d.watch BEFORE INSERT ON d.t FOR EACH ROW SET @seen = 1")
        refusal, lost = await rig.ddl(ddl("drop_table", (T, None)))
        assert "(1435)" in refusal
        assert lost == "table d.t: its rows, should it be recovered"

    assert run(server, scenario).sql("SHOW TABLES FROM d") == []


@pytest.mark.parametrize("place", [RECORDED, RUN])
def test_a_dropped_partition_is_planned_again_as_it_was(server: MariaDb, place: str) -> None:
    """The partition is gone: planned anew, its rows would be looked for one by one."""
    parts = ("p0", "9", 1), ("p1", "99", 2)
    two = msgspec.structs.replace(PARTED, partitioning=ranges(*parts))
    one = msgspec.structs.replace(PARTED, partitioning=ranges(parts[1]))
    message = ddl("drop_partition", (two, one))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, two)))
        await rig.rows(two, created({"id": 1, "v": "a"}), created({"id": 10, "v": "b"}))
        await crashing(rig, message, place)
        rig.sql("REPLACE INTO d.r VALUES (2, 'somebody else')")
        await rig.again(message)

    ids = [(2,), (10,)] if place == RUN else [(10,)]
    assert run(server, scenario).sql("SELECT id FROM d.r ORDER BY id") == ids


def test_a_refused_row_exchange_leaves_the_decision_to_an_operator(server: MariaDb) -> None:
    message, _ = FINAL["exchange"]

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.ddl(ddl("create_table", (None, PARTED)))
        await rig.rows(T, created({"id": 50, "v": "no partition for it"}))
        with pytest.raises(Stopped, match="no partition") as caught:
            await rig.ddl(message)
        assert f"tidelog ddl {DONE} feed {rig.commit_ts}" in caught.value.hint
        await decided(rig, DONE)
        await rig.again(message)

    assert run(server, scenario).sql("SELECT id FROM d.t") == [(50,)]


def by_key(*numbers: int) -> TableStructure:
    parts = tuple(PartitionStructure(f"p{at}", id=one) for at, one in enumerate(numbers))
    made = table("k", ID, V, key=("id",), number=40)
    return msgspec.structs.replace(made, partitioning=Partitioning("key", "", ("id",), parts))


@pytest.mark.parametrize("kind", ["truncate_partition", "exchange_partition"])
def test_rows_of_a_partition_by_key_are_other_ones_here(server: MariaDb, kind: str) -> None:
    """KEY is a hash of each server's own: the partition of that name has other rows."""
    changes = [(by_key(21, 22), by_key(21, 23))]
    if kind == "exchange_partition":
        changes = [(by_key(21, 22), by_key(21, 10)), (T, msgspec.structs.replace(T, id=22))]
    message = ddl(kind, *changes)

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.ddl(ddl("create_table", (None, by_key(21, 22))))
        await rig.rows(by_key(21, 22), *[created({"id": n, "v": "x"}) for n in range(10)])
        with pytest.raises(Stopped, match="can't be told downstream") as caught:
            await rig.ddl(message)
        assert f"tidelog ddl {DONE} feed {rig.commit_ts}" in caught.value.hint
        await decided(rig, AGAIN)
        with pytest.raises(Stopped, match="can't be told downstream"):
            await rig.again(message)
        await decided(rig, DONE)
        assert await rig.again(message) == []

    assert run(server, scenario).sql("SELECT count(*) FROM d.k") == [(10,)]


@pytest.mark.parametrize("word", [DONE, AGAIN])
@pytest.mark.parametrize("record", [DdlPending(0, 7), DdlPending(0, 0, ("", ""))])
def test_what_another_release_planned_otherwise_asks_an_operator(
    server: MariaDb, record: DdlPending, word: str
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        saved = (await rig.downstream.open("feed")).checkpoint
        assert saved is not None
        rig.commit_ts += 1
        begun = msgspec.structs.replace(record, commit_ts=rig.commit_ts)
        await rig.downstream.save_checkpoint(msgspec.structs.replace(saved, ddl_pending=begun))
        with pytest.raises(Stopped, match="another release began it"):
            await rig.again(ADD_N)
        await decided(rig, word)
        await rig.again(ADD_N)

    found = run(server, scenario).sql("SHOW COLUMNS FROM d.t LIKE 'n'")
    assert bool(found) is (word == AGAIN)


def test_a_statement_of_ours_that_is_refused_stops_and_nothing_is_half_done(
    server: MariaDb,
) -> None:
    """The DDL's own statement ran; what was to note it down did not."""

    async def scenario(rig: Rig) -> None:
        rig.sql("DROP TABLE tidb_binlog.dropped_tables")
        with pytest.raises(Stopped, match=r"can't run the DDL at \d+: .*1146") as caught:
            await rig.ddl(ddl("create_table", (None, T)))
        assert "start the Applier again" in caught.value.hint
        await rig.downstream.open("feed")
        assert await rig.again(ddl("create_table", (None, T))) == []
        await rig.rows(T, created({"id": 1, "v": "a"}))

    assert run(server, scenario).sql("SELECT v FROM d.t") == [("a",)]


def test_what_the_server_refuses_can_t_tell_whether_it_is_done(server: MariaDb) -> None:
    """Somebody changed the table meanwhile, and no definition could come of the statement."""
    strange = msgspec.structs.replace(T, columns=(*T.columns, column("n", "strange", id=3)))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        message = ddl("add_column", (T, strange))
        with left_in_cycles() as left, pytest.raises(Stopped, match="can't be run"):
            await rig.ddl(message)
        assert left["StatementRefused"] == 0, left
        rig.sql(OTHERS)
        await rig.downstream.open("feed")
        with pytest.raises(Stopped, match="neither what was there before") as caught:
            await rig.again(message)
        assert "`own`" in str(caught.value)
        assert rig.sql("SHOW TABLES FROM tidb_binlog LIKE 'ddl_shadow'") == []

    run(server, scenario)
