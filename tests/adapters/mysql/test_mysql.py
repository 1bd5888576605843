"""The MySQL downstream on a real MariaDB: crashes within DDL, lost connections, matching rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.adapters.mysql.mysql_rig import CRASHES, FINAL, ID, PARTED, Crash, Rig, T, V, run
from tests.servers import MariaDb, free_port, mariadb_server
from tests.unit.downstreams.shapes import column, created, ddl, deleted, ranges, table, updated
from tidelog import failpoints
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, DownstreamOptions
from tidelog.downstreams.mysql import MysqlDownstream
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError, Stopped, Unavailable
from tidelog.schema.structure import KeyPart, KeyStructure, TableStructure
from tidelog_backfill.snapshot.values import RowImages, stored


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("applier")) as found:
        yield found


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    failpoints.disarm_all()


@pytest.mark.parametrize(("what", "place", "at"), CRASHES)
def test_a_ddl_happens_once_over_a_crash(server: MariaDb, what: str, place: str, at: int) -> None:
    message, final = FINAL[what]

    def crash() -> None:
        raise Crash

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.ddl(ddl("create_table", (None, PARTED)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.rows(PARTED, created({"id": 2, "v": "z"}))
        saved = rig.commit_ts
        failpoints.disarm_all()
        failpoints.arm(place, crash, at)
        crashed = False
        try:
            await rig.ddl(message)
        except Crash:
            crashed = True
        failpoints.disarm_all()
        found = (await rig.downstream.open("feed")).checkpoint
        assert found is not None
        if crashed:
            assert found.commit_ts == saved
            await rig.again(message)
            found = (await rig.downstream.open("feed")).checkpoint
            assert found is not None
        assert found.commit_ts == rig.commit_ts
        assert found.ddl_pending is None

    rig = run(server, scenario)
    for query, rows in final:
        assert rig.sql(query) == rows


def test_dropped_rows_come_back(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.ddl(ddl("drop_schema", (T, None)))
        assert rig.sql("SHOW DATABASES LIKE 'd'") == []
        await rig.ddl(ddl("recover_schema", (None, T)))

    assert run(server, scenario).sql("SELECT * FROM d.t") == [(1, "a")]


def test_a_database_whose_tables_are_only_named_goes_views_and_all(server: MariaDb) -> None:
    """Told so briefly, a view looks like a table: it could not be moved away."""
    view = TableStructure("w", 1, kind="view", columns=(ID,), definition="SELECT id FROM d.t")
    named = [TableStructure(one.name, 1, id=one.id) for one in (T, view)]

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.ddl(ddl("create_view", (None, view)))
        assert rig.sql("SHOW FULL TABLES IN d") == [("t", "BASE TABLE"), ("w", "VIEW")]
        drop = ddl("drop_schema", *((one, None) for one in named))
        await rig.ddl(msgspec.structs.replace(drop, brief=True))
        assert rig.sql("SHOW DATABASES LIKE 'd'") == []

    run(server, scenario)


def test_rows_without_a_key_are_matched_in_every_type(server: MariaDb) -> None:
    ci = {"collation": "utf8mb4_general_ci"}
    bag = table(
        "b",
        column("f", "float"),
        column("f73", "float(7,3)"),
        column("d", "double"),
        column("n", "decimal(30,10)"),
        column("s", "varchar(9)", **ci),
        column("e", "enum('a','B')", elems=("a", "B"), **ci),
        column("b", "varbinary(9)"),
        column("bits", "bit(64)", length=64),
        column("y", "year(4)"),
        column("t", "time(6)", scale=6),
        column("dt", "datetime(3)", scale=3),
        column("j", "json"),
    )
    row = {
        "f": 0.1,
        "f73": 1.235,
        "d": 0.1,
        "n": "0.1000000000",
        "s": "Ab",
        "e": "a",
        "b": "AP8=",
        "bits": (1 << 64) - 1,
        "y": 0,
        "t": "-00:00:00.000001",
        "dt": "0000-00-00 00:00:00.000",
        "j": {"x": 1e100, "é": [0.1, None]},
    }
    lower = row | {"s": "ab"}
    padded = row | {"s": "Ab "}
    nothing = dict.fromkeys(row)

    def event(op: str, before: Any, after: Any) -> Event:
        return Event(op, 1, None, before, after, ["b"])

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, bag)))
        await rig.rows(bag, *[event("c", None, r) for r in (row, lower, padded, nothing, row)])
        await rig.rows(bag, event("d", row, None), event("u", padded, padded | {"f": 2.5}))
        await rig.rows(bag, event("d", nothing, None))

    found = run(server, scenario).sql("SELECT s, f FROM d.b ORDER BY BINARY s, f")
    assert found == [("Ab", 0.1), ("Ab ", 2.5), ("ab", 0.1)]


def test_documents_that_a_first_copy_wrote_are_found(server: MariaDb) -> None:
    """It has the source's text of them, which has spaces."""
    bag = table("b", column("n", "int(11)"), column("j", "json"))
    copied = [(1, '{"a": 1, "b": [1, 2]}'), (2, '{"x": 1}'), (3, '{"x": 2}')]

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, bag)))
        images = RowImages(stored(bag)).of(copied)
        await rig.rows(bag, *[Event("r", 1, after=one.row, b64=list(one.b64)) for one in images])
        first = {"n": 1, "j": {"a": 1, "b": [1, 2]}}
        second, third = {"n": 2, "j": {"x": 1.0}}, {"n": 3, "j": {"x": 2}}
        await rig.rows(bag, Event("d", 2, before=first))
        await rig.rows(bag, Event("u", 3, before=second, after=second | {"n": 4}))
        await rig.rows(bag, Event("u", 4, before=third, after=third | {"n": 5}))

    assert run(server, scenario).sql("SELECT n FROM d.b ORDER BY n") == [(4,), (5,)]


