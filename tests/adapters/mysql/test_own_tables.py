"""Tables that somebody made downstream, or changed there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.adapters.mysql.mysql_rig import UNSYNCED, Rig, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog.changes import Event
from tidelog.downstream import RowRefused
from tidelog.errors import Stopped

T = table(
    "t",
    column("id", "int(11)", nullable=False),
    column("v", "varchar(20)"),
    key=("id",),
    number=10,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    directory: Path = tmp_path_factory.mktemp("db")
    with mariadb_server(directory, *UNSYNCED) as found:
        yield found


def created(number: int, text: str) -> Event:
    return Event("c", 20_000 << 18, after={"id": number, "v": text})


@pytest.mark.parametrize(
    "made", ["ID INT PRIMARY KEY, v VARCHAR(20)", "id INT PRIMARY KEY, V TEXT"]
)
def test_the_case_of_a_columns_name_tells_no_two_apart(server: MariaDb, made: str) -> None:
    async def scenario(rig: Rig) -> None:
        rig.sql(f"CREATE TABLE d.t ({made})")
        await rig.rows(T, created(1, "x"), created(2, "y"))
        changed = Event("u", 20_001 << 18, before={"id": 2, "v": "y"}, after={"id": 2, "v": "z"})
        await rig.rows(T, changed)
        assert (await rig.downstream.rule("d", T)).replaceable
        assert rig.sql("SELECT * FROM d.t ORDER BY 1") == [(1, "x"), (2, "z")]

    run(server, scenario)


def test_a_table_without_the_key_is_written_nowhere(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        rig.sql("CREATE TABLE d.t (number INT, v VARCHAR(20))")
        with pytest.raises(Stopped, match="has no id downstream"):
            await rig.rows(T, created(1, "x"))
        assert rig.sql("SELECT * FROM d.t") == []

    run(server, scenario)


def test_rows_of_a_key_that_it_does_not_enforce_are_told_apart(server: MariaDb) -> None:
    """Its collation takes several for equal, and each statement changes one."""
    named = table(
        "t", column("id", "varchar(9)", nullable=False, length=9), T.columns[1], key=("id",)
    )
    ts = 20_000 << 18

    def row(key: str, v: str) -> dict[str, str]:
        return {"id": key, "v": v}

    async def scenario(rig: Rig) -> None:
        rig.sql("CREATE TABLE d.t (id VARCHAR(9), v VARCHAR(20)) COLLATE utf8mb4_general_ci")
        await rig.rows(named, *[Event("c", ts, after=row(key, "x")) for key in ("a", "A", "a ")])
        await rig.rows(named, Event("u", ts + 1, before=row("A", "x"), after=row("A", "y")))
        await rig.rows(named, Event("d", ts + 2, before=row("a ", "x")))
        assert rig.sql("SELECT * FROM d.t ORDER BY v") == [("a", "x"), ("A", "y")]

    run(server, scenario)


def test_a_column_of_its_own_lets_no_value_be_cut(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        rig.sql("CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(3), own INT DEFAULT 5, more TEXT)")
        with pytest.raises(RowRefused, match="too long"):
            await rig.rows(T, created(1, "abcdef"))
        assert rig.sql("SELECT * FROM d.t") == []

    run(server, scenario)


def test_rows_are_found_by_a_key_that_the_server_computes(server: MariaDb) -> None:
    shape = table(
        "t",
        column("a", "int(11)", nullable=False),
        column("g", "int(11)", nullable=False, generated="`a` + 1", generated_stored=True),
        key=("a", "g"),
    )

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, shape)))
        await rig.rows(
            shape, *(Event("c", 20_000 << 18, after={"a": a, "g": a + 1}) for a in (1, 2))
        )
        moved = Event("u", 20_001 << 18, before={"a": 1, "g": 2}, after={"a": 5, "g": 6})
        gone = Event("d", 20_001 << 18, before={"a": 2, "g": 3})
        await rig.rows(shape, moved, gone)
        assert rig.sql("SELECT * FROM d.t") == [(5, 6)]

    run(server, scenario)


@pytest.mark.parametrize(
    "own",
    [
        "ALTER TABLE d.t ADD COLUMN own INT DEFAULT 5",
        "ALTER TABLE d.t ADD KEY mine (v)",
        "CREATE TRIGGER d.tr AFTER INSERT ON d.t FOR EACH ROW SET @seen = NEW.id",
    ],
)
def test_a_truncate_leaves_what_the_downstream_alone_has(server: MariaDb, own: str) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created(1, "x"))
        rig.sql(own)
        had = rig.sql("SHOW CREATE TABLE d.t"), len(rig.sql("SHOW TRIGGERS FROM d"))
        notes = await rig.ddl(ddl("truncate_table", (T, msgspec.structs.replace(T, id=11))))
        assert notes == ["table d.t: its rows, should it be recovered"]
        assert rig.sql("SELECT * FROM d.t") == []
        assert (rig.sql("SHOW CREATE TABLE d.t"), len(rig.sql("SHOW TRIGGERS FROM d"))) == had

    run(server, scenario)


def test_two_clusters_dropped_tables_of_one_id_are_two(server: MariaDb) -> None:
    other_t = msgspec.structs.replace(T, name="x")

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created(1, "of one"))
        await rig.ddl(ddl("drop_table", (T, None)))
        other = Rig(server, "other")
        await other.downstream.open("other")
        await other.ddl(ddl("create_table", (None, other_t)))
        await other.rows(other_t, created(2, "of the other"))
        other.commit_ts += 2 * 86_400_000 << 18  # its clock is two days ahead
        await other.ddl(ddl("drop_table", (other_t, None)))
        assert await other.ddl(ddl("recover_table", (None, other_t))) == []
        await other.downstream.close()
        assert await rig.ddl(ddl("recover_table", (None, T))) == []
        assert rig.sql("SELECT v FROM d.x") == [("of the other",)]
        assert rig.sql("SELECT v FROM d.t") == [("of one",)]

    run(server, scenario)
