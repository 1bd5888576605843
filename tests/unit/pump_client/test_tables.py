"""What the Drainer decodes is what was written; what would not be stored as given is refused."""

from __future__ import annotations

import datetime as dt
from base64 import b64decode, b64encode
from decimal import Decimal

import pytest

from tests.unit.pump_client.shop import (
    ADD_PRICE,
    BIGINT,
    CREATE_ITEM,
    CREATE_SHOP,
    TEXT,
    column,
    decoded,
    table,
)
from tidelog.pump_client.tables import errors
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.pump_client.tables.table import Table
from tidelog.pump_client.tables.texts import JSON_DEPTH
from tidelog.rows.errors import BadValue
from tidelog.schema.model import (
    FLAG_AUTO_INCREMENT,
    FLAG_NOT_NULL,
    FLAG_PRIMARY,
    FLAG_UNSIGNED,
    FieldType,
)
from tidelog.workload import column_kinds as kinds
from tidelog.workload.dice import Dice, SeededRng

NOW = "2024-02-29 12:34:56.789123"
BINARY = FieldType(15, 0, 4, 0, "binary", "binary")
FIXED = FieldType(254, 0, 4, 0, "binary", "binary")
CHAR = FieldType(254, 0, 4, 0, "utf8mb4", "utf8mb4_bin")
TINYTEXT = FieldType(249, 0, 255, 0, "utf8mb4", "utf8mb4_bin")
TINY = FieldType(1, 0, 4)
DECIMAL = FieldType(246, 0, 6, 2)
FRACTION = FieldType(246, 0, 2, 2)
FLOAT = FieldType(4, 0, 12, -1)
UNSIGNED = FieldType(8, FLAG_UNSIGNED, 20)
YEAR = FieldType(13, FLAG_UNSIGNED, 4)
BIT = FieldType(16, FLAG_UNSIGNED, 3)
DATE = FieldType(10, 0, 10)
DATETIME = FieldType(12, 0, 23, 3)
STAMP = FieldType(7, 0, 19, 0)
TIME = FieldType(11, 0, 12, 1)
ENUM = FieldType(247, 0, 1, 0, "utf8mb4", "utf8mb4_bin", ("a", "b", "c"))
SET = FieldType(248, 0, 5, 0, "utf8mb4", "utf8mb4_bin", ("a", "b", "c"))
JSON = FieldType(245, 0, 4294967295)
UTF8 = FieldType(15, 0, 20, 0, "utf8", "utf8_bin")
ZONE = dt.timezone(dt.timedelta(hours=2))

DEEP: list[object] = []
for _ in range(JSON_DEPTH + 1):
    DEEP = [DEEP]
TREE = {"a": [1, 2.5, None, True], "b": (1 << 64) - 1, "c": {}}

GOOD = [
    (TINY, -128, -128),
    (TINY, True, 1),
    (UNSIGNED, (1 << 64) - 1, (1 << 64) - 1),
    (YEAR, 0, 0),
    (YEAR, 2155, 2155),
    (BIT, 7, 7),
    (FLOAT, 0.1, 0.1),
    (FLOAT, 3, 3.0),
    (DECIMAL, "-12.5", "-12.50"),
    (DECIMAL, 9999, "9999.00"),
    (DECIMAL, Decimal("1E2"), "100.00"),
    (DECIMAL, Decimal("-0.00"), "0.00"),
    (DECIMAL, Decimal("0.010"), "0.01"),
    (FRACTION, Decimal("0.25"), "0.25"),
    (FieldType(246, 0, 3, 0), Decimal(-120), "-120"),
    (TEXT, "ß✓ \\ ' \"😀", "ß✓ \\ ' \"😀"),
    (CHAR, "ab", "ab"),
    (BINARY, b"\xff\x00", b64encode(b"\xff\x00").decode()),
    (FIXED, bytearray(b"1234"), b64encode(b"1234").decode()),
    (DATE, dt.date(2024, 2, 29), "2024-02-29"),
    (DATE, "0000-00-00", "0000-00-00"),
    (DATETIME, dt.datetime(999, 1, 2, 3, 4, 5, 6000), "0999-01-02 03:04:05.006"),  # noqa: DTZ001
    (DATETIME, "2024-02-29", "2024-02-29 00:00:00.000"),
    (DATETIME, "0000-00-00 00:00:00", "0000-00-00 00:00:00.000"),
    (STAMP, dt.datetime(2024, 2, 29, 1, 30, tzinfo=ZONE), "2024-02-28 23:30:00"),
    (TIME, dt.timedelta(hours=-100, seconds=-1.5), "-100:00:01.5"),
    (TIME, dt.time(1, 2, 3), "01:02:03.0"),
    (TIME, "838:59:59", "838:59:59.0"),
    (ENUM, "b", "b"),
    (SET, {"c", "a"}, "a,c"),
    (SET, "", ""),
    (JSON, TREE, TREE),
    (JSON, "text", "text"),
]  # fmt: skip

