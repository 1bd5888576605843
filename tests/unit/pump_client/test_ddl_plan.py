"""Statements as a plan: what a TiDB made of the same text, and what is refused."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import msgspec
import pytest

from tidelog.errors import BadInput
from tidelog.pump_client.ddl.errors import DdlNotSupported, DdlRefused
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema import jobs
from tidelog.schema.history import TableAt
from tidelog.schema.model import DdlJob, TableInfo, decode_jobs
from tidelog.schema.steps import changes_schema
from tidelog.schema.structure import TableStructure, structure
from tidelog.schema.tracker import SYSTEM_SCHEMAS

DATA = Path(__file__).parents[2] / "fixtures" / "data"
NOW = "2024-01-01 00:00:00.000000"
MINE = frozenset((1, 2, 3, 4, 5, 6, 7, 8, 11, 12, 14))
AGREED = {"set-a": 60, "set-x": 13}
"""At least so many statements of the capture are supported."""
_NAMED = re.compile(
    r"\s*(?:(?:create|drop|truncate|alter|rename)\s+table(?:\s+if\s+(?:not\s+)?exists)?"
    r"|create\s+(?:unique\s+)?index\s+\S+\s+on|drop\s+index\s+\S+\s+on)\s+(?=(?:`[^`]+`|[\w$]+)(\s*\.)?)",
    re.IGNORECASE,
)  # fmt: skip


def _qualified(job: DdlJob) -> str:
    """The query with its database, which the session named."""
    found = _NAMED.match(job.query)
    if found is None or found[1]:
        return job.query
    return f"{job.query[: found.end()]}`{job.schema_name}`.{job.query[found.end() :]}"


def _seen(info: TableInfo) -> tuple[TableStructure, bool, bool, list[int]]:
    """All that readers see, and what decoding needs; without ids and the time of the statement."""
    shape = structure(TableAt("", info.name.text, 0, info))
    columns = tuple(
        msgspec.structs.replace(column, id=0, origin_default=None) for column in shape.columns
    )
    flags = [column.type.Flag & (1 | 2 | 32 | 512 | 8192) for column in info.columns]
    shape = msgspec.structs.replace(shape, id=0, columns=columns)
    return shape, info.pk_is_handle, info.is_common_handle, flags


@pytest.mark.parametrize("capture", AGREED)
def test_a_supported_statement_gives_the_table_that_tidb_made(capture: str) -> None:
    history = decode_jobs(lzma.decompress((DATA / capture / "ddl_history.json.xz").read_bytes()))
    catalog, agreed = Catalog(), 0
    for job in sorted(history, key=lambda job: (job.version, job.id)):
        if job.type in MINE and changes_schema(job) and job.schema_name not in SYSTEM_SCHEMAS:
            agreed += _agrees(job, catalog)
        if changes_schema(job):
            catalog.add([job])
    assert agreed >= AGREED[capture]


def _agrees(job: DdlJob, catalog: Catalog) -> bool:
    try:
        change = plan(parse(_qualified(job)), catalog, NOW)
    except BadInput:
        return False
    assert change is not None
    assert job.binlog is not None
    assert (change.type, change.db.db_name.text) == (job.type, job.schema_name)
    made, theirs = change.info, job.binlog.table_info
    if made is not None and theirs is not None and job.type != jobs.DROP_TABLE:
        assert _seen(made) == _seen(theirs), job.query
    return True


def _catalog(*queries: str) -> Catalog:
    return _catalog_on(Catalog(), *queries)


def _catalog_on(catalog: Catalog, *queries: str) -> Catalog:
    for query in queries:
        change = plan(parse(query), catalog, NOW)
        assert change is not None
        catalog.add([change.job(catalog.next_id, catalog.version, query, 0)])
    return catalog


SHOP = (
    "create database shop",
    "create table shop.t (id bigint primary key, a varchar(9) default 'x', b int, g int as (b+1))",
)


def test_columns_keep_their_ids_and_keys_their_columns() -> None:
    catalog = _catalog(
        *SHOP,
        "alter table shop.t add index i (b, a)",
        "alter table shop.t add column first_of_all datetime(3) default current_timestamp(3) first",
        "alter table shop.t add column c decimal(5,2) not null default 1.5 after a",
    )
    found = catalog.find("SHOP", "T")
    assert found is not None
    names = [column.name.text for column in found.info.columns]
    assert names == ["first_of_all", "id", "a", "c", "b", "g"]
    assert [column.offset for column in found.info.columns] == list(range(6))
    assert [(p.name.text, p.offset) for p in found.info.indexes[0].idx_cols] == [("b", 4), ("a", 2)]
    origins = {column.name.text: column.origin_default for column in found.info.columns}
    assert (origins["first_of_all"], origins["c"]) == ("2024-01-01 00:00:00.000", "1.50")
    dropped = found.info.columns[3].id
    again = _catalog_on(catalog, "alter table shop.t drop column c", "alter table shop.t add c int")
    found = again.find("shop", "t")
    assert found is not None
    assert dropped not in {column.id for column in found.info.columns}


@pytest.mark.parametrize(
    "query",
    [
        "create database if not exists SHOP",
        "drop database if exists other",
        "create table if not exists shop.t (a int)",
        "drop table if exists shop.other",
    ],
)
def test_nothing_is_to_be_done(query: str) -> None:
    assert plan(parse(query), _catalog(*SHOP), NOW) is None


@pytest.mark.parametrize(
    "query",
    [
        "create database shop",
        "drop database other",
        "create table other.t (a int)",
        "create table shop.t (a int)",
        "create table shop.u (a int, A int)",
        "create table shop.u (a int, primary key (b))",
        "create table shop.u (a text, key (a))",
        "create table shop.u (a int default 'x')",
        "create table shop.u (a tinyint default 200)",
        "create table shop.u (a int, key k (a), key k (a))",
        "drop table shop.u",
        "truncate table shop.u",
        "rename table shop.t to shop.T",
        "rename table shop.t to other.t",
        "alter table shop.t add column a int",
        "alter table shop.t add column c int after z",
        "alter table shop.t drop column id",
        "alter table shop.t drop column b",
        "alter table shop.t drop column z",
        "alter table shop.t modify column z int",
        "alter table shop.t drop index z",
        "alter table shop.t add primary key (b)",
    ],
)
def test_what_the_schema_does_not_allow(query: str) -> None:
    with pytest.raises(DdlRefused):
        plan(parse(query), _catalog(*SHOP), NOW)


@pytest.mark.parametrize(
    ("part", "changed"), [("a", "text"), ("a", "json"), ("a(5)", "varchar(4)"), ("a(5)", "int")]
)
def test_a_column_in_a_key_stays_one_that_a_key_can_have(part: str, changed: str) -> None:
    """Once the history has it no server makes such a table: each reader's TRUNCATE would stop."""
    made = _catalog(*SHOP, f"alter table shop.t add index k ({part})")
    with pytest.raises(DdlRefused):
        plan(parse(f"alter table shop.t modify column a {changed}"), made, NOW)
    whole = plan(parse("alter table shop.t modify column a varchar(5)"), made, NOW)
    assert whole is not None
    assert whole.info is not None
    assert [part.length for part in whole.info.indexes[0].idx_cols] == [-1]


