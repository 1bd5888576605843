"""Filters of a query that narrow what is read, and those that Spark has to look at."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from tidelog.timestamps import TS_MAX
from tidelog_backfill.source.pushdown import Window

TS = ("commit_ts",)


@pytest.mark.parametrize(
    ("one", "after", "until"),
    [
        (GreaterThan(TS, 7), 7, TS_MAX),
        (GreaterThanOrEqual(TS, 7), 6, TS_MAX),
        (LessThan(TS, 7), 0, 6),
        (LessThanOrEqual(TS, 7), 0, 7),
        (EqualTo(TS, 7), 6, 7),
        (IsNotNull(TS), 0, TS_MAX),
    ],
)
def test_a_filter_of_commit_ts_narrows_and_is_done_with(
    one: Filter, after: int, until: int
) -> None:
    window = Window()
    assert list(window.narrow([one], names=True)) == []
    assert (window.after_ts, window.until_ts) == (after, until)


def test_several_narrow_together() -> None:
    window = Window()
    left = window.narrow([GreaterThan(TS, 3), GreaterThan(TS, 2), LessThan(TS, 9)], names=False)
    assert list(left) == []
    assert (window.after_ts, window.until_ts) == (3, 8)


def test_names_narrow_and_are_compared_by_spark_again() -> None:
    filters: list[Filter] = [EqualTo(("db",), "shop"), EqualTo(("table",), "item")]
    window = Window()
    assert list(window.narrow(filters, names=True)) == filters
    assert window.names() == ("shop.item",)
    assert Window(db="shop").names() == ("shop.*",)
    assert Window(table="item").names() == ("*.item",)


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("db",), "sh*p"),
        EqualTo(("table",), "a.b"),
        EqualTo(("op",), "c"),
        GreaterThan(TS, 7.5),
        IsNotNull(("db",)),
    ],
)
def test_what_is_no_pattern_of_itself_narrows_nothing(one: Filter) -> None:
    window = Window()
    assert list(window.narrow([one], names=True)) == [one]
    assert window == Window()


def test_columns_of_the_table_that_are_called_so_narrow_nothing() -> None:
    window = Window()
    assert list(window.narrow([EqualTo(("db",), "shop")], names=False))
    assert window.names() == ()
