"""Rows of dump files come back as they were written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.errors import Corrupt
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.snapshot.dump_csv import csv_rows
from tidelog_backfill.snapshot.dump_lines import Lines
from tidelog_backfill.snapshot.dump_rows import NULL, converters
from tidelog_backfill.snapshot.dump_sql import sql_rows

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


def _escaped(text: str, quote: str, *, doubled: bool, on_lines: bool = False) -> str:
    """`on_lines`: line ends stand as they are."""
    if doubled:
        text = text.replace("\\", "\\\\")
        if not on_lines:
            text = text.replace("\n", "\\n").replace("\r", "\\r")
        return quote + text.replace(quote, quote * 2) + quote
    return quote + "".join(ESCAPES.get(letter, letter) for letter in text) + quote


def of_csv(lines: Sequence[str], columns: Sequence[ColumnStructure]) -> list[list[Any]]:
    return list(csv_rows(Lines(lines, "t.csv"), TableStructure("t", 1, columns=tuple(columns))))


def of_sql(lines: Sequence[str], columns: Sequence[ColumnStructure]) -> list[list[Any]]:
    return list(sql_rows(Lines(lines, "t.sql"), TableStructure("t", 1, columns=tuple(columns))))


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")][:-1]


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
    assert of_sql([f"{line}\n" for line in lines], COLUMNS) == _read(rows)


@given(ROWS, st.booleans(), st.booleans(), st.permutations(NAMES))
@example(rows=[("''", None, None)], doubled=True, on_lines=False, order=NAMES)
@example(rows=[("\r\n", '\n"', "\\\n")], doubled=True, on_lines=True, order=NAMES)
def test_csv(
    rows: list[tuple[str | None, ...]], doubled: bool, on_lines: bool, order: list[str]
) -> None:
    at = [NAMES.index(name) for name in order]
    lines = [",".join(f'"{name}"' for name in order) + "\n"]
    for row in rows:
        values = [row[number] for number in at]
        texts = [
            r"\N" if v is None else _escaped(v, '"', doubled=doubled, on_lines=on_lines)
            for v in values
        ]
        lines += _lines(",".join(texts) + "\r\n")
    assert of_csv(lines, COLUMNS) == _read(rows)


def test_columns_that_an_insert_leaves_out() -> None:
    lines = ["INSERT INTO `t` (`c`,`a`) VALUES (1,0x4142),(-2.5e3,_binary 'x');\n"]
    assert of_sql(lines, COLUMNS) == [["AB", NULL, "1"], ["x", NULL, "-2.5e3"]]


def test_damage_names_file_and_line() -> None:
    with pytest.raises(Corrupt, match=r"t\.sql: line 2 can't be read from character 1"):
        of_sql(["INSERT INTO `t` VALUES\n", "(1,'x\n"], COLUMNS[:2])
    with pytest.raises(Corrupt, match=r"t\.csv: line 1 has a row of 2 values for 3 columns"):
        of_csv(["1,2\n"], COLUMNS)
    with pytest.raises(Corrupt, match=r"t\.csv: line 1"):
        of_csv(['"a"b,2,3\n'], COLUMNS)


def test_values_are_what_a_server_gives() -> None:
    kinds = ("bigint", "decimal", "double", "bit", "varbinary", "text")
    columns = [ColumnStructure(k, k, k, binary=k == "varbinary") for k in kinds]
    texts = ("7", "7.10", "0.5", "\x05", "\udcff", "x")
    found = [convert(text) for convert, text in zip(converters(columns), texts, strict=True)]
    assert found == [7, "7.10", 0.5, 5, b"\xff", "x"]


def test_literals_of_bytes_and_bits() -> None:
    lines = ["INSERT INTO `t` VALUES (x'00ff',X'',b'101'),(0xABC,0xAB,_utf8mb4 'x');\n"]
    assert of_sql(lines, COLUMNS) == [
        ["\0\udcff", "", "\x05"],
        ["\n\udcbc", "\udcab", "x"],
    ]
    with pytest.raises(Corrupt, match=r"t\.sql: line 1"):
        of_sql(["INSERT INTO `t` VALUES (x'0g',1,2);\n"], COLUMNS)


@pytest.mark.parametrize(
    ("token", "bits"), [("1", 1), ("'1'", 0x31), ("x'31'", 0x31), ("0x31", 0x31), ("b'11'", 3)]
)
def test_bits_are_a_number_only_without_quotes(token: str, bits: int) -> None:
    columns = [ColumnStructure("b", "bit(8)", "bit")]
    ((found,),) = of_sql([f"INSERT INTO `t` VALUES ({token});\n"], columns)
    assert converters(columns)[0](found) == bits
    ((quoted,), (bare,)) = of_csv(['"1"\n', "1\n"], columns)
    assert [converters(columns)[0](one) for one in (quoted, bare)] == [0x31, 1]


def test_a_year_is_a_number_within_quotes_as_well() -> None:
    columns = [ColumnStructure("y", "year", "year")]
    tokens = [
        *of_sql(["INSERT INTO `t` VALUES ('2026'),(1901),('0000');\n"], columns),
        *of_csv(['"2026"\r\n', "1901\r\n"], columns),
    ]
    assert [converters(columns)[0](one) for (one,) in tokens] == [2026, 1901, 0, 2026, 1901]


def test_a_csv_may_begin_with_a_mark_and_end_with_an_empty_line() -> None:
    lines = ['\ufeff"a","b","c"\r\n', "1,2,3\r\n", "\r\n"]
    assert of_csv(lines, COLUMNS) == [["1", "2", "3"]]


KEYED = [
    ColumnStructure("id", "bigint", "bigint", nullable=False),
    ColumnStructure("v", "varchar(20)", "varchar"),
]
NAMED = "INSERT INTO `t` (`id`,`v`) VALUES "


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (['"id","v"\n', '1,"a"\n', '2,"a","x"\n'], "line 3 has a row of 3 values for 2 columns"),
        (['"id","v"\n', "1\n"], "line 2 has a row of 1 values for 2 columns"),
        (['1,"a"\n', '2,"tru'], "line 2 begins a value in quotes that the file ends within"),
        (["1,a\n", "2,ab"], "line 2 is the last one and has no line end"),
        (["1,a\n", "2,"], "line 2 is the last one and has no line end"),
        (['1,"a\n', 'b\\"\n', "c\n"], "line 1 begins a value in quotes that the file ends"),
        (['1,"a\n', 'b"c\n'], "line 2 can't be read from character 3"),
        (["v\n", "a\n"], "line 1 does not name id, which is not NULL by default"),
        (["id,v,ID\n"], "line 1 names a column twice"),
    ],
)
def test_csv_that_has_more_or_less_than_the_table(lines: list[str], told: str) -> None:
    with pytest.raises(Corrupt, match=rf"t\.csv: {told}"):
        of_csv(lines, KEYED)


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([NAMED + "(1,'a','x');\n"], "line 1 has a row of 3 values for 2 columns"),
        ([NAMED + "\n", "(1,'a'),\n", "(2);\n"], "line 3 has a row of 1 values for 2 columns"),
        (["INSERT INTO `t` VALUES (1);\n"], "line 1 has a row of 1 values for 2 columns"),
        (["INSERT INTO t (id,w) VALUES (1,'a');\n"], "line 1 names w: the table has no such"),
        (["INSERT INTO t (`v`) VALUES ('a');\n"], "line 1 does not name id"),
        (["INSERT INTO `other` VALUES (1,'a');\n"], "line 1 inserts into other"),
        ([NAMED + "\n", "(1,'a'),\n"], "line 2 is the last one, and its statement does not end"),
        ([NAMED + "\n", "(1,'a')\n", "SET @a=1;\n"], "line 3 can't be read from character 1"),
        (["(1,'a');\n"], "line 1 can't be read from character 1"),
        ([NAMED + "(1,DEFAULT);\n"], "line 1 has a value that is none: DEFAULT"),
    ],
)
def test_sql_that_has_more_or_less_than_the_table(lines: list[str], told: str) -> None:
    with pytest.raises(Corrupt, match=rf"t\.sql: {told}") as refused:
        of_sql(lines, KEYED)
    assert "inspect" not in refused.value.hint


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("/*!40103 SET TIME_ZONE='+00:00' */;\n", ""),
        ("SET time_zone = 'utc';\n", ""),
        ("/*!40103 SET TIME_ZONE=@OLD_TIME_ZONE */;\n", ""),
        ("-- SET TIME_ZONE='+08:00';\n", ""),
        ("/*!40103 SET TIME_ZONE='+08:00' */;\n", r"\+08:00"),
        ('/*!40101 SET NAMES binary*/; SET SESSION time_zone="SYSTEM";\n', "SYSTEM"),
        ("SET time_zone='UTC'; BEGIN; SET time_zone = '-01:00';\n", "-01:00"),
    ],
)
def test_timestamps_of_another_zone_are_refused(statement: str, told: str) -> None:
    insert = "INSERT INTO `t` VALUES ('2026-01-01 08:00:00');\n"
    of_zone, of_none = (ColumnStructure("at", base, base) for base in ("timestamp", "datetime"))
    assert of_sql([statement, insert], [of_none]) == [["2026-01-01 08:00:00"]]
    if told:
        with pytest.raises(Corrupt, match=rf"line 1 sets the time zone {told}, and TIMESTAMPs"):
            of_sql([statement, insert], [of_zone])
    else:
        assert of_sql([statement, insert], [of_zone]) == [["2026-01-01 08:00:00"]]


def test_what_a_default_would_fill_is_not_null() -> None:
    filled = [ColumnStructure("n", "int", "int", default="7"), *KEYED]
    with pytest.raises(Corrupt, match="does not name n"):
        of_sql([NAMED + "(1,'a');\n"], filled)
    made = ColumnStructure("g", "int", "int", generated="`id` + 1", generated_stored=True)
    assert of_sql([NAMED + "(1,'a');\n"], [*KEYED, made]) == [["1", "a", NULL]]
    assert of_csv(["id,v\n", "1,a\n"], [*KEYED, made]) == [["1", "a", NULL]]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_values_in_quotes_go_on_over_line_ends(end: str) -> None:
    text = f'1,"a{end}{end}"",{end}b\\{end}"{end}2,"c"{end}'
    first = f'a{end}{end}",{end}b{end}'
    assert of_csv(_lines(text), KEYED) == [["1", first], ["2", "c"]]
    assert of_csv(_lines(f'"v"{end}"a{end}b"{end}'), KEYED[1:]) == [[f"a{end}b"]]


def test_values_without_quotes_have_escapes_as_well() -> None:
    """As Dumpling writes all of them where it is told to use no quotes."""
    rows = [r'1,a\nb\\c\,d""e', r"2,\\N", r"3,\N"]
    found = of_csv([f"{row}\r\n" for row in ["id,v", *rows]], KEYED)
    assert found == [["1", 'a\nb\\c,d""e'], ["2", r"\N"], ["3", NULL]]
    with pytest.raises(Corrupt, match="line 1 can't be read from character 4"):
        of_csv(["1,a\\\n", "b\n"], KEYED)


def test_a_value_in_quotes_needs_no_line_end() -> None:
    assert of_csv(['1,"a"'], KEYED) == [["1", "a"]]


def test_names_are_compared_without_case() -> None:
    assert of_csv(["V,Id\n", "a,1\n"], KEYED) == [["1", "a"]]
    assert of_sql(["insert ignore into d.T (V, `ID`) values ('a',1);\n"], KEYED) == [["1", "a"]]


ONE, TWO = "INSERT INTO `t` VALUES (1,'a');", "INSERT INTO `t` VALUES (2,'b');"


@pytest.mark.parametrize(
    "text",
    [
        f"/*!40101 SET NAMES binary*/; {ONE}\n{TWO}\n",
        f"SET NAMES utf8; {ONE}{TWO}\n",
        f"begin; {ONE} {TWO} COMMIT;\n",
        f"LOCK TABLES `t` WRITE; {ONE}\n{TWO} unlock tables;\n",
        f"SET @a='x; -- it''s \\'', @b=\"/*;\", @`c;'`=1; {ONE}{TWO}\n",
        f"SET @@GLOBAL.GTID_PURGED=/*!80000 '+' it's; */ 'u:1-5'; {ONE}{TWO}\n",
        f"/* it's; */{ONE} -- SET @a='\n--\n{TWO}--",
        f"/*!40000 ALTER TABLE `t` DISABLE KEYS */;{ONE}{TWO}/*!40000 ALTER TABLE t ENABLE KEYS*/",
        f"/*/ many\n\n{TWO}\nlines **/ {ONE}\n{TWO}/* and\none more */\n",
    ],
)
def test_only_what_has_no_rows_is_passed_by(text: str) -> None:
    """Up to its end: rows may follow on the line."""
    assert of_sql(text.splitlines(keepends=True), KEYED) == [["1", "a"], ["2", "b"]]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (["SET NAMES utf8\n", ONE], "line 1 can't be read from character 1"),
        (["SET @a='b; \n", ONE], "line 1 can't be read from character 1"),
        ([f"SET @a=1 -- '; {ONE}\n"], "line 1 can't be read from character 1"),
        (["SET @a=1 /* ;\n", f"{ONE} */;\n"], "line 1 can't be read from character 1"),
        ([f"BEGIN; SETTLE; {ONE}\n"], "line 1 can't be read from character 8"),
        ([f"--{ONE}\n"], "line 1 can't be read from character 1"),
        ([f"/* a */ DELETE FROM t; {ONE}\n"], "line 1 can't be read from character 9"),
        (["/* a\n", f"*/ x {ONE}\n"], "line 2 can't be read from character 4"),
        (["/* a\n", "*/ INSERT INTO t VALUES (1);\n"], "line 2 has a row of 1 values"),
        ([f"{ONE} /* a\n", f"{TWO}\n"], "line 2 is the last one, and its comment does not end"),
        (["/*!40000 INSERT INTO `t` VALUES (1,'a') */;\n"], "line 1 has rows in a comment"),
        (["SET @a=1 /*T![x] REPLACE INTO t VALUES (1,'a') */;\n"], "line 1 has rows in a comment"),
    ],
)
def test_what_may_have_rows_is_not_passed_by(lines: list[str], told: str) -> None:
    with pytest.raises(Corrupt, match=rf"t\.sql: {told}"):
        of_sql(lines, KEYED)


def test_statements_may_follow_each_other_on_a_line() -> None:
    one = "INSERT INTO `t` VALUES (1,'a'),(2,'b'); REPLACE INTO t VALUES (3,'c');\n"
    assert of_sql([one], KEYED) == [["1", "a"], ["2", "b"], ["3", "c"]]


def test_a_column_may_have_any_name() -> None:
    odd = [ColumnStructure("a)`,b", "text", "text")]
    assert of_sql(["INSERT INTO `t` (`a)``,b`) VALUES ('x');\n"], odd) == [["x"]]