LONG = "x" * 65


@pytest.mark.parametrize(
    "query",
    [
        f"create database {LONG}",
        f"create table shop.{LONG} (a int)",
        f"create table shop.u ({LONG} int)",
        f"create table shop.u (a int, key {LONG} (a))",
        f"rename table shop.t to shop.{LONG}",
        f"alter table shop.t add column {LONG} int",
        "create table shop.`u ` (a int)",
    ],
)
def test_a_name_is_one_that_servers_take(query: str) -> None:
    with pytest.raises(DdlRefused, match="no name"):
        plan(parse(query), _catalog(*SHOP), NOW)


@pytest.mark.parametrize(
    "query",
    [
        "create table shop.u (a varchar(9) on update now())",
        "create table shop.u (a int on update current_timestamp)",
        "create table shop.u (a int(256))",
        "create table t (a int)",
        "create table shop.u like shop.t",
        "create table shop.u as select 1",
        "create temporary table shop.u (a int)",
        "create table shop.u (a int) partition by hash(a) partitions 4",
        "create table shop.u (a int, foreign key (a) references shop.t(id))",
        "create table shop.u (a int, check (a > 1))",
        "create table shop.u (a int as (1) stored)",
        "create table shop.u (a int default (1 + 1))",
        "create table shop.u (a real)",
        "create table shop.u (a float(7, 2))",
        "create table shop.u (a varchar(9) character set gbk)",
        "create table shop.u (a int zerofill)",
        "create table shop.u (a geometry)",
        "create table shop.u (a json default '1')",
        "create view shop.v as select 1",
        "create index i on shop.t ((b + 1))",
        "alter table shop.t change column a c int",
        "alter table shop.t modify column id int",
        "alter table shop.t add column c int unique",
        "alter table shop.t add column c int, add column d int",
        "alter table shop.t drop primary key",
        "alter table shop.t comment 'x'",
        "alter table shop.t add fulltext index f (a)",
        "drop table shop.t, shop.u",
        "rename table shop.t to shop.u, shop.v to shop.w",
        "insert into shop.t values (1)",
        "drop table shop.t; drop table shop.u",
        "hello",
        "",
    ],
)
def test_what_is_not_supported_says_what_is(query: str) -> None:
    with pytest.raises(DdlNotSupported, match=r"ADD/DROP/MODIFY COLUMN|one of utf8mb4"):
        plan(parse(query), _catalog(*SHOP), NOW)
