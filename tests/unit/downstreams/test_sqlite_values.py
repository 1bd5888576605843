"""Cells of SQLite: what an ALTER makes of them, as MySQL converts."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tests.unit.downstreams.shapes import column
from tidelog.downstreams import sqlite_values
from tidelog.downstreams.sqlite_values import converted, default_cell


@pytest.mark.parametrize(
    ("cell", "type_text", "expected"),
    [
        (None, "int", None),
        ("12.5", "int", 13),
        (" 7 ", "int", 7),
        ("no number", "int", 0),
        ("", "decimal(5,2)", "0"),
        (b"\xff", "int", 0),
        ("x", "varbinary(3)", b"x"),
        (7, "varbinary(3)", b"7"),
        (b"x", "varchar(3)", "x"),
        ("1.25", "double", 1.25),
    ],
)
def test_an_altered_column_keeps_what_mysql_would(
    cell: str | bytes | int | None, type_text: str, expected: object
) -> None:
    found = converted(cell, column("c", type_text))
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("scale", "cell", "expected"),
    [
        (30, "1", "1." + "0" * 30),
        (20, "9" * 45 + ".5", "9" * 45 + ".5" + "0" * 19),
        (12, "1234567890123456789.0123456789", "1234567890123456789.012345678900"),
        (0, "1e99", "1" + "0" * 65),
    ],
)
def test_a_decimal_has_more_digits_than_pythons_own(scale: int, cell: str, expected: str) -> None:
    wide = column("c", "decimal(65,30)", scale=scale, origin_default=cell)
    assert converted(cell, wide) == expected
    assert default_cell(wide) == expected


def test_bytes_that_are_no_text_stay_bytes() -> None:
    for raw, cell in ((b"ab", "ab"), ("é".encode(), "é"), (b"\xff\x00", b"\xff\x00")):
        assert sqlite_values._decoded(b64encode(raw).decode()) == cell
    assert sqlite_values._decoded(None) is None
