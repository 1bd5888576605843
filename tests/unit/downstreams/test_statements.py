"""Statements and literals for MySQL-speaking servers."""

from __future__ import annotations

from base64 import b64encode

import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.downstream import Image
from tidelog.downstreams.present import Present
from tidelog.downstreams.statements import STATEMENT_ROWS, TableStatements
from tidelog.downstreams.writing import writing
from tidelog.errors import Stopped
from tidelog.schema.structure import TableStructure


def statements(
    structure: TableStructure,
    extra: tuple[str, ...] = (),
    max_packet: int = 1 << 24,
    needing: tuple[str, ...] = (),
    *,
    json_equals: bool = False,
) -> TableStatements:
    present = {c.name: bool(c.generated) for c in structure.columns} | dict.fromkeys(extra, False)
    plan = writing(structure, present, None, needing)
    rule = Present(present, tuple(k.parts for k in structure.keys if k.unique)).rule(structure)
    return TableStatements(
        "d", structure.name, plan, max_packet, rule=rule, json_equals=json_equals
    )


def sql(*found: object) -> list[str]:
    return [one.sql.decode() for one in found]  # type: ignore[attr-defined]


def test_values_of_every_form() -> None:
    shape = table(
        "t",
        column("id", "bigint(20) unsigned"),
        column("d", "decimal(20,4)"),
        column("f", "float"),
        column("s", "varchar(9)"),
        column("b", "varbinary(9)"),
        column("j", "json"),
        column("bits", "bit(64)", length=64),
        column("y", "year(4)"),
        column("at", "datetime(3)"),
        key=("id",),
    )
    row = {
        "id": (1 << 64) - 1,
        "d": "-0.5000",
        "f": 3.4028235e38,
        "s": "it's \\ \n",
        "b": b64encode(b"\x00\xff'").decode(),
        "j": {"a": [1.5, None, "q'"]},
        "bits": (1 << 64) - 1,
        "y": 0,
        "at": "0000-00-00 00:00:00.000",
    }
    (found,) = statements(shape).put([Image(row, ["b"])], new=True)
    assert found.sql.decode() == (
        "REPLACE INTO `d`.`t` (`id`,`d`,`f`,`s`,`b`,`j`,`bits`,`y`,`at`) VALUES "
        "(18446744073709551615,-0.5000,3.4028234663852886e+38,_utf8mb4 x'69742773205c200a',"
        """x'00ff27','{"a":[1.5,null,"q''"]}',18446744073709551615,0,'0000-00-00 00:00:00.000')"""
    )
    assert not found.lenient


def test_statements_are_cut_by_rows_and_bytes() -> None:
    build = statements(table("t", column("id", "int(11)"), column("s", "text"), key=("id",)))
    many = [Image({"id": i, "s": "x"}) for i in range(STATEMENT_ROWS + 1)]
    assert len(list(build.put(many, new=True))) == 2
    assert len(list(build.delete(many))) == 2
    wide = [Image({"id": i, "s": "x" * 100_000}) for i in range(3)]
    assert len(list(build.put(wide, new=True))) == 3


def test_a_row_above_the_packet_says_so() -> None:
    shape = table("t", column("id", "int(11)"), column("s", "text"), key=("id",))
    build = statements(shape, max_packet=1 << 16)
    with pytest.raises(Stopped, match="max_allowed_packet"):
        list(build.put([Image({"id": 1, "s": "x" * (1 << 16)})], new=True))


def test_a_row_without_a_key_is_in_its_statement_once_as_it_was() -> None:
    shape = table("t", column("n", "int(11)"), column("j", "json"))
    build = statements(shape, max_packet=1 << 20, json_equals=True)
    row = {"n": 1, "j": ["x" * (450 << 10)]}
    found = build.update_one(Image(row), Image(row | {"n": 2}))
    assert found.sql.count(b"x" * (450 << 10)) == 2


