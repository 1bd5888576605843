"""The tables a DDL names, with other names for them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fixtures import capture
from tidelog.decode.renaming import NotUnderstood, references, renamed


def routed(db: str, name: str) -> tuple[str, str]:
    return f"{db}_x", f"{name}_y" if name else ""


def only_name(db: str, name: str) -> tuple[str, str]:
    return db, f"{name}`y" if name else ""


CASES = """
create table if not exists a.`b` (x int, foreign key (x) references c (y), key t (x))
create table if not exists [a.b] (x int, foreign key (x) references [s.c] (y), key t (x))
create table t like u
create table [s.t] like [s.u]
create table t (id int default next value for q, n int default (nextval(`d`.`q`)))
create table [s.t] (id int default next value for [s.q], n int default (nextval([d.q])))
RENAME TABLE a TO b, `c`.d TO e
RENAME TABLE [s.a] TO [s.b], [c.d] TO [s.e]
alter table a rename to b, add column rename int
alter table [s.a] rename to [s.b], add column rename int
alter table t rename index a to b, rename column c to d, rename as e
alter table [s.t] rename index a to b, rename column c to d, rename as [s.e]
alter table t exchange partition p with table u without validation
alter table [s.t] exchange partition p with table [s.u] without validation
alter ignore table t add constraint foreign key (a) references b.c(d)
alter ignore table [s.t] add constraint foreign key (a) references [b.c](d)
drop table if exists a, b . c;
drop table if exists [s.a], [b.c];
drop tables a, b.c
drop tables [s.a], [b.c]
drop global temporary table a
drop global temporary table [s.a]
create table t (id int, view int, sequence int)
create table [s.t] (id int, view int, sequence int)
drop index view on t
drop index view on [s.t]
drop view v
drop view [s.v]
create unique index i on t(a)
create unique index i on [s.t](a)
drop index i on `x`.`t`
drop index i on [x.t]
truncate table t -- t
truncate table [s.t] -- t
truncate t
truncate [s.t]
flashback table t to u
flashback table [s.t] to [s.u]
recover table by job 5
recover table by job 5
create sequence s start 1
create sequence [s.s] start 1
create database if not exists d
create database if not exists `d_x`
alter database charset utf8
alter database charset utf8
alter database character set utf8
alter database character set utf8
flashback database d to e
flashback database `d_x` to `e_x`
create algorithm=merge definer=`r`@`%` view v (a) as select t.a from t join d.u on t.b=u.b
create algorithm=merge definer=`r`@`%` view [s.v] (a) as select t.a from [s.t] AS `t` join [d.u] \
AS `u` on t.b=u.b
alter table 2024_orders add column x decimal(4,2) default 1e1
alter table [s.2024_orders] add column x decimal(4,2) default 1e1
rename table 1a to 2b.3c, b.1e5x to 4d
rename table [s.1a] to [2b.3c], [b.1e5x] to [s.4d]
create view 1v as select a from 2t
create view [s.1v] as select a from [s.2t] AS `2t`
create view v as with c as (select 1 from t as q) select * from c
create view [s.v] as with c as (select 1 from [s.t] as q) select * from c
"""
"""A DDL; the same routed, where [db.table] is the new name of a table."""


def pairs() -> list[tuple[str, str]]:
    lines = CASES.strip().split("\n")
    wanted = [re.sub(r"\[(\w+)\.(\w+)\]", r"`\1_x`.`\2_y`", line) for line in lines[1::2]]
    return list(zip(lines[::2], wanted, strict=True))


@pytest.mark.parametrize(("query", "wanted"), pairs())
def test_names_change_and_the_rest_keeps_its_bytes(query: str, wanted: str) -> None:
    assert renamed(query, "s", routed) == wanted
    assert renamed(query, "s", lambda db, name: (db, name)) == query


def test_what_was_unqualified_stays_so_in_the_same_database() -> None:
    assert renamed("rename table a to c.b", "s", only_name) == "rename table `a``y` to `c`.`b``y`"


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "drop table a; drop table b",
        "create table `open (a int)",
        "create view v as",
        "create view v as select d.t.a from d.t",
        "create view v as delete from t",
        "create view v as select " + "(" * 900 + "1" + ")" * 900,
        "rename table a b",
        "alter table",
        "",
    ],
)
def test_what_names_unknown_tables_is_refused(query: str) -> None:
    with pytest.raises(NotUnderstood):
        renamed(query, "s", routed)


def test_every_ddl_of_a_real_tidb_is_understood_and_names_its_table() -> None:
    for which in capture.SETS:
        for job in capture.ddl_history(which):
            if "placement policy pp" in job.query:
                continue  # names no table
            found = references(job.query)
            names = {one.name.lower() for one in found}
            if job.type != 47 and job.table_id and job.table_name:
                assert job.table_name.lower() in names, job.query
            assert renamed(job.query, job.schema_name, lambda db, name: (db, name)) == job.query


@given(st.text(max_size=40), st.sampled_from(["", "alter table ", "create view v as ", "rename "]))
@settings(max_examples=200, deadline=None)
def test_any_text_is_understood_or_refused(text: str, begin: str) -> None:
    query = begin + text
    try:
        assert renamed(query, "s", lambda db, name: (db, name)) == query
    except NotUnderstood:
        return
