"""Virtual columns in SQLite: those whose values are the upstream's, and no others."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.downstreams import table_sqlite
from tidelog.downstreams.generated_sqlite import expression, same_expression

COLUMNS = (
    column("a", "int(11)"),
    column("b", "int(11)"),
    column("big", "bigint(20) unsigned"),
    column("x", "double"),
    column("n", "decimal(10,2)", scale=2),
    column("s", "varchar(20)"),
    column("d", "datetime"),
    column("j", "json"),
)
ROW = (5, 3, "18446744073709551615", 1.5, "7.10", "ét\u00e9s", "2024-02-03 00:00:00")
DOCUMENT = '{"t":"x","b":true,"n":null,"i":12345678901234567890,"d":{"k y":[1,2]}}'


@pytest.mark.parametrize(
    ("mysql", "type_text", "expected"),
    [
        ("`a` * 2 + `b`", "bigint(20)", 13),
        ("-`a` % 3", "int(11)", -2),
        ("`a` + 1", "varchar(9)", "6"),
        ("`x` * `a`", "double", 7.5),
        ("concat(`s`,'-',`a`)", "varchar(40)", "étés-5"),
        ("concat((`a` + 1),'x')", "text", "6x"),
        ("left(`s`,2)", "varchar(9)", "ét"),
        ("substring(`S`,2,2)", "varchar(9)", "té"),
        ("if(`a` > `b`,'more',null)", "varchar(9)", "more"),
        ("case when isnull(`s`) then 1 when `a` <=> 5 then 2 end", "int(11)", 2),
        ("ifnull(`a`,0)", "int(11)", 5),
        ("(`a` = `b`) < 3 and `a` is not null", "int(11)", 1),
        ("not (`a` = 5 or `b` < 1)", "tinyint(1)", 0),
        ("`j`->>'$.t'", "varchar(9)", "x"),
        ("json_unquote(json_extract(`j`,_utf8mb4'$.b'))", "text", "true"),
        ("`j`->>'$.n'", "text", "null"),
        ("`j`->>'$.i'", "text", "12345678901234567890"),
        ("`j`->>'$.none'", "text", None),
        ("json_extract(`j`,'$.d.\"k y\"[1]')", "json", "2"),
    ],
)
def test_a_translated_column_has_the_upstreams_values(
    mysql: str, type_text: str, expected: object
) -> None:
    made = column("g", type_text, generated=mysql)
    shape = table("t", *COLUMNS, made)
    assert table_sqlite.untranslatable(shape) == []
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(table_sqlite.create_table("t", shape))
        db.execute("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (*ROW, DOCUMENT))
        assert db.execute("SELECT g FROM t").fetchone() == (expected,)


@pytest.mark.parametrize(
    ("mysql", "type_text"),
    [
        ("truncate(`x`,1)", "double"),
        ("length(`s`)", "int(11)"),
        ("cast(`s` as char(2))", "varchar(2)"),
        ("~`a`", "bigint(20) unsigned"),
        ("upper(`s`)", "varchar(20)"),
        ("`s` like 'É%'", "int(11)"),
        ("`s` = 'x'", "int(11)"),
        ("`a` / `b`", "decimal(14,4)"),
        ("`n` + 1", "decimal(10,2)"),
        ("`a` + 1", "decimal(10,2)"),
        ("`big` + 0", "bigint(20) unsigned"),
        ("year(`d`)", "int(11)"),
        ("concat(`n`,'x')", "varchar(20)"),
        ("concat(`a` + 1,'x')", "varchar(20)"),
        ("concat(`s`,' ')", "char(9)"),
        ("substring(`s`,0)", "varchar(20)"),
        ("left(`s`,`a`)", "varchar(20)"),
        ("`j`->>'$.*'", "text"),
        ("`j`->>'$.i'", "int(11)"),
        ("`j`->>'$.\"it''s\"'", "text"),
        ("json_extract(`j`,'$.a','$.b')", "json"),
        ("coalesce(`a`,`s`)", "varchar(20)"),
        ("`gone`", "int(11)"),
        ("1.5", "double"),
        ("`a` = `b` < 3", "int(11)"),
        ("`a` +* ((", "int(11)"),
        pytest.param(" + ".join(["`a`"] * 5000), "int(11)", id="5000 of them"),
    ],
)
def test_a_column_that_may_have_other_values_is_left_out(mysql: str, type_text: str) -> None:
    made = column("g", type_text, generated=mysql)
    shape = table("t", *COLUMNS, made)
    assert same_expression(made, shape) is None
    assert table_sqlite.untranslatable(shape) == ["g"]


def test_an_expression_that_isnt_understood_is_none() -> None:
    assert expression("concat(`a`, _utf8mb4'x')") is not None
    assert expression("json_unquote(json_extract(`j`, '$.a'))") == "`j` ->> '$.a'"
    assert expression("`a` +* ((") is None
    assert expression("(" * 4000 + "1" + ")" * 4000) is None