def test_columns_only_the_downstream_has_are_kept() -> None:
    shape = table("t", column("id", "int(11)"), column("v", "int(11)"), key=("id",))
    (found,) = statements(shape, extra=("own",)).put([Image({"id": 1, "v": 2})], new=True)
    assert found.sql.decode() == (
        "INSERT INTO `d`.`t` (`id`,`v`) VALUES (1,2)"
        " ON DUPLICATE KEY UPDATE `id`=VALUES(`id`),`v`=VALUES(`v`)"
    )
    assert not found.lenient


def test_only_a_column_that_needs_a_value_nobody_has_is_a_reason_to_be_lenient() -> None:
    shape = table("t", column("id", "int(11)"), column("v", "int(11)"), key=("id",))
    build = statements(shape, extra=("own", "must"), needing=("must",))
    (found,) = build.put([Image({"id": 1, "v": 2})], new=True)
    assert found.lenient


def test_a_key_of_computed_columns_finds_its_rows() -> None:
    shape = table(
        "t",
        column("a", "int(11)"),
        column("g", "int(11)", generated="`a` + 1", generated_stored=True),
        key=("a", "g"),
    )
    found = statements(shape).delete([Image({"a": 1, "g": 2})])
    assert sql(*found) == ["DELETE FROM `d`.`t` WHERE (`a`,`g`) IN ((1,2))"]


def test_generated_columns_are_not_written() -> None:
    shape = table(
        "t",
        column("id", "int(11)"),
        column("g", "int(11)", generated="`id` * 2"),
        column("s", "int(11)", generated="`id` + 1", generated_stored=True),
        key=("id",),
    )
    (found,) = statements(shape).put([Image({"id": 1, "s": 2})], new=True)
    assert "(`id`) VALUES (1)" in found.sql.decode()


def test_a_column_the_row_leaves_out_takes_its_default() -> None:
    shape = table("t", column("id", "int(11)"), column("going", "int(11)"), key=("id",))
    (found,) = statements(shape).put([Image({"id": 1})], new=True)
    assert found.sql.decode().endswith("VALUES (1,DEFAULT)")


def test_an_enum_error_value_is_written_leniently() -> None:
    shape = table("t", column("id", "int(11)"), column("e", "enum('a')", elems=("a",)), key=("id",))
    build = statements(shape)
    assert [s.lenient for s in build.put([Image({"id": 1, "e": "a"})], new=True)] == [False]
    assert [s.lenient for s in build.put([Image({"id": 1, "e": ""})], new=True)] == [True]


def test_a_row_without_a_key_is_matched_exactly() -> None:
    shape = table("t", column("f", "float"), column("s", "varchar(9)"), column("y", "year(4)"))
    found = statements(shape).delete_one(Image({"f": 0.1, "s": "Ab ", "y": None}))
    assert found.sql.decode() == (
        "DELETE FROM `d`.`t` WHERE `f` <=> 0.10000000149011612"
        " AND CAST(CONVERT(`s` USING utf8mb4) AS BINARY) <=> x'416220' AND `y` IS NULL LIMIT 1"
    )
    assert found.rows == 1


def test_keys_of_several_columns_and_strange_names() -> None:
    shape = table("a`b", column("x`", "int(11)"), column("y", "varchar(3)"), key=("x`", "y"))
    found = statements(shape).delete([Image({"x`": 1, "y": "o'k"})])
    assert sql(*found) == ["DELETE FROM `d`.`a``b` WHERE (`x```,`y`) IN ((1,'o''k'))"]


def test_a_number_that_is_none_never_becomes_sql() -> None:
    build = statements(
        table("t", column("id", "int(11)"), column("d", "decimal(9,2)"), key=("id",))
    )
    with pytest.raises(Stopped, match="none of its type"):
        list(build.put([Image({"id": 1, "d": "1),(2,2"})], new=True))


def test_text_marked_for_its_events_other_image_is_text() -> None:
    shape = table("t", column("id", "int(11)"), column("s", "varchar(9)"), key=("id",))
    plain = Image({"id": 1, "s": b64encode("é".encode()).decode()}, ["s"])
    (found,) = statements(shape).put([plain, Image({"id": 2, "s": "/w=="}, ["s"])], new=True)
    assert found.sql.decode().endswith("VALUES (1,'é'),(2,x'ff')")
