"""Rows of dump files come back as they were written."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.errors import Corrupt
from tidelog.schema.structure import ColumnStructure
from tidelog_backfill.snapshot.dump_rows import NULL, converters, csv_rows, sql_rows

ESCAPES = {
    "\0": "\\0",
    "\n": "\\n",
    "\r": "\\r",
    "\x1a": "\\Z",
    "\\": "\\\\",
    '"': '\\"',
    "'": "\\'",
}
NAMES = ["a", "b", "c"]
COLUMNS = [ColumnStructure(name, "text", "text") for name in NAMES]
TEXTS = st.none() | st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from("',\"()\\\n;N`")
)
ROWS = st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=5)


def _escaped(text: str, quote: str, *, doubled: bool) -> str:
    if doubled:
        text = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
        return quote + text.replace(quote, quote * 2) + quote
    return quote + "".join(ESCAPES.get(letter, letter) for letter in text) + quote


def _read(rows: list[tuple[str | None, ...]]) -> list[list[object]]:
    return [[NULL if value is None else value for value in row] for row in rows]


@given(ROWS, st.booleans(), st.booleans())
@example(rows=[(None, None, '""')], one_line=False, doubled=True)
def test_sql(rows: list[tuple[str | None, ...]], one_line: bool, doubled: bool) -> None:
    texts = [
        "("
        + ",".join("NULL" if v is None else _escaped(v, "'", doubled=doubled) for v in row)
        + ")"
        for row in rows
    ]
    insert = "INSERT INTO `d`.`t` VALUES" + (" " if one_line else "\n")
    lines = ["/*!40101 SET NAMES binary*/;\n"]
    lines += (insert + ("," if one_line else ",\n").join(texts) + ";\n").split("\n")
    assert list(sql_rows([f"{line}\n" for line in lines], COLUMNS, "t.sql")) == _read(rows)


@given(ROWS, st.booleans(), st.permutations(NAMES))
@example(rows=[("''", None, None)], doubled=True, order=NAMES)
def test_csv(rows: list[tuple[str | None, ...]], doubled: bool, order: list[str]) -> None:
    at = [NAMES.index(name) for name in order]
    lines = [",".join(f'"{name}"' for name in order) + "\n"]
    for row in rows:
        values = [row[number] for number in at]
        texts = [r"\N" if v is None else _escaped(v, '"', doubled=doubled) for v in values]
        lines.append(",".join(texts) + "\r\n")
    assert list(csv_rows(lines, COLUMNS, "t.csv")) == _read(rows)


def test_columns_that_an_insert_leaves_out() -> None:
    lines = ["INSERT INTO `t` (`c`,`a`) VALUES (1,0x4142),(-2.5e3,_binary 'x');\n"]
    assert list(sql_rows(lines, COLUMNS, "t.sql")) == [["AB", NULL, "1"], ["x", NULL, "-2.5e3"]]


def test_damage_names_file_and_line() -> None:
    with pytest.raises(Corrupt, match=r"t\.sql: line 2 can't be read from character 1"):
        list(sql_rows(["INSERT INTO `t` VALUES\n", "(1,'x\n"], COLUMNS[:2], "t.sql"))
    with pytest.raises(Corrupt, match=r"a row has 2 values, the table 3 columns"):
        list(csv_rows(["1,2\n"], COLUMNS, "t.csv"))
    with pytest.raises(Corrupt, match=r"t\.csv: line 1"):
        list(csv_rows(['"a"b,2,3\n'], COLUMNS, "t.csv"))


def test_values_are_what_a_server_gives() -> None:
    kinds = ("bigint", "decimal", "double", "bit", "varbinary", "text")
    columns = [ColumnStructure(k, k, k, binary=k == "varbinary") for k in kinds]
    texts = ("7", "7.10", "0.5", "\x05", "\udcff", "x")
    found = [convert(text) for convert, text in zip(converters(columns), texts, strict=True)]
    assert found == [7, "7.10", 0.5, 5, b"\xff", "x"]


def test_literals_of_bytes_and_bits() -> None:
    lines = ["INSERT INTO `t` VALUES (x'00ff',X'',b'101'),(0xABC,0xAB,_utf8mb4 'x');\n"]
    assert list(sql_rows(lines, COLUMNS, "t.sql")) == [
        ["\0\udcff", "", "\x05"],
        ["\n\udcbc", "\udcab", "x"],
    ]
    with pytest.raises(Corrupt, match=r"t\.sql: line 1"):
        list(sql_rows(["INSERT INTO `t` VALUES (x'0g',1,2);\n"], COLUMNS, "t.sql"))


@pytest.mark.parametrize(
    ("token", "bits"), [("1", 1), ("'1'", 0x31), ("x'31'", 0x31), ("0x31", 0x31), ("b'11'", 3)]
)
def test_bits_are_a_number_only_without_quotes(token: str, bits: int) -> None:
    columns = [ColumnStructure("b", "bit(8)", "bit")]
    ((found,),) = sql_rows([f"INSERT INTO `t` VALUES ({token});\n"], columns, "t.sql")
    assert converters(columns)[0](found) == bits
    ((quoted,), (bare,)) = csv_rows(['"1"\n', "1\n"], columns, "t.csv")
    assert [converters(columns)[0](one) for one in (quoted, bare)] == [0x31, 1]


def test_a_csv_may_begin_with_a_mark_and_end_with_an_empty_line() -> None:
    lines = ['\ufeff"a","b","c"\r\n', "1,2,3\r\n", "\r\n"]
    assert list(csv_rows(lines, COLUMNS, "t.csv")) == [["1", "2", "3"]]
