"""Clauses taken out of a DDL's text, and that nothing else ever changes."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures import capture
from tidelog.decode import rewriting, sql_tokens
from tidelog.decode.rewriting import rewritten
from tidelog.decode.sql_tokens import Token

TTL = "/*T![ttl] TTL=`c` + INTERVAL 1 DAY */ /*T![ttl] TTL_ENABLE='OFF' */"

OPTIONS = [
    ("placement policy=pp;", ";"),
    (" ttl = `c` + interval 10 year", ""),
    (f" {TTL} COMMENT='x'", " COMMENT='x'"),
    (" engine=x, ttl=c+interval 1 day, comment 'y'", " engine=x, comment 'y'"),
    (" ttl_enable='ON', comment 'y'", " comment 'y'"),
    (" comment='a', placement policy=p partition by hash(a)", " comment='a' partition by hash(a)"),
    (" engine=x, ttl_enable='ON' comment 'y'", " engine=x, comment 'y'"),
    (" comment 'TTL=a' ttl_enable ='ON' -- ttl=\n", " comment 'TTL=a' -- ttl=\n"),
    (
        "partition by range (a) (partition p values less than (1) placement policy=p, partition q)",
        "partition by range (a) (partition p values less than (1), partition q)",
    ),
    (
        "partition by list (a) (partition p values in (1) /*T![placement] PLACEMENT POLICY=`p` */)",
        "partition by list (a) (partition p values in (1))",
    ),
]
SPECIFICATIONS = [
    ("set tiflash replica 1 location labels 'a', 'b', add column c int", "add column c int"),
    ("add c int, set tiflash replica 2, ttl_enable='on'", "add c int"),
    ("ttl=a + interval 1 day, ttl_enable='on', add column x int, remove ttl", "add column x int"),
    ("comment='x' placement policy p, drop c", "comment='x', drop c"),
]
REMOVED = [
    *((f"create table ttl (ttl int){a}", f"create table ttl (ttl int){b}") for a, b in OPTIONS),
    *((f"alter table ttl {a}", f"alter table ttl {b}") for a, b in SPECIFICATIONS),
    ("alter database d charset utf8 placement policy=p", "alter database d charset utf8"),
    ("create database if not exists d PLACEMENT POLICY=`x`", "create database if not exists d"),
]

NOTHING_LEFT = [
    "alter table t remove ttl",
    "ALTER TABLE `a`.`t` /*T![ttl] REMOVE TTL */",
    "alter table t placement policy=default",
    "alter table t placement policy set default;",
    "alter table t set tiflash replica 0",
    "alter table t set hypo tiflash replica 2",
    "alter table t attributes='merge_option=allow'",
    "alter table t attributes default",
    "alter table t partition p attributes 'x'",
    "alter table t partition p placement policy=pp",
    "alter database placement policy=p",
    "alter database d set tiflash replica 1",
]

UNTOUCHED = [
    "create view v as select placement policy from t",
    "create table t (placement policy, ttl int, attributes int, remove ttl)",
    "alter table t add column attributes int, drop column ttl, rename column placement to policy",
    "alter table t alter column attributes set default 'x'",
    "create table t (a int) comment 'placement policy=p' -- ttl_enable='on'",
    "create table t (a bigint /*T![auto_rand] AUTO_RANDOM(3) */) /*T! SHARD_ROW_ID_BITS=4 */",
    "create table t (a int) /* /*T![ttl] TTL_ENABLE='OFF' -- */",
    "create table t like placement",
    "alter table t ttl=a",
    "alter table t remove ttl; drop table u",
    "create table 'broken (a int) ttl_enable='on'",
    "rename table ttl to placement",
    "",
]


@pytest.mark.parametrize(("query", "wanted"), REMOVED)
def test_clauses_go_and_the_rest_keeps_its_bytes(query: str, wanted: str) -> None:
    done = rewritten(query)
    assert done.query == wanted
    assert done.removed
    assert all(clause in query for clause in done.removed)
    assert rewritten(wanted).query == wanted


@pytest.mark.parametrize("query", NOTHING_LEFT)
def test_where_nothing_is_left_the_text_is_empty(query: str) -> None:
    done = rewritten(query)
    assert done.query == ""
    assert done.removed


@pytest.mark.parametrize("query", UNTOUCHED)
def test_what_only_looks_alike_stays(query: str) -> None:
    assert rewritten(query) == rewritten("").__class__(query)


WORDS = [
    *("create", "alter", "table", "database", "`t`", "t", "a", "int", "(", ")", ",", ";", ".", "="),
    *("add", "column", "drop", "placement", "policy", "ttl", "comment", "'x'", '"y"', "partition"),
    *("/* x */", "-- z\n", "/*T![auto_rand] auto_random */", "\n", "ü", "1", "\\", "'", "/*", "`"),
]
CLAUSES = ["placement policy=p", "ttl=c + interval 1 day", "ttl_enable='on'", TTL, "attributes 'x'"]
TABLE = "create table t (a int){} comment='placement policy'{} engine=x{}"


@given(st.lists(st.sampled_from(WORDS), max_size=14), st.sampled_from(["", " "]))
@settings(max_examples=150, deadline=None)
def test_whatever_goes_is_named_and_nothing_else_goes(words: list[str], space: str) -> None:
    query = space.join(words)
    done = rewritten(query)
    if not done.removed:
        assert done.query == query
        return
    rest = query
    for clause in done.removed:
        before, found, behind = rest.partition(clause)
        assert found
        rest = before + behind
    if done.query:
        left = done.query.replace(",", "").split()
        assert "".join(left) == "".join(rest.replace(",", "").split())


@given(st.text(max_size=60), st.sampled_from(["", "alter table t ", "create table t (a int) "]))
@settings(max_examples=150, deadline=None)
def test_text_without_such_clauses_is_unchanged(text: str, begin: str) -> None:
    query = begin + text
    named = ("placement", "ttl", "tiflash", "attributes")
    if not any(one in query.lower() for one in named):
        assert rewritten(query).query == query


@given(st.lists(st.sampled_from(["", *(" " + one for one in CLAUSES[:4])]), min_size=3, max_size=3))
def test_any_of_them_between_the_options_of_a_table(clauses: list[str]) -> None:
    done = rewritten(TABLE.format(*clauses))
    assert done.query == TABLE.format("", "", "")


def test_a_text_of_many_clauses_is_gone_over_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As many partitions as a table may have, each with its clause."""
    gone_over = 0

    def counted(found: Iterable[Token]) -> list[str]:
        nonlocal gone_over
        seen = sql_tokens.words(found)
        gone_over += len(seen)
        return seen

    monkeypatch.setattr(rewriting, "words", counted)
    parts = (f"partition p{n} values less than ({n}) placement policy=p" for n in range(800))
    query = f"create table t (a int) partition by range (a) ({', '.join(parts)})"
    done = rewritten(query)
    assert len(done.removed) == 800
    assert "placement" not in done.query
    assert gone_over < 100 * len(sql_tokens.tokens(query))


def test_what_a_real_tidb_wrote() -> None:
    found = {
        job.query: rewritten(job.query).query
        for which in capture.SETS
        for job in capture.ddl_history(which)
        if rewritten(job.query).query != job.query
    }
    assert found == {
        "create table ttlt (id int primary key, t datetime) ttl = `t` + interval 10 year": (
            "create table ttlt (id int primary key, t datetime)"
        ),
        "alter table ttlt remove ttl": "",
        "create table plt (id int primary key) placement policy=pp": (
            "create table plt (id int primary key)"
        ),
        "alter table plt placement policy=default": "",
    }