def test_a_server_that_can_not_compare_documents_is_asked_for_their_texts(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a MariaDB before 10.7: what we wrote is found, the text of a first copy only where it is
    as ours."""
    kept, refused = MysqlSession.rows, list[str]()

    async def older(session: MysqlSession, sql: str) -> list[tuple[Any, ...]]:
        if "JSON_EQUALS" in sql:
            refused.append(sql)
            sql = sql.replace("JSON_EQUALS", "no_such_function")
        return await kept(session, sql)

    bag = table("b", column("n", "int(11)"), column("j", "json"))
    copied = [(1, '{"x":1}'), (2, '{"x": 1}')]

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, bag)))
        images = RowImages(stored(bag)).of(copied)
        await rig.rows(bag, *[Event("r", 1, after=one.row, b64=list(one.b64)) for one in images])
        rows = [{"n": n, "j": {"x": 1}} for n in (1, 2, 3)]
        await rig.rows(bag, Event("c", 2, after=rows[2]))
        for ts, row in enumerate(rows, 3):
            await rig.rows(bag, Event("d", ts, before=row))

    asked = "SELECT n FROM d.b"
    assert run(server, scenario).sql(asked) == []
    monkeypatch.setattr(MysqlSession, "rows", older)
    assert run(server, scenario).sql(asked) == [(2,)]
    assert len(refused) == 1


def test_no_row_without_a_document_is_taken_for_one_that_has_it(server: MariaDb) -> None:
    """MariaDB takes JSON_EQUALS of NULL for true where it is a condition."""
    bag = table("b", column("n", "int(11)"), column("j", "json"))
    without, row = {"n": 1, "j": None}, {"n": 1, "j": {"a": 1}}

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, bag)))
        await rig.rows(bag, *[Event("c", 1, after=one) for one in (without, row, without, row)])
        await rig.rows(bag, Event("u", 2, before=row, after={"n": 2, "j": {"a": 2}}))
        await rig.rows(bag, Event("d", 3, before=row))

    found = run(server, scenario).sql("SELECT n, j FROM d.b ORDER BY n")
    assert found == [(1, None), (1, None), (2, '{"a":2}')]


def test_a_document_that_is_nested_deep_is_in_no_other_rows_way(server: MariaDb) -> None:
    """MariaDB's functions of JSON take 31 levels: a column of ours takes all."""
    bag = table("b", column("n", "int(11)"), column("j", "json"))
    deep: dict[int, Any] = {0: 7}
    for level in range(1, 101):
        deep[level] = [deep[level - 1]] if level % 2 else {"a": deep[level - 1]}

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, bag)))
        kept = [{"n": 1, "j": one} for one in (*map(deep.get, (100, 33, 32, 31, 1)), 1e22)]
        await rig.rows(bag, *[Event("c", 1, after=row) for row in kept])
        for ts, row in enumerate(reversed(kept), 2):
            await rig.rows(bag, Event("u", ts, before=row, after=row | {"n": ts}))

    found = run(server, scenario).sql("SELECT n FROM d.b ORDER BY LENGTH(j) DESC")
    assert found == [(7,), (6,), (5,), (4,), (2,), (3,)]


