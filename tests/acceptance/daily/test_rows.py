"""Cases 1, 3 to 6, 10, 12, 15, 16: rows of many shapes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.acceptance.daily.conftest import Case
from tests.acceptance.daily.stage import Stage

Play = Callable[[Case], None]
INTEGERS = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64}
PRIMARY = {
    "none": "",
    "nonclustered": " primary key /*T![clustered_index] NONCLUSTERED */",
    "clustered": " primary key",
}


async def integer_keys(on: Stage) -> None:
    """Case 1: the extremes of each integer type, as a column, a key, a clustered key."""
    tables: dict[str, tuple[int, int]] = {}
    await on.sql("create database pk")
    for name, bits in INTEGERS.items():
        for sign in ("signed", "unsigned"):
            lowest, highest = (-(1 << bits - 1), (1 << bits - 1) - 1)
            if sign == "unsigned":
                lowest, highest = 0, (1 << bits) - 1
            for kind, primary in PRIMARY.items():
                table = f"pk.{name}_{sign}_{kind}"
                tables[table] = (lowest, highest)
                await on.sql(f"create table {table} (id {name} {sign}{primary})")
    await on.sql(*(f"insert into {t} values ({h}), ({lo})" for t, (lo, h) in tables.items()))
    await on.sql(*(f"insert into {t} values (null)" for t in tables if t.endswith("none")))
    await on.equal("pk")
    for change in ("update {} set id = {} - 1 where id = {}", "delete from {0} where id = {1} - 1"):
        await on.each(*(change.format(t, h, h) for t, (_, h) in tables.items()))
        await on.equal("pk")
    await on.sql("drop database pk")
    await on.equal("pk")


async def auto_random(on: Stage) -> None:
    """Case 3: the keys are the server's choice, with shard bits on top."""
    await on.sql("create database random_keys")
    await on.sql(
        "create table random_keys.t"
        " (a bigint primary key /*T![auto_rand] AUTO_RANDOM(5) */, b varchar(255))"
    )
    for shard in (0, 9, 31):
        await on.sql(f"insert into random_keys.t values ({shard << 58} + 1, '{shard}')")
    await on.equal("random_keys")
    await on.sql("drop database random_keys")


TEXTS = "a varchar(100), b varchar(100), d varchar(100), c varchar(100)"
TEXT_KEYS = ("c", "c, b", "c, a, b", "c(1)", "c, b(1)", "c(1), a(1), b")
CLUSTERED = {
    "t7": "c1 timestamp, c2 datetime, c3 int, primary key (c1, c2, c3)",
    "t8": "c1 double, c2 enum('a', 'b'), c3 bit, c4 set('a', 'b'), c5 time,"
    " primary key (c1, c2, c3, c4, c5)",
    "t9": "c1 char(64) collate utf8mb4_unicode_ci not null, primary key (c1)",
    "t10": "c1 decimal(20, 10), v int, primary key (c1)",
}


