"""Values and identifiers of every form, through the encoder into a real MariaDB and back."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pymysql
import pytest
from hypothesis import strategies as st

from tests.adapters.mysql.value_cases import CASES, EACH, NAMES, Case, examples
from tests.servers import MariaDb, mariadb_server
from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import Image, TableRule
from tidelog.downstreams.literals import matches, name, table_name
from tidelog.downstreams.mysql_session import STRICT
from tidelog.downstreams.statements import TableStatements
from tidelog.downstreams.writing import kind_of, writing
from tidelog.schema.structure import TableStructure

RULE = TableRule(False, True, ())
OTHER = "STRICT_ALL_TABLES,ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO,ANSI_QUOTES,PIPES_AS_CONCAT"
MODES = {"ours": STRICT, "backslashes escape": OTHER}
"""The second is what a session of ours never is: its text must be right even there."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    with mariadb_server(tmp_path_factory.mktemp("literals"), "--sync-binlog=0") as found:
        yield found


class Database:
    def __init__(self, server: MariaDb, mode: str) -> None:
        self._connection = pymysql.connect(
            host=server.host,
            port=server.port,
            user="root",
            charset="utf8mb4",
            autocommit=True,
            conv={},
        )
        # Definitions are made in a session like ours; values in one of either kind.
        self.mode(STRICT)
        self.sql("DROP DATABASE IF EXISTS d")
        self.sql("CREATE DATABASE d")
        self._wanted = mode

    def mode(self, mode: str) -> None:
        self.sql(f"SET SESSION sql_mode='{mode}', time_zone='+00:00'")

    def as_wanted(self) -> None:
        self.mode(self._wanted)

    def sql(self, text: str | bytes) -> list[Any]:
        self._connection.query(text)
        result = self._connection._result
        return list(result.rows or ())

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(params=MODES)
def database(server: MariaDb, request: pytest.FixtureRequest) -> Iterator[Database]:
    found = Database(server, MODES[request.param])
    yield found
    found.close()


def builder(structure: TableStructure, key: tuple[str, ...]) -> TableStatements:
    plan = writing(structure, {c.name: False for c in structure.columns}, None)
    return TableStatements("d", structure.name, plan, 1 << 20, rule=RULE)


def definition(case: Case) -> str:
    sql_type = case.definition.type if case.definition.base != "json" else "longtext"
    return f"v {sql_type} {case.options} NULL"


@pytest.mark.parametrize("what", CASES)
def test_values_round_trip(database: Database, what: str) -> None:
    case = CASES[what]
    values = [None, *examples(case.values, EACH)]
    shape = table("t", column("id", "int(11)"), case.definition, key=("id",))
    marked = ("v",) if case.definition.binary else ()
    images = [Image({"id": i, "v": value}, marked) for i, value in enumerate(values)]
    database.sql(f"CREATE TABLE d.t (id INT PRIMARY KEY, {definition(case)})")
    database.as_wanted()
    for statement in builder(shape, ("id",)).put(images, new=True):
        database.sql(statement.sql)
    shown = {int(i): cell for i, cell in database.sql(f"SELECT id, {case.shown} FROM d.t")}
    assert len(shown) == len(values)
    assert shown.pop(0) is None
    for number, value in enumerate(values[1:], 1):
        assert case.read(shown[number]) == case.expected(value), repr(value)
    _each_is_matched(database, case, values)
    if case.key:
        for statement in builder(shape, ("v",)).delete(images[1:]):
            database.sql(statement.sql)
        assert database.sql("SELECT id FROM d.t") == [("0",)]


