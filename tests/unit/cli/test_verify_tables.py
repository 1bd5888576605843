"""Which tables `tidelog verify` compares, by what, and how values are told apart."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput
from tidelog_cli.verify.kinds import Cell, Kind, common, meaning, of_cell, piece
from tidelog_cli.verify.scanned_side import ScannedSide
from tidelog_cli.verify.tables import Choice, Column, Part, Plan, Table, plans

ID = Column("id", Kind.INT)
NAME = Column("name", Kind.TEXT, "utf8mb4_general_ci")


def table(name: str, *columns: Column, keys: tuple[tuple[str, ...], ...] | None = ()) -> Table:
    db, _, called = name.partition(".")
    return Table(db, called, columns, keys)


def only(source: Table, downstream: Table) -> Plan:
    (found,) = plans([source], [downstream], Choice((), ()))
    return found


def test_routes_and_patterns() -> None:
    source = [table("shop.a", ID), table("shop.b", ID), table("log.a", ID)]
    there = [table("copy.a", ID), table("copy.b", ID), table("copy.own", ID)]
    chosen = Choice(["shop.*"], ["shop.*=copy.*"])
    found = plans(source, there, chosen)
    assert [(p.source, p.downstream, p.problem) for p in found] == [
        ("shop.a", "copy.a", ""),
        ("shop.b", "copy.b", ""),
    ]
    everything = plans(source[:2], there, Choice((), ["shop.*=copy.*"]))
    assert [p.problem for p in everything] == ["", "", "only downstream"]


def test_what_is_named_and_can_not_be_compared_is_no_success() -> None:
    """A slip of the pen, and a table that upstream dropped."""
    choice = Choice(["shop.orders", "SHOP.old", "shop.itmes"], ())
    found = plans([table("shop.orders", ID)], [table("shop.orders", ID), table("shop.old")], choice)
    assert [(p.source, p.downstream, p.problem) for p in found] == [
        ("shop.orders", "shop.orders", ""),
        ("", "shop.old", "only downstream"),
        ("shop.itmes", "shop.itmes", "no such table"),
    ]
    renamed = Choice(["shop.orders", "copy.old"], ["shop.*=copy.*"])
    found = plans(
        [table("shop.orders", ID)], [table("copy.orders", ID), table("copy.old")], renamed
    )
    assert [p.problem for p in found] == ["", "no such table"]
    elsewhere = Choice(["*.orders"], ())
    found = plans(
        [table("shop.orders", ID)], [table("shop.orders", ID), table("b.orders")], elsewhere
    )
    assert [p.problem for p in found] == [""], "another tenant's is none of ours"


def test_what_can_not_be_compared_is_refused() -> None:
    source = [table("a.t", ID), table("b.t", ID)]
    with pytest.raises(BadInput, match=r"both go into c\.t"):
        plans(source, [], Choice((), ["*.t=c.t"]))
    with pytest.raises(BadInput, match="no such table"):
        plans(source, [], Choice(["nowhere.*"], ()))
    for patterns, maps in ((["shop"], []), ([], ["a.b"]), ([], ["a.b=c"])):
        with pytest.raises(BadInput):
            Choice(patterns, maps)


def test_a_schema_that_differs_is_a_problem() -> None:
    assert only(table("d.t", ID), table("d.T", Column("ID", Kind.INT))).problem == ""
    missing = only(table("d.t", ID, NAME), table("d.t", ID))
    assert missing.problem == "column name is missing downstream"
    other = only(table("d.t", ID), table("d.t", Column("id", Kind.TIME)))
    assert other.problem == "column id is int and time"
    more = only(table("d.t", ID), table("d.t", ID, NAME))
    assert (more.problem, more.notes) == ("", ("column name is only downstream",))


@pytest.mark.parametrize(
    ("collation", "keys", "key", "ranged"),
    [
        ("utf8mb4_general_ci", (("name",), ("id",)), ("name",), True),
        ("utf8mb4_bin", (("name",),), ("name",), False),
        ("utf8mb4_bin", (("id",),), ("id",), True),
        ("utf8mb4_general_ci", (), (), False),
        ("utf8mb4_general_ci", None, ("name",), True),
    ],
)
def test_the_key_and_whether_ranges_of_it_are_the_same_rows(
    collation: str, keys: tuple[tuple[str, ...], ...] | None, key: tuple[str, ...], ranged: bool
) -> None:
    source = table("d.t", ID, NAME, keys=(("name",), ("id",)))
    other = Column("name", Kind.TEXT, collation)
    found = only(source, table("d.t", ID, other, keys=keys))
    assert found.parts is not None
    assert (found.parts[0].key, found.ranged) == (key, ranged)


CELLS = {
    Kind.INT: st.integers(-(1 << 63), 1 << 64),
    Kind.DECIMAL: st.decimals(allow_nan=False, allow_infinity=False, places=5).map(str),
    Kind.FLOAT: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Kind.DOUBLE: st.floats(allow_nan=False, allow_infinity=False),
    Kind.TEXT: st.text(),
    Kind.LONG_TEXT: st.text(),
    Kind.BINARY: st.binary(),
    Kind.LONG_BINARY: st.binary(),
}


@given(st.sampled_from(list(CELLS)), st.data())
def test_pieces_and_meanings_tell_values_apart(kind: Kind, data: st.DataObject) -> None:
    cells = st.none() | CELLS[kind]
    one, other = of_cell(kind, data.draw(cells)), of_cell(kind, data.draw(cells))  # type: ignore[arg-type]
    assert (piece(kind, one) == piece(kind, other)) == (one == other)
    assert (meaning(kind, one) == meaning(kind, other)) == (one == other)


def test_equal_values_in_other_words() -> None:
    assert of_cell(Kind.DECIMAL, "1.50") == of_cell(Kind.DECIMAL, "1.5") == "1.5"
    assert of_cell(Kind.DECIMAL, "-0.00") == of_cell(Kind.DECIMAL, "0") == "0"
    assert of_cell(Kind.DECIMAL, "100") == "100"
    assert meaning(Kind.JSON, '{"b":1, "a":2.0}') == meaning(Kind.JSON, '{"a":2,"b":1}')
    assert meaning(Kind.JSON, "[1,2]") != meaning(Kind.JSON, "[2,1]")
    assert meaning(Kind.DOUBLE, "1e20") == meaning(Kind.DOUBLE, "100000000000000000000")
    assert meaning(Kind.FLOAT, "0.1") == meaning(Kind.FLOAT, "0.10000000149011612")
    assert common(Kind.LONG_TEXT, Kind.JSON) is Kind.JSON
    assert common(Kind.STORED, Kind.TIME) is Kind.TIME
    assert common(Kind.INT, Kind.TEXT) is None


class Stored:
    """A table of one column with one cell."""

    shown = "sqlite:///copy.db"

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    def fix(self) -> str:
        return ""

    def checkpoints(self) -> list[Checkpoint]:
        return []

    def tables(self) -> list[Table]:
        return []

    def cells(self, part: Part) -> Iterator[Sequence[Cell]]:
        yield [self._cell]

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("kind", "cell", "said"),
    [
        (Kind.DECIMAL, "1.2.3", "'1.2.3' is no DECIMAL"),
        (Kind.INT, "one", "invalid literal"),
        (Kind.INT, 1.5, "1.5 is no integer"),
        (Kind.INT, float("inf"), "inf is no integer"),
        (Kind.DOUBLE, "much", "could not convert"),
    ],
)
def test_a_cell_of_another_kind_is_named(kind: Kind, cell: Cell, said: str) -> None:
    """SQLite stores what it is given: it never counts as the value that is nearest."""
    part = Part("d", "t", (Column("n", kind),), ())
    with pytest.raises(
        BadInput, match=r"d\.t\.n at sqlite:///copy\.db holds another kind"
    ) as caught:
        asyncio.run(ScannedSide(Stored(cell)).sums(part, 1))
    assert said in caught.value.message


def test_a_whole_number_is_the_same_however_it_is_stored() -> None:
    assert {of_cell(Kind.INT, cell) for cell in (7, 7.0, "7")} == {"7"}
