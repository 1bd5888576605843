"""What only the downstream has is not disturbed: columns, triggers, foreign keys, unique keys."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adapters.mysql.lanes_rig import LanesRig, event, run
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, ddl, table
from tidelog.downstream import Checkpoint, TableRule
from tidelog.downstreams import metrics
from tidelog.plan.keys import TableKeys
from tidelog.schema.structure import ColumnStructure, KeyPart, KeyStructure

ID = column("id", "int(11)", nullable=False, id=1)
V = column("v", "varchar(20)", length=20, id=2)
T = table("t", ID, V, key=("id",))
UNIQUE = table("t", ID, V, key=("id",), keys=(KeyStructure("u", (KeyPart("v"),), unique=True),))
PLAIN = "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20))"
OWN = "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), own INT NOT NULL DEFAULT 5)"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("rules")) as found:
        yield found


def row(number: int, text: str) -> dict[str, object]:
    return {"id": number, "v": text}


async def history(rig: LanesRig) -> None:
    """Rows that come, change, move to another key, and go."""
    await rig.write(T, event("c", None, row(1, "a")), event("c", None, row(2, "b")))
    await rig.write(T, event("u", row(1, "a"), row(1, "A")))
    await rig.write(T, event("d", row(2, "b"), None))


def test_a_column_of_the_downstreams_own_keeps_its_value(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, event("c", None, row(1, "a")))
        rig.sql("UPDATE d.t SET own = 9")
        await rig.write(T, event("u", row(1, "a"), row(1, "b")))
        linked = [event("u", row(1, "b"), row(3, "c")), event("c", None, row(1, "new"))]
        await rig.write(T, *linked)
        assert rig.sql("SELECT * FROM d.t ORDER BY id") == [(1, "new", 5), (3, "c", 9)]
        await rig.write(T, *linked, safe=True)

    rig = run(server, scenario, OWN)
    assert rig.sql("SELECT id, v FROM d.t ORDER BY id") == [(1, "new"), (3, "c")]
    assert rig.sql("SELECT own FROM d.t WHERE id = 3") == [(9,)]


def test_triggers_fire_as_the_changes_were(server: MariaDb) -> None:
    fired = [
        f"CREATE TRIGGER d.on_{what} AFTER {what} ON d.t FOR EACH ROW"
        f" INSERT INTO d.log (what, id) VALUES ('{what}', {which}.id)"
        for what, which in (("insert", "NEW"), ("update", "NEW"), ("delete", "OLD"))
    ]
    log = "CREATE TABLE d.log (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(9), id INT)"
    rig = run(server, history, PLAIN, log, *fired)
    assert rig.sql("SELECT what, id FROM d.log ORDER BY n") == [
        ("insert", 1),
        ("insert", 2),
        ("update", 1),
        ("delete", 2),
    ]


def test_rows_that_refer_to_a_changed_row_stay(server: MariaDb) -> None:
    child = (
        "CREATE TABLE d.child (id INT PRIMARY KEY, t INT,"
        " FOREIGN KEY (t) REFERENCES d.t (id) ON DELETE CASCADE ON UPDATE SET NULL)"
    )

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, event("c", None, row(1, "a")))
        rig.sql("INSERT INTO d.child VALUES (7, 1)")
        rule = await rig.downstream.rule("d", T)
        assert not rule.replaceable
        await rig.write(T, event("u", row(1, "a"), row(1, "b")))
        assert rig.sql("SELECT * FROM d.child") == [(7, 1)]
        # Its own rows say what becomes of them: they come by the stream.
        await rig.write(T, event("u", row(1, "b"), row(2, "b")))

    rig = run(server, scenario, PLAIN, child)
    assert rig.sql("SELECT * FROM d.child") == [(7, 1)]
    assert rig.sql("SELECT * FROM d.t") == [(2, "b")]


@pytest.mark.parametrize(
    ("definition", "ordered", "replaceable", "keys"),
    [
        (PLAIN, False, True, 1),
        (OWN, False, False, 1),
        (OWN + ", ADD UNIQUE KEY theirs (own)", True, False, 2),
        (PLAIN + ", ADD UNIQUE KEY theirs (v(3))", False, True, 2),
        (PLAIN + ", DROP PRIMARY KEY", True, True, 1),
    ],
)
def test_the_rule_of_a_table(
    server: MariaDb, definition: str, ordered: bool, replaceable: bool, keys: int
) -> None:
    create, _, alter = definition.partition(", ADD" if ", ADD" in definition else ", DROP")
    alter = definition[len(create) + 2 :]
    found: list[TableRule] = []

    async def scenario(rig: LanesRig) -> None:
        found.append(await rig.downstream.rule("d", T))

    run(server, scenario, create, *([f"ALTER TABLE d.t {alter}"] if alter else []))
    (rule,) = found
    assert (rule.ordered, rule.replaceable, len(rule.keys)) == (ordered, replaceable, keys)
    assert rule.keys[0] == (KeyPart("id"),)


EVERY = table(
    "t",
    column("id", "bigint(20) unsigned"),
    column("i", "int(11)"),
    column("y", "year(4)"),
    column("b", "bit(3)"),
    column("f", "float"),
    column("x", "double"),
    column("n", "decimal(10,3)", scale=3),
    column("dt", "datetime(3)", scale=3),
    column("ts", "timestamp(3)", scale=3),
    column("tm", "time(1)", scale=1),
    column("da", "date", scale=0),
    column("c", "char(9)", length=9),
    column("v", "varchar(9)", length=9, collation="utf8mb4_general_ci"),
    column("o", "varchar(9)", length=9, charset="utf8", collation="utf8_bin"),
    column("z", "varchar(9)", length=9, collation="utf8mb4_0900_ai_ci"),
    column("bi", "binary(9)", length=9, charset="binary", collation="binary"),
    column("vb", "varbinary(9)", length=9, charset="binary", collation="binary"),
    column("e", "enum('a','b')", elems=("a", "b")),
    column("s", "set('a','b')", elems=("a", "b")),
    key=("id", "i", "y", "b", "f", "x", "n", "dt", "ts", "tm", "da", "c"),
    keys=(
        KeyStructure("u", tuple(KeyPart(n) for n in ("v", "o", "z", "bi", "vb", "e", "s")), True),
    ),
)


def test_a_table_of_ours_tells_values_apart_as_the_upstream_does(server: MariaDb) -> None:
    """But for the collations that a MariaDB lacks or names otherwise."""
    found: list[TableRule] = []

    async def scenario(rig: LanesRig) -> None:
        await rig.downstream.apply_ddl(ddl("create_table", (None, EVERY)), Checkpoint(200))
        found.append(await rig.downstream.rule("d", EVERY))

    run(server, scenario)
    assert found[0].collations == {"o": "utf8mb3_bin", "z": "utf8mb4_uca1400_nopad_ai_ci"}
    keys = TableKeys(EVERY, found[0])
    assert (keys.unsure, len(found[0].keys)) == (False, 2)


@pytest.mark.parametrize(
    ("ours", "theirs", "collation"),
    [
        (V, "VARCHAR(20) COLLATE utf8mb4_unicode_ci", "utf8mb4_unicode_ci"),
        (V, "VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_bin", "latin1_bin"),
        (V, "VARCHAR(10) COLLATE utf8mb4_bin", ""),
        (V, "VARBINARY(80)", ""),
        (column("v", "bigint(20)"), "INT", ""),
        (column("v", "bigint(20)"), "BIGINT UNSIGNED", ""),
        (column("v", "decimal(10,3)", scale=3), "DECIMAL(10,1)", ""),
        (column("v", "datetime(6)", scale=6), "DATETIME(3)", ""),
        (column("v", "datetime(3)", scale=3), "DATETIME(6)", None),
    ],
)
def test_a_table_made_by_hand_may_tell_less_apart(
    server: MariaDb, ours: ColumnStructure, theirs: str, collation: str | None
) -> None:
    unique = KeyStructure("u", (KeyPart("v"),), unique=True)
    structure = table("t", ID, ours, key=("id",), keys=(unique,))
    found: list[TableRule] = []

    async def scenario(rig: LanesRig) -> None:
        found.append(await rig.downstream.rule("d", structure))

    run(server, scenario, f"CREATE TABLE d.t (id INT PRIMARY KEY, v {theirs})")
    assert found[0].collations == ({} if collation is None else {"v": collation})


def test_an_ordered_table_with_keys_is_changed_row_by_row(server: MariaDb) -> None:
    own = OWN.replace("own INT", "UNIQUE KEY u (v), own INT")
    swap = [
        event("u", row(1, "a"), row(1, "tmp")),
        event("u", row(2, "b"), row(2, "a")),
        event("u", row(1, "tmp"), row(1, "b")),
    ]

    async def scenario(rig: LanesRig) -> None:
        await rig.write(UNIQUE, event("c", None, row(1, "a")), event("c", None, row(2, "b")))
        rig.sql("UPDATE d.t SET own = id")
        await rig.write(UNIQUE, *swap)
        await rig.write(UNIQUE, event("d", row(1, "b"), None))

    assert run(server, scenario, own).sql("SELECT * FROM d.t") == [(2, "a", 2)]


def test_a_divergence_is_counted(server: MariaDb) -> None:

    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, event("c", None, row(1, "a")), event("c", None, row(2, "b")))
        rig.sql("DELETE FROM d.t WHERE id = 2")
        before = metrics.UNMATCHED._value.get()
        await rig.write(T, event("d", row(1, "a"), None), event("d", row(2, "b"), None))
        assert metrics.UNMATCHED._value.get() == before + 1
        await rig.write(T, event("d", row(2, "b"), None), safe=True)
        assert metrics.UNMATCHED._value.get() == before + 1
        rig.sql("INSERT INTO d.t VALUES (5, 'theirs')")
        await rig.write(T, event("c", None, row(5, "ours")))
        assert metrics.UNMATCHED._value.get() == before + 2

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(5, "ours")]


def test_a_table_that_changed_behind_us_is_read_again(server: MariaDb) -> None:
    async def scenario(rig: LanesRig) -> None:
        await rig.write(T, event("c", None, row(1, "a")))
        rig.sql("ALTER TABLE d.t DROP COLUMN v")
        await rig.write(T, event("c", None, row(2, "b")))
        rig.sql("ALTER TABLE d.t ADD COLUMN must INT NOT NULL")
        await rig.write(T, event("c", None, row(3, "c")))

    assert run(server, scenario, PLAIN).sql("SELECT * FROM d.t") == [(1, 0), (2, 0), (3, 0)]


def test_partial_columns_both_ways(server: MariaDb) -> None:
    """Seed 004's sync mode 2: what one side lacks is left out or takes its default, and a session
    without strict mode stores what it can."""
    theirs = "CREATE TABLE d.t (id INT PRIMARY KEY, more INT NOT NULL, w VARCHAR(3))"
    ours = table("t", ID, V, column("w", "varchar(9)", id=3), key=("id",))

    async def scenario(rig: LanesRig) -> None:
        await rig.write(ours, event("c", None, row(1, "a") | {"w": "too long"}))

    rig = run(server, scenario, theirs, sync_mode=2)
    assert rig.sql("SELECT * FROM d.t") == [(1, 0, "too")]