def _each_is_matched(database: Database, case: Case, values: list[Any]) -> None:
    """The condition of a row without a key is true for the row, and never for NULL."""
    kind, marked = kind_of(case.definition), case.definition.binary
    conditions = [
        matches(kind, "`v`", one, marked, native_json=False, json_equals=True) for one in values
    ]
    for start in range(0, len(values), 100):
        some = list(enumerate(conditions))[start : start + 100]
        either = " OR ".join(f"(id={i} AND {condition})" for i, condition in some)
        found = database.sql(f"SELECT COUNT(*) FROM d.t WHERE {either}")
        assert found == [(str(len(some)),)]
    for one, condition in list(zip(values, conditions, strict=True))[:: max(1, len(values) // 10)]:
        (found,) = database.sql(f"SELECT COUNT(*) FROM d.t WHERE {condition}")
        same = [
            v for v in values if v is one or (None not in (v, one) and same_value(case, v, one))
        ]
        assert found == (str(len(same)),), repr(one)


def same_value(case: Case, one: Any, other: Any) -> bool:
    if case.definition.base in ("float", "double"):
        return float(one) == float(other)  # both zeros
    if case.definition.base == "decimal":
        return not (one.strip("-0.") or other.strip("-0.")) or bool(one == other)
    if case.definition.base == "json":
        return bool(_as_compared(one) == _as_compared(other))
    return bool(case.expected(one) == case.expected(other))


def _as_compared(document: Any) -> Any:
    """As MariaDB's JSON_EQUALS has it: 1 and 1.0 are one number, and no truth."""
    if isinstance(document, dict):
        return {key: _as_compared(one) for key, one in document.items()}
    if isinstance(document, list):
        return [_as_compared(one) for one in document]
    is_number = isinstance(document, (int, float)) and not isinstance(document, bool)
    return Decimal(repr(document)) if is_number else (type(document), document)


def test_bits_of_every_width(database: Database) -> None:
    columns = [column(f"b{n}", f"bit({n})", length=n) for n in range(1, 65)]
    shape = table("t", column("id", "int(11)"), *columns, key=("id",))
    values = examples(st.integers(0, (1 << 64) - 1), max(10, EACH // 8))
    images = [
        Image({"id": i} | {f"b{n}": value >> (64 - n) for n in range(1, 65)})
        for i, value in enumerate([0, (1 << 64) - 1, *values])
    ]
    listed = ",".join(f"b{n} bit({n})" for n in range(1, 65))
    database.sql(f"CREATE TABLE d.t (id INT PRIMARY KEY, {listed})")
    database.as_wanted()
    for statement in builder(shape, ("id",)).put(images, new=True):
        database.sql(statement.sql)
    found = database.sql("SELECT id, " + ",".join(f"b{n}+0" for n in range(1, 65)) + " FROM d.t")
    assert [tuple(map(int, row)) for row in found] == [tuple(i.row.values()) for i in images]


def test_identifiers_round_trip(database: Database) -> None:
    names = [f"{i}{one}_" for i, one in enumerate(examples(NAMES, EACH))]
    for start in range(0, len(names), 250):
        some = names[start : start + 250]
        shape = table("t", column("id", "int(11)"), *[column(n, "int(11)") for n in some])
        listed = ",".join(f"{name(one)} INT" for one in some)
        database.sql(f"CREATE OR REPLACE TABLE d.t (id INT PRIMARY KEY, {listed})")
        database.as_wanted()
        row = {"id": 1} | {one: i for i, one in enumerate(some)}
        (put,) = builder(shape, ("id",)).put([Image(row)], new=True)
        database.sql(put.sql)
        changed = row | {some[-1]: -1}
        database.sql(builder(shape, ()).update_one(Image(row), Image(changed)).sql)
        (found,) = database.sql("SELECT * FROM d.t")
        assert [int(cell) for cell in found] == list(changed.values())
        told = database.sql(
            "SELECT HEX(COLUMN_NAME) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd'"
            " AND TABLE_NAME = 't' ORDER BY ORDINAL_POSITION"
        )
        assert [bytes.fromhex(one).decode() for (one,) in told[1:]] == some


def test_tables_of_any_name_are_reached(database: Database) -> None:
    """Short ones: a server keeps a table in a file of its name."""
    short = examples(NAMES.map(lambda text: text[:20]), 40)
    for number, one in enumerate(short):
        db, called = f"d{number}{one}_", f"{one}{number}"
        database.sql(f"CREATE DATABASE {name(db)}")
        try:
            database.sql(f"CREATE TABLE {table_name(db, called)} (id INT PRIMARY KEY)")
            plan = writing(table(called, column("id", "int(11)")), {"id": False}, None)
            (put,) = TableStatements(db, called, plan, 1 << 20, rule=RULE).put(
                [Image({"id": 7})], new=True
            )
            database.sql(put.sql)
            assert database.sql(f"SELECT * FROM {table_name(db, called)}") == [("7",)]
        finally:
            database.sql(f"DROP DATABASE {name(db)}")