def test_keys_under_a_coarse_collation_follow_the_upstream(server: MariaDb) -> None:
    ci = table("t", column("k", "varchar(9)", collation="utf8mb4_general_ci"), V, key=("k",))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, ci)))
        await rig.rows(ci, created({"k": "É", "v": "1"}), created({"k": "b", "v": "2"}))
        await rig.rows(ci, updated({"k": "É", "v": "1"}, {"k": "e", "v": "3"}))
        await rig.rows(ci, deleted({"k": "b", "v": "2"}), created({"k": "B", "v": "4"}))

    assert run(server, scenario).sql("SELECT k, v FROM d.t ORDER BY v") == [("e", "3"), ("B", "4")]


def test_downstream_columns_of_its_own_are_kept(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        await rig.rows(T, created({"id": 1, "v": "a"}))
        rig.sql("ALTER TABLE d.t ADD COLUMN own INT NOT NULL DEFAULT 5")
        rig.sql("UPDATE d.t SET own = 9")
        await rig.downstream.open("feed")
        await rig.rows(
            T, updated({"id": 1, "v": "a"}, {"id": 1, "v": "b"}), created({"id": 2, "v": "c"})
        )

    assert run(server, scenario).sql("SELECT * FROM d.t") == [(1, "b", 9), (2, "c", 5)]


def test_a_refused_row_leaves_nothing(server: MariaDb) -> None:
    narrow = table("t", ID, column("v", "varchar(2)", id=2), key=("id",))

    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, narrow)))
        saved = rig.commit_ts
        with pytest.raises(Stopped, match="too long"):
            await rig.rows(narrow, created({"id": 1, "v": "a"}), created({"id": 2, "v": "abc"}))
        found = (await rig.downstream.open("feed")).checkpoint
        assert found is not None
        assert found.commit_ts == saved

    assert run(server, scenario).sql("SELECT * FROM d.t") == []


def test_partitions_a_server_can_not_hold_are_listed(server: MariaDb) -> None:
    unique = KeyStructure("u", (KeyPart("v"),), unique=True)
    refused = msgspec.structs.replace(PARTED, keys=(*PARTED.keys, unique))
    emptied = msgspec.structs.replace(refused, partitioning=ranges(("p0", "10", 30)))

    async def scenario(rig: Rig) -> None:
        refusal, lost = await rig.ddl(ddl("create_table", (None, refused)))
        assert refusal.startswith(f"create_table at {rig.commit_ts}: ")
        assert "(1503)" in refusal
        assert lost == "table d.r: its partitioning"
        await rig.rows(refused, created({"id": 2, "v": "z"}))
        await rig.ddl(ddl("truncate_partition", (refused, emptied)))

    assert run(server, scenario).sql("SELECT * FROM d.r") == []


