"""What a schema change is refused for, in words, and what of it is done without saying so."""

from __future__ import annotations

import sys

import pytest

from tests.unit.pump_client.test_ddl_plan import NOW, SHOP, _catalog
from tidelog.errors import ConfigError
from tidelog.pump_client.ddl.errors import DdlNotSupported, DdlRefused
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.schema.model import TableInfo

TABLES = (
    *SHOP,
    "create table shop.pair (a int, b varchar(9), primary key (a, b))",
    "create table shop.one (a int)",
)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("alter table shop.pair drop index `PRIMARY`", "a primary key stays"),
        ("alter table shop.one drop column a", "keeps one column"),
        ("create table shop.u (a int, key k (b))", "there is no column b"),
        ("create table shop.u (a int, key k (a, a))", "names a column twice"),
        ("create table shop.u (a json, key k (a))", "can't be in a key"),
        ("create table shop.u (a varchar(5), key k (a(6)))", "no prefix of length 6"),
        ("create table shop.u (a int primary key, primary key (a))", "two primary keys"),
    ],
)
def test_what_the_schema_does_not_allow_is_said(query: str, why: str) -> None:
    with pytest.raises(DdlRefused, match=why):
        plan(parse(query), _catalog(*TABLES), NOW)


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("create table shop.u (a int not null not null)", "says a thing twice"),
        ("create table shop.u (a)", "a is not supported"),
        ("create table shop.u (a int not null default null)", "for a NOT NULL column"),
        ("create table shop.u (a int default current_timestamp)", "no DATETIME or TIMESTAMP"),
        ("create table shop.u (a varbinary(3) default 'x')", "for binary columns"),
        ("create table shop.u (a varchar)", "needs a length"),
        ("create table shop.u (a char(300))", "longer than 255"),
        ("create table shop.u (a decimal(70, 2))", "no such precision and scale"),
        ("create table shop.u (a datetime(7))", "at most 6 fraction digits"),
        ("create table shop.u (a bit(65))", "no such width"),
        ("create table shop.u (a enum('x', 'x'))", "names an element twice"),
        ("create table shop.u (a set('x,y'))", "one with a comma"),
        ("alter table shop.t modify column g int", "a generated one plain"),
        ("truncate table shop.t, shop.one", "TRUNCATE"),
    ],
)
def test_what_is_not_supported_is_said(query: str, why: str) -> None:
    with pytest.raises(DdlNotSupported, match=why):
        plan(parse(query), _catalog(*TABLES), NOW)


@pytest.mark.parametrize(
    "query",
    [
        "alter table shop.t add column if not exists a int",
        "alter table shop.t drop column if exists z",
    ],
)
def test_if_exists_is_taken_at_its_word(query: str) -> None:
    assert plan(parse(query), _catalog(*TABLES), NOW) is None


def made(columns: str) -> TableInfo:
    change = plan(parse(f"create table shop.u ({columns})"), _catalog(*TABLES), NOW)
    assert change is not None
    assert change.info is not None
    return change.info


def test_keys_get_the_names_and_prefixes_that_they_were_given_or_their_first_columns() -> None:
    keys = "constraint c unique (a), key (a), key (a), key k (b(3)), constraint p primary key (d)"
    info = made(f"a int, b varchar(9), d varchar(4), e int unique, {keys}")
    found = {
        index.idx_name.text: ([(p.name.text, p.length) for p in index.idx_cols], index.is_unique)
        for index in info.indexes
        if not index.is_primary
    }
    assert found == {
        "c": ([("a", -1)], True),
        "a": ([("a", -1)], False),
        "a_2": ([("a", -1)], False),
        "k": ([("b", 3)], False),
        "e": ([("e", -1)], True),
    }
    assert [[p.name.text for p in i.idx_cols] for i in info.indexes if i.is_primary] == [["d"]]


def test_defaults_are_kept_as_the_column_holds_them() -> None:
    info = made("a int default -5, b double default 1.50, c tinyint default true, d float")
    assert {c.name.text: c.default for c in info.columns} == {
        "a": "-5",
        "b": "1.5",
        "c": "1",
        "d": None,
    }


def test_without_the_parser_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlglot", None)
    with pytest.raises(ConfigError) as missing:
        parse("drop table shop.t")
    assert "'.[writer]'" in missing.value.hint