async def clustered_tables(on: Stage) -> None:
    """Case 4: keys of several columns, of prefixes, of each type, with a collation."""
    await on.sql("create database clustered")
    tables = [f"clustered.t{number}" for number in range(1, 7)]
    for table, key in zip(tables, TEXT_KEYS, strict=True):
        columns = f"({TEXTS}, primary key ({key}))"
        await on.sql(f"create table {table} {columns} collate utf8mb4_general_ci")
    for name, columns in CLUSTERED.items():
        await on.sql(f"create table clustered.{name} ({columns})")
    values = "values ('aaa', 'bbb', 'ddd', 'ccc'), ('111', '222', '444', '333')"
    await on.each(*(f"insert into {table} (a, b, d, c) {values}" for table in tables))
    stamps = "('1996-11-13 10:38:39', '9472-11-22 10:36:06', 1709134011)"
    await on.sql(
        f"insert into clustered.t7 values {stamps}",
        "insert into clustered.t8 values (1.1, 'a', 1, 'b', '01:01:01'), (-1.1, 2, 0, '', '-1:1')",
        "insert into clustered.t9 values ('1020'), ('Ä'), ('b')",
        "insert into clustered.t10 values (1234567890.0987654321, 1), (-0.5, 2), (0, 3)",
    )
    await on.equal("clustered")
    await on.each(*(f"update {table} set d = 'dddd' where a = 'aaa'" for table in tables))
    await on.sql("update clustered.t10 set v = v + 10")
    await on.equal("clustered")
    new = {"c": "c = 'pccc'", "b": "b = 'pbbb'", "a": "a = 'paaa'"}
    for table, key in zip(tables, TEXT_KEYS, strict=True):
        changed = ", ".join(new[column] for column in new if column in key)
        await on.sql(f"update {table} set {changed}, d = 'pd' where a = 'aaa' and d = 'dddd'")
    await on.sql(
        "update clustered.t7 set c1 = '2022-02-02 02:02:02', c3 = 1",
        "update clustered.t8 set c1 = c1 * 2, c4 = 'a,b', c5 = '-838:59:59' where c2 = 'a'",
        "update clustered.t9 set c1 = 'B' where c1 = 'b'",  # one key to this collation
        "update clustered.t9 set c1 = 'a' where c1 = 'ä'",
        "update clustered.t10 set c1 = c1 + 0.0000000001",
    )
    await on.equal("clustered")
    await on.each(*(f"delete from {table} where a = '111'" for table in tables))
    await on.sql("delete from clustered.t8 where c2 = 'b'", "delete from clustered.t9 limit 1")
    await on.equal("clustered")
    await on.each(*(f"drop table {table}" for table in tables))
    await on.equal("clustered")


async def float_keys(on: Stage) -> None:
    """Case 4's t8 as it is: a FLOAT equals no literal of its own text."""
    await on.sql("create database floats")
    await on.sql("create table floats.t8 (c1 float, c2 int, primary key (c1, c2))")
    await on.sql("insert into floats.t8 values (1.1, 1), (-1.1, 2), (3e38, 3), (0.1, 4)")
    await on.sql(
        "update floats.t8 set c1 = c1 / 3 where c2 < 4", "delete from floats.t8 where c2 = 4"
    )
    await on.equal("floats")
    await on.sql("drop database floats")


MANY_TYPES = """create table many.types (
  id int primary key, t_boolean boolean, t_bigint bigint, t_double double,
  t_decimal decimal(38, 19), t_bit bit(64), t_date date, t_datetime datetime,
  t_timestamp timestamp null, t_time time, t_year year, t_char char, t_varchar varchar(10),
  t_blob blob, t_text text, t_enum enum('enum1', 'enum2', 'enum3'), t_set set('a', 'b', 'c'),
  t_json json
) default charset = utf8 collate = utf8_bin"""
FULL_ROW = """insert into many.types values (1,
  true, 9223372036854775807, 123.123, 123456789012.123456789012, b'1000001', '1000-01-01',
  '9999-12-31 23:59:59', '19731230153000', '23:59:59', 1970, '测', '测试', 'blob', '测试text',
  'enum2', 'a,b', null)"""


async def many_types(on: Stage) -> None:
    """Case 5."""
    await on.sql("create database many")
    await on.sql(MANY_TYPES)
    await on.sql(FULL_ROW)
    insert = "insert into many.types (id, {}) values ({}, {})"
    await on.sql(
        *(insert.format("t_boolean", number, number % 2) for number in (2, 3)),
        *(insert.format("t_bigint", n, v) for n, v in ((4, -(1 << 63)), (5, (1 << 63) - 1))),
        *(insert.format("t_bit", n, v) for n, v in ((6, 0), (7, (1 << 64) - 1))),
        insert.format("t_json", 8, """'{"key1": "value1", "key2": [1, 2.5, null, "\\\\""]}'"""),
        (insert.format("t_blob", 9, "%s"), [bytes(range(256))]),
        (insert.format("t_varchar", 10, "%s"), ["'\\\"\x00\x1a\r\n%"]),
        (insert.format("t_set", 11, "%s"), [""]),
    )
    await on.equal("many")
    await on.sql(
        "update many.types set t_double = id / 3, t_char = null", "delete from many.types limit 1"
    )
    await on.equal("many")
    await on.sql("drop table many.types")
    await on.equal("many")