def test_a_killed_connection_is_unavailable_and_rolls_back(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        (found,) = rig.sql(
            "SELECT ID FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID()"
            " AND USER = 'root'"
        )
        rig.sql(f"KILL {found[0]}")
        with pytest.raises(Unavailable):
            await rig.rows(T, created({"id": 1, "v": "a"}))
        await rig.downstream.open("feed")
        await rig.rows(T, created({"id": 1, "v": "b"}))

    assert run(server, scenario).sql("SELECT * FROM d.t") == [(1, "b")]


def test_another_feeds_checkpoint_is_refused(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        with pytest.raises(Stopped, match="belongs to feed feed"):
            await rig.downstream.open("other")

    run(server, scenario)


def test_who_can_not_get_in_is_told(server: MariaDb, tmp_path: Path) -> None:
    wrong = f"mysql://nobody:secret@{server.host}:{server.port}/"
    nowhere = f"mysql://root@127.0.0.1:{free_port()}/"
    no_socket = f"mysql://root@localhost/?unix_socket={tmp_path}/none"
    for url, kind in ((wrong, ConfigError), (nowhere, Unavailable), (no_socket, Unavailable)):
        with pytest.raises(kind) as caught:
            asyncio.run(MysqlDownstream(Target.parse(url), DownstreamOptions(url=url)).open("feed"))
        assert caught.value.hint
        assert "secret" not in str(caught.value)


def test_a_read_only_server_is_unavailable(server: MariaDb) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, T)))
        rig.sql("CREATE OR REPLACE USER plain@'%'")
        rig.sql("GRANT ALL ON *.* TO plain@'%'")
        rig.sql("REVOKE SUPER, READ_ONLY ADMIN ON *.* FROM plain@'%'")
        url = f"mysql://plain@{server.host}:{server.port}/"
        plain = MysqlDownstream(Target.parse(url), DownstreamOptions(url=url))
        await plain.open("feed")
        rig.sql("SET GLOBAL read_only = 1")
        try:
            with pytest.raises(Unavailable, match="read-only"):
                await plain.save_checkpoint(Checkpoint(rig.commit_ts + 1))
        finally:
            rig.sql("SET GLOBAL read_only = 0")
            await plain.close()

    run(server, scenario)


def test_a_table_at_our_mark_s_name_that_is_none_of_ours(server: MariaDb) -> None:
    """Nothing is missing that a right would give: it is told what stands there."""

    async def scenario(rig: Rig) -> None:
        rig.sql("CREATE OR REPLACE DATABASE theirs")
        rig.sql("CREATE TABLE theirs._drainer_repl_mark (note TEXT)")
        options = msgspec.structs.replace(rig.options, loopback=True, mark_schema="theirs")
        await rig.downstream.close()
        rig.downstream = MysqlDownstream(Target.parse(rig.options.url), options)
        with pytest.raises(Stopped, match="_drainer_repl_mark") as caught:
            await rig.downstream.open("feed")
        assert "rename the table" in caught.value.hint
        rig.sql("RENAME TABLE theirs._drainer_repl_mark TO theirs.renamed")
        await rig.downstream.open("feed")

    assert run(server, scenario).sql("SELECT COUNT(*) FROM theirs._drainer_repl_mark") == [(1,)]


def test_a_server_that_does_not_know_full_names_of_collations(
    server: MariaDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a MariaDB before 10.10."""
    kept, refused = MysqlSession.rows, list[str]()

    async def older(session: MysqlSession, sql: str) -> list[tuple[Any, ...]]:
        if "FULL_COLLATION_NAME" in sql:
            refused.append(sql)
            sql = sql.replace("FULL_COLLATION_NAME", "NO_SUCH_COLUMN")
        return await kept(session, sql)

    shape = table("t", ID, column("v", "varchar(9)", collation="utf8mb4_0900_ai_ci"), key=("id",))

    async def collation(rig: Rig) -> None:
        await rig.ddl(ddl("create_table", (None, shape)))
        await rig.rows(shape, created({"id": 1, "v": "a"}))

    asked = (
        "SELECT COLLATION_NAME FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = 'd' AND COLUMN_NAME = 'v'"
    )
    ((newest,),) = run(server, collation).sql(asked)
    monkeypatch.setattr(MysqlSession, "rows", older)
    ((found,),) = run(server, collation).sql(asked)
    assert refused
    assert (newest, found) == ("utf8mb4_uca1400_nopad_ai_ci", "utf8mb4_bin")
