"""Cases 7, 8, 11, 13, 17: what Writer.ddl has no words for is told by hand, and done at the source
beside it; and zones."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec import structs

from tests.acceptance.daily.conftest import Case
from tests.acceptance.daily.stage import Stage
from tests.acceptance.daily.test_rows import PRIMARY
from tidelog.schema import jobs
from tidelog.schema.model import ColumnInfo, IndexColumn, IndexInfo, Name, TableInfo, ViewInfo

Play = Callable[[Case], None]


async def altered_database(on: Stage) -> None:
    """Case 7. The copy's databases are utf8mb4 whatever the source's are: their tables say what
    character set they have."""
    await on.sql("create database to_be_altered character set utf8")
    text = "ALTER DATABASE to_be_altered CHARACTER SET utf8mb4"
    on.aside(text)
    db = (await on.by_hand.catalog()).databases["to_be_altered"]
    changed = structs.replace(db, charset="utf8mb4", collate="utf8mb4_bin")
    job = await on.by_hand.job("modify_schema_charset", "to_be_altered", text, db_info=changed)
    last = await on.by_hand.binlogs(job, text)
    await on.equal("to_be_altered", commit_ts=last)
    await on.sql(
        "create table to_be_altered.t (id int primary key, v varchar(9)) character set utf8mb4"
    )
    await on.sql("insert into to_be_altered.t values (1, '😀')")
    await on.equal("to_be_altered")
    await on.sql("drop database to_be_altered")
    await on.equal("to_be_altered")


async def failing_ddl(on: Stage) -> None:
    """Case 8: ADD UNIQUE over values that are there twice is undone upstream, and stops nobody."""
    await on.sql("create database dup")
    await on.sql("create table dup.t (id int primary key, a1 int)")
    await on.sql("insert into dup.t values (1, 1), (2, 1)")
    info = await on.by_hand.found("dup.t")
    unique = IndexInfo(1, Name("aidx", "aidx"), (IndexColumn(Name("a1", "a1"), 1),), is_unique=True)
    text = "ALTER TABLE dup.t ADD UNIQUE INDEX aidx(a1)"
    made = structs.replace(info, index_info=(unique,))
    job = await on.by_hand.job("add_index", "dup", text, made, state=jobs.JOB_STATE_ROLLED_BACK)
    await on.by_hand.binlogs(job, text, jobs.STATE_NONE)
    await on.sql("insert into dup.t values (3, 1)")
    await on.equal("dup")
    await on.sql("drop table dup.t")
    await on.equal("dup")


async def recovered_table(on: Stage) -> None:
    """Case 11: with the rows it had, and open for more."""
    await on.sql("create database recovered")
    await on.sql("create database recycled")
    await on.sql("create table recovered.t (id int, a int)")
    await on.each("insert into recovered.t values (1, -1)", "update recovered.t set a = -5")
    info = await on.by_hand.found("recovered.t")
    on.aside("rename table recovered.t to recycled.t")
    last = await on.by_hand.ddl("drop_table", "recovered", "DROP TABLE t", info)
    await on.equal("recovered", commit_ts=last)
    on.aside("rename table recycled.t to recovered.t")
    last = await on.by_hand.ddl("recover_table", "recovered", "RECOVER TABLE t", info)
    await on.equal("recovered", commit_ts=last)
    await on.sql("insert into recovered.t values (2, -3)")
    await on.equal("recovered")
    await on.sql("drop table recovered.t")
    await on.equal("recovered")


async def view(on: Stage) -> None:
    """Case 13: the copy's view shows the copy's rows."""
    await on.sql("create database views")
    await on.sql("create table views.base (id int primary key, user_id int not null, amount int)")
    query = "SELECT user_id, SUM(amount) FROM views.base GROUP BY user_id"
    text = f"CREATE VIEW views.sums (user_id, total) AS {query}"
    on.aside(text)
    (number,) = await on.by_hand.ids(1)
    base = await on.by_hand.found("views.base")
    columns = tuple(
        ColumnInfo(at + 1, Name(name, name), at, base.columns[at + 1].type)
        for at, name in enumerate(("user_id", "total"))
    )
    shown = TableInfo(
        number, Name("sums", "sums"), "utf8mb4", "utf8mb4_bin", columns, view=ViewInfo(query)
    )
    await on.by_hand.ddl("create_view", "views", text, shown)
    await on.sql(*(f"insert into views.base values ({n}, {n % 7}, {n * n})" for n in range(60)))
    await on.each(
        "update views.base set amount = 1111 where user_id = 3", "delete from views.base limit 9"
    )
    await on.equal("views")
    on.aside("drop view views.sums")
    last = await on.by_hand.ddl("drop_view", "views", "DROP VIEW sums", shown)
    await on.sql("drop table views.base")
    await on.equal("views", commit_ts=last)


TIMES = {
    "timestamp": ("2022-04-27 04:05:07", "2021-04-27 04:05:06"),
    "datetime": ("2022-04-27 04:05:07", "2021-04-27 04:05:06"),
    "date": ("2022-04-27", "2022-04-26"),
    "time": ("04:05:07", "04:05:06"),
    "year": ("2022", "2021"),
}


async def zones(on: Stage) -> None:
    """Case 17: source and copy lie in different zones, and mean the same moments."""
    await on.sql("create database tz")
    tables = {f"tz.{tp}_{kind}": (tp, p) for tp in TIMES for kind, p in PRIMARY.items()}
    for table, (tp, primary) in tables.items():
        null = "" if primary else " null"
        await on.sql(f"create table {table} (t {tp}{null}{primary})")
    await on.sql(*(f"insert into {t} values ('{TIMES[tp][0]}')" for t, (tp, _) in tables.items()))
    await on.sql(
        *(f"insert into {t} values (null)" for t, (_, primary) in tables.items() if not primary)
    )
    await on.equal("tz")
    update = "update {} set t = '{}' where t = '{}'"
    await on.sql(*(update.format(t, *reversed(TIMES[tp])) for t, (tp, _) in tables.items()))
    await on.equal("tz")
    await on.sql(*(f"delete from {t} where t = '{TIMES[tp][1]}'" for t, (tp, _) in tables.items()))
    await on.equal("tz")
    assert on.rows("select count(*) from tz.timestamp_none") == [(1,)]
    await on.sql("drop database tz")
    await on.equal("tz")


async def defaults_in_zones(on: Stage) -> None:
    """Case 17: what rows get that are older than a TIMESTAMP column, and younger."""
    await on.sql("create database tz2")
    await on.sql("create table tz2.t (id int primary key, c timestamp default current_timestamp)")
    await on.sql("insert into tz2.t (id) values (1), (2)")
    add = "alter table tz2.t add column {} timestamp not null default {}"
    fixed = add.format("d", "'2020-02-02 02:02:02'")
    on.aside(fixed)  # whose session is in UTC: TiDB keeps such a default in UTC
    await on.writers[0].ddl(fixed)
    now = add.format("e", "current_timestamp")
    await on.writers[0].ddl(now)
    column = (await on.by_hand.found("tz2.t")).columns[-1]
    on.aside(now, f"update tz2.t set c = c, e = '{column.origin_default}'")
    await on.sql("insert into tz2.t (id) values (3)")
    await on.sql("update tz2.t set d = '1999-12-31 23:59:59' where id = 1")
    await on.equal("tz2")
    assert on.rows("select distinct d from tz2.t where id > 1 and year(d) = 2020 and hour(d) = 2")
    await on.sql("drop table tz2.t")
    await on.equal("tz2")


@pytest.mark.parametrize(
    "case", [altered_database, failing_ddl, recovered_table, view, zones, defaults_in_zones]
)
def test_ddls_and_zones(play: Play, case: Case) -> None:
    play(case)