BAD = [
    (TINY, 128, errors.OutOfRange),
    (TINY, "1", errors.WrongType),
    (TINY, 1.0, errors.WrongType),
    (UNSIGNED, -1, errors.OutOfRange),
    (BIGINT, 1 << 63, errors.OutOfRange),
    (YEAR, 1900, errors.OutOfRange),
    (BIT, 8, errors.OutOfRange),
    (BIT, -1, errors.OutOfRange),
    (FLOAT, 1e39, errors.OutOfRange),
    (FLOAT, float("nan"), errors.OutOfRange),
    (FLOAT, 10**400, errors.OutOfRange),
    (FLOAT, "1", errors.WrongType),
    (DECIMAL, 10000, errors.OutOfRange),
    (DECIMAL, "1.005", errors.OutOfRange),
    (DECIMAL, Decimal("1E+1000000"), errors.OutOfRange),
    (DECIMAL, Decimal("NaN"), errors.OutOfRange),
    (DECIMAL, 1.5, errors.WrongType),
    (DECIMAL, "much", errors.WrongType),
    (FRACTION, 1, errors.OutOfRange),
    (TEXT, "x" * 21, errors.OutOfRange),
    (TEXT, b"x", errors.WrongType),
    (TEXT, "\ud800", errors.OutOfRange),
    (JSON, {"\ud800": 1}, errors.OutOfRange),
    (JSON, DEEP, errors.OutOfRange),
    (UTF8, "😀", errors.OutOfRange),
    (TINYTEXT, "ß" * 128, errors.OutOfRange),
    (CHAR, "a ", errors.OutOfRange),
    (BINARY, b"12345", errors.OutOfRange),
    (BINARY, "1234", errors.WrongType),
    (FIXED, b"123", errors.OutOfRange),
    (DATE, "2024-02-30", errors.OutOfRange),
    (DATE, "tomorrow", errors.OutOfRange),
    (DATETIME, "soon", errors.OutOfRange),
    (DATETIME, "2024-02-30 12:00:00", errors.OutOfRange),
    (DATETIME, 1709208000, errors.WrongType),
    (TIME, 3600, errors.WrongType),
    (DATE, dt.datetime(2024, 2, 29), errors.WrongType),  # noqa: DTZ001
    (DATETIME, "2024-02-29 12:00:00.0001", errors.OutOfRange),
    (DATETIME, dt.datetime(2024, 2, 29, tzinfo=ZONE), errors.WrongType),
    (STAMP, "1969-12-31 23:59:59", errors.OutOfRange),
    (STAMP, "2038-01-19 03:14:08", errors.OutOfRange),
    (STAMP, dt.datetime(2024, 2, 29, 0, 0, 0, 1), errors.OutOfRange),  # noqa: DTZ001
    (TIME, "839:00:00", errors.OutOfRange),
    (TIME, "12:61:00", errors.OutOfRange),
    (ENUM, "d", errors.OutOfRange),
    (ENUM, "A", errors.OutOfRange),
    (ENUM, 1, errors.WrongType),
    (SET, ["a", "x"], errors.OutOfRange),
    (SET, 3, errors.WrongType),
    (JSON, 1 << 64, errors.OutOfRange),
    (JSON, {1: 2}, errors.WrongType),
    (JSON, float("inf"), errors.OutOfRange),
    (JSON, b"x", errors.WrongType),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "given", "read"), GOOD)
def test_a_value_is_read_as_it_was_written(kind: FieldType, given: object, read: object) -> None:
    at = table(column(0, "id", BIGINT), column(1, "v", kind))
    made = Table(at)
    row = {"ID": 1, "v": given}
    (change,) = decoded(at, inserted_rows=[made.insert(row, 1, NOW)])
    assert change.after == {"id": 1, "v": read}
    (change,) = decoded(at, updated_rows=[made.update({"id": 1, "v": None}, {"V": given})])
    assert (change.before, change.after) == ({"id": 1, "v": None}, {"id": 1, "v": read})
    (change,) = decoded(at, deleted_rows=[made.delete(row)])
    assert change.before == {"id": 1, "v": read}