async def unique_without_primary(on: Stage) -> None:
    """Case 6: rows that a NULL keeps apart, found by all that they hold."""
    await on.sql("create database uk")
    await on.sql("create table uk.t (id int, a1 int, a3 int, unique key dex1(a1, a3))")
    await on.each(*(f"insert into uk.t values ({n}, 1, null)" for n in (1, 2, 2)))
    await on.sql("insert into uk.t values (3, 1, 1), (4, null, null)")
    await on.equal("uk")
    await on.each(
        "update uk.t set id = 10 where id = 1",
        "update uk.t set id = 100 where id = 10",
        "delete from uk.t where id = 2 limit 1",  # one of two that are alike
        "update uk.t set a3 = null where id = 3",
        "insert into uk.t values (5, 1, 1)",
    )
    await on.equal("uk")
    await on.sql("drop database uk")
    await on.equal("uk")


async def bits(on: Stage) -> None:
    """Case 10."""
    await on.sql("create database bits")
    await on.sql("create table bits.t (a bit(1) not null)")
    await on.sql("insert into bits.t values (0x01), (0x00)")
    await on.equal("bits")
    await on.sql("update bits.t set a = 0x00")
    await on.equal("bits")
    await on.sql("drop table bits.t")


CONTACTS = """create table generated.contacts (
  id int primary key,
  first_name varchar(50) not null,
  last_name varchar(50) not null,
  other varchar(101),
  fullname varchar(101) generated always as (concat(first_name, ' ', last_name)) virtual,
  initial varchar(101) generated always as (concat(left(first_name, 1), left(last_name, 1))) stored
)"""


async def generated_columns(on: Stage) -> None:
    """Case 12: a virtual and a stored one, which nobody may write."""
    await on.sql("create database generated")
    await on.sql(CONTACTS)
    for at in range(32):
        await on.sql(
            "insert into generated.contacts (id, first_name, last_name)"
            f" values ({at}, 'John{at}', 'Dow{at}')",
            "update generated.contacts set other = fullname"
            f" where first_name = 'John{at * 7 % (at + 1)}'",
        )
    await on.equal("generated")
    await on.each(
        *(f"delete from generated.contacts where fullname = 'John{n} Dow{n}'" for n in range(10)),
        "update generated.contacts set first_name = 'Xaver' where id = 20",
    )
    await on.equal("generated")
    await on.sql("drop table generated.contacts")


async def swapped_unique_values(on: Stage) -> None:
    """Case 15: in one transaction, so that only its end is free of duplicates."""
    await on.sql("create database swap")
    await on.sql("create table swap.t (id int primary key, a1 int unique)")
    await on.sql("insert into swap.t values (1, 10), (2, 20)")
    for _ in range(3):
        await on.sql(
            "update swap.t set a1 = 30 where id = 1",
            "update swap.t set a1 = 10 where id = 2",
            "update swap.t set a1 = 20 where id = 1",
        )
        await on.equal("swap")
        await on.sql(  # and the keys of the rows: 1 and 2 change places by way of 3
            "update swap.t set id = 3 where id = 1",
            "update swap.t set id = 1 where id = 2",
            "update swap.t set id = 2 where id = 3",
        )
    await on.equal("swap")
    await on.sql("drop table swap.t")


async def big_rows(on: Stage) -> None:
    """Case 16: 5 rows of 1 MiB in one transaction, of zero bytes, which JSON writes as six each."""
    await on.sql("create database big")
    await on.sql("create table big.t (id int primary key, data longtext)")
    row = "insert into big.t values (%s, %s)"
    await on.sql(*((row, (number, "\0" * (1 << 20))) for number in range(5)))
    await on.equal("big")
    await on.sql("update big.t set id = id + 5 order by id desc")
    await on.equal("big")
    await on.sql("drop database big")
    await on.equal("big")


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(integer_keys, marks=pytest.mark.full),
        *(auto_random, clustered_tables, many_types, unique_without_primary, bits),
        *(generated_columns, swapped_unique_values, big_rows),
        float_keys,
    ],
)
def test_rows(play: Play, case: Case) -> None:
    play(case)
