"""Ranges of keys: each key lies in exactly one, by the server's own comparison (SQLite's here)."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from hypothesis import given
from hypothesis import strategies as st

from tidelog_backfill.snapshot.key_range import KeyRange, condition, consecutive

KEYS = st.lists(st.tuples(*[st.integers(0, 4)] * 3), unique=True, max_size=40)


def _found(at: sqlite3.Connection, columns: list[str], within: KeyRange) -> list[tuple[int, ...]]:
    where = condition(columns, within) or "1"
    return list(at.execute(f"SELECT a, b, c FROM t WHERE {where} ORDER BY a, b, c"))


@given(KEYS, st.lists(st.tuples(*[st.integers(-1, 5)] * 3), unique=True, max_size=6))
def test_each_key_is_in_one_range(
    keys: list[tuple[int, int, int]], bounds: list[tuple[int, int, int]]
) -> None:
    literals = [tuple(str(part) for part in bound) for bound in sorted(bounds)]
    with closing(sqlite3.connect(":memory:")) as at:
        at.execute("CREATE TABLE t (a, b, c)")
        at.executemany("INSERT INTO t VALUES (?, ?, ?)", keys)
        ranges = list(consecutive(literals))
        found = [key for within in ranges for key in _found(at, ["a", "b", "c"], within)]
    assert found == sorted(keys)
    assert len(ranges) == len(bounds) + 1


@given(st.lists(st.integers(0, 30), unique=True), st.integers(-1, 31), st.integers(-1, 31))
def test_a_bound_belongs_to_the_range_below_it(keys: list[int], low: int, high: int) -> None:
    within = KeyRange((str(low),), (str(high),))
    with closing(sqlite3.connect(":memory:")) as at:
        at.execute("CREATE TABLE t (k)")
        at.executemany("INSERT INTO t VALUES (?)", [(key,) for key in keys])
        where = condition(["k"], within)
        found = {key for (key,) in at.execute(f"SELECT k FROM t WHERE {where}")}
    assert found == {key for key in keys if low < key <= high}


def test_no_bounds_no_condition() -> None:
    assert condition(["a", "b"], KeyRange()) == ""
    assert list(consecutive([])) == [KeyRange()]