@pytest.mark.parametrize(("kind", "given", "error"), BAD)
def test_a_value_that_would_change_is_refused(
    kind: FieldType, given: object, error: type[BadValue]
) -> None:
    made = Table(table(column(0, "v", kind)))
    with pytest.raises(error, match="column v: "):
        made.insert({"v": given}, 1, NOW)


def test_values_of_every_kind_the_workload_knows() -> None:
    columns = [column(at, f"c{at}", kind.type) for at, kind in enumerate(kinds.PAYLOADS)]
    at = table(*columns)
    made, dice = Table(at), Dice(SeededRng(7))
    for number in range(200):
        row = {c.name.text: k.draw(dice) for c, k in zip(columns, kinds.PAYLOADS, strict=True)}
        given = {
            c.name.text: b64decode(str(row[c.name.text])) if c.type.Tp == 252 else row[c.name.text]
            for c in columns
        }
        (change,) = decoded(at, inserted_rows=[made.insert(given, number, NOW)])
        assert change.after == row
        (change,) = decoded(at, deleted_rows=[made.delete(given)])
        assert change.before == row


def test_what_a_row_does_not_name_gets_its_default() -> None:
    now = "CURRENT_TIMESTAMP"
    at = table(
        column(0, "id", BIGINT, flag=FLAG_NOT_NULL | FLAG_PRIMARY),
        column(1, "nothing", TEXT),
        column(2, "word", TEXT, flag=FLAG_NOT_NULL, default="none"),
        column(3, "amount", DECIMAL, default="1.50"),
        column(4, "at", DATETIME, default=now),
        column(5, "second", STAMP, default=now),
        column(6, "bits", BIT, default_bit="BQ=="),
        column(7, "one", ENUM, flag=FLAG_NOT_NULL, default="b"),
        column(8, "day", DATE, default="0000-00-00"),
        handle=True,
    )
    (change,) = decoded(at, inserted_rows=[Table(at).insert({"id": 5}, 1, NOW)])
    assert change.after == {
        "id": 5,
        "nothing": None,
        "word": "none",
        "amount": "1.50",
        "at": "2024-02-29 12:34:56.789",
        "second": "2024-02-29 12:34:56",
        "bits": 5,
        "one": "b",
        "day": "0000-00-00",
    }


def test_rows_that_are_not_the_tables_rows() -> None:
    made = Table(
        table(
            column(0, "id", BIGINT, flag=FLAG_NOT_NULL | FLAG_AUTO_INCREMENT),
            column(1, "v", TEXT, flag=FLAG_NOT_NULL),
            column(2, "g", BIGINT, generated_expr_string="`id` + 1"),
        )
    )
    row = {"id": 1, "v": "x"}
    for bad, error in (
        (row | {"w": 1}, errors.NoSuchColumn),
        (row | {"g": 2}, errors.Generated),
        (row | {"v": None}, errors.NotNull),
        ({"id": 1}, errors.MissingValue),
        ({"v": "x"}, errors.MissingValue),
        (row | {"V": "y"}, errors.NoSuchColumn),
    ):
        with pytest.raises(error):
            made.insert(bad, 1, NOW)
    with pytest.raises(errors.MissingValue):
        made.update({"id": 1}, row)
    with pytest.raises(errors.MissingValue):
        made.delete({"id": 1})
    with pytest.raises(errors.NotWritable):
        Table(table(column(0, "g", BIGINT, generated_expr_string="1", generated_stored=True)))


def test_a_table_is_found_by_name_in_any_case_and_quoting() -> None:
    catalog = Catalog()
    catalog.add([CREATE_SHOP, CREATE_ITEM])
    made = catalog.table("Shop.iTEM")
    assert catalog.table("`shop`.`item`") is made
    assert (catalog.version, catalog.last_job, catalog.next_id) == (2, 103, 105)
    assert catalog.is_newest(made)
    catalog.add([ADD_PRICE])
    assert not catalog.is_newest(made)
    for name in ("item", "shop.", "shop.other", "a.b.c"):
        with pytest.raises(errors.NoSuchTable):
            catalog.table(name)
