"""What counts as the same key; that equal values never differ is shown on MariaDB
(tests/adapters/mysql/test_keys.py)."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import TableRule
from tidelog.plan.keys import TableKeys, Unsure
from tidelog.schema.structure import KeyPart

TABLE = table(
    "t",
    column("id", "bigint"),
    column("name", "varchar(20)"),
    column("ci", "varchar(20)", collation="utf8mb4_general_ci"),
    column("roman", "varchar(20)", collation="utf8mb4_roman_ci"),
    column("old", "varchar(20)", charset="utf8", collation="utf8_bin"),
    column("price", "decimal(10,3)"),
    column("at", "time(1)"),
    column("raw", "varbinary(8)"),
    column("fixed", "binary(4)"),
    column("kind", "enum('a')", collation="utf8mb4_general_ci"),
    column("half", "double"),
    column("made", "bigint", generated="`id`+1"),
    key=("id",),
)


def base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def keys(*parts: str | KeyPart, **collations: str) -> TableKeys:
    """Of a table with the primary key and a unique key of these parts."""
    unique = tuple(KeyPart(part) if isinstance(part, str) else part for part in parts)
    return TableKeys(TABLE, TableRule(False, True, ((KeyPart("id"),), unique), collations))


def same(column: str, one: Any, other: Any, b64: tuple[str, ...] = (), length: int = 0) -> bool:
    found = keys(KeyPart(column, length))
    left, right = ([found.all({"id": 1, column: value}, b64)] for value in (one, other))
    return left == right


def test_values_that_may_be_equal_are_one_key() -> None:
    assert same("name", "a", "a  ")
    assert not same("name", "a", "A")
    assert not same("name", "e", "é")
    assert same("ci", "Ab c ", "aB C")
    assert not same("ci", " a", "a")
    assert same("price", "1.500", "1.5")
    assert same("price", "-0.000", "0")
    assert not same("price", "100", "1")
    assert same("at", "-00:00:00.0", "00:00:00.0")
    assert same("half", 0.0, -0.0)
    assert same("raw", base64(b"a"), base64(b"a"))
    assert not same("raw", base64(b"a"), base64(b"a\0"))
    assert same("fixed", base64(b"a"), base64(b"a\0\0"))
    assert not same("kind", "a", "")


def test_a_prefix_is_all_that_counts() -> None:
    assert same("name", "abc", "abd", length=2)
    assert same("name", "a  x", "a", length=3)
    assert same("ci", "abé", "ABx", length=2)
    assert same("raw", base64(b"abc"), base64(b"abd"), length=2)
    assert not same("raw", base64(b"abc"), base64(b"abd"), length=3)


def test_marked_text_is_the_text_it_stands_for() -> None:
    found = keys("name")
    plain = found.all({"id": 1, "name": "é"}, ())
    assert found.all({"id": 1, "name": base64("é ".encode())}, ("name",)) == plain
    with pytest.raises(Unsure):
        found.all({"id": 1, "name": base64(b"\xff")}, ("name",))


@pytest.mark.parametrize(
    ("name", "value"),
    [("ci", "é"), ("ci", "a\0b"), ("ci", "a\tb"), ("ci", "a\x7f"), ("old", "😀")],
)
def test_what_may_equal_anything_is_unsure(name: str, value: str) -> None:
    found = keys(name)
    assert not found.unsure
    with pytest.raises(Unsure):
        found.all({"id": 1, name: value}, ())


def test_tables_of_which_no_key_can_be_told() -> None:
    assert keys("roman").unsure
    with pytest.raises(Unsure):
        keys("roman").all({"id": 1, "roman": "I"}, ())
    assert keys(KeyPart("", 0, "lower(`name`)")).unsure
    assert keys("made").unsure
    assert keys("missing").unsure
    assert keys(KeyPart("price", 2)).unsure
    assert keys("name", name="").unsure
    assert keys("price", price="").unsure
    assert not keys("name", name="utf8mb4_general_ci").unsure
    by_name = TableRule(False, True, ((KeyPart("name"),), (KeyPart("id"),)))
    assert TableKeys(TABLE, by_name).unsure


def test_a_row_without_the_column_is_unsure() -> None:
    with pytest.raises(Unsure):
        keys("name").all({"id": 1}, ())


def test_the_coarser_side_decides() -> None:
    found = keys("name", name="utf8mb4_general_ci")
    assert found.all({"id": 1, "name": "A"}, ()) == found.all({"id": 1, "name": "a"}, ())


def test_characters_that_only_the_upstream_holds_are_unsure() -> None:
    with pytest.raises(Unsure):
        keys("name", name="latin1_bin").all({"id": 1, "name": "λ"}, ())
    assert keys("old", old="utf8mb4_bin").all({"id": 1, "old": "😀"}, ())


def test_a_null_conflicts_with_nothing() -> None:
    assert keys("name", "price").all({"id": 7, "name": None, "price": "1"}, ()) == [(0, 7)]
    assert keys("name", "price").all({"id": 7, "name": "a", "price": "1.0"}, ()) == [
        (0, 7),
        (1, "a", "1"),
    ]


def test_the_first_key_may_have_several_parts() -> None:
    pair = table("p", column("a", "bigint"), column("b", "varchar(5)"), key=("a", "b"))
    found = TableKeys(pair, TableRule(False, True, ((KeyPart("a"), KeyPart("b")),)))
    assert found.first({"a": 1, "b": "x "}, ()) == (1, "x")
    assert not found.several
    assert not found.unsure
    assert not found.plain
    assert keys("name").plain == "id"
