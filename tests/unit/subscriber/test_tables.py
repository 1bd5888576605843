"""Which tables a subscriber asks for, of the server and of itself."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.subscriber.feed import FEED
from tidelog import subjects
from tidelog.changes import DdlMessage, DdlTable
from tidelog.errors import BadInput
from tidelog.schema.structure import TableStructure
from tidelog.sim.streams import matches
from tidelog.subscriber.tables import Tables

NAMES = ("a", "b", "c.d", "*", "`")


def quoted(name: str) -> str:
    return "*" if name == "any" else "`" + name.replace("`", "``") + "`"


pairs = st.tuples(st.sampled_from((*NAMES, "any")), st.sampled_from((*NAMES, "any")))


@given(st.lists(pairs, min_size=1, max_size=6))
def test_the_server_is_asked_for_all_that_is_wanted_and_no_filter_overlaps(
    wanted: list[tuple[str, str]],
) -> None:
    tables = Tables(f"{quoted(db)}.{quoted(table)}" for db, table in wanted)
    asked = tables.subjects(FEED) or (f"changes.{FEED}.>",)
    for db in NAMES:
        for table in NAMES:
            expected = any(d in ("any", db) and t in ("any", table) for d, t in wanted)
            label = f"{subjects.escape(db)}.{subjects.escape(table)}"
            assert tables.take(label) == expected
            subject = subjects.changes_row(FEED, db, table)
            assert not expected or any(matches(one, subject) for one in asked)
    for one, other in combinations(asked, 2):
        tokens = zip(one.split("."), other.split("."), strict=False)
        assert any(a != b and "*" not in (a, b) and ">" not in (a, b) for a, b in tokens)


def test_what_is_asked_for() -> None:
    assert Tables().subjects(FEED) == Tables(["*.*"]).subjects(FEED) == ()
    asked = Tables(["shop.item", "shop.*", "`a.b`.t"]).subjects(FEED)
    marks = ("changes.f.txn", "changes.f.watermark", "changes.f.ddl.>")
    assert asked == (*marks, "changes.f.row.a=2Eb.t", "changes.f.row.shop.*")


@pytest.mark.parametrize("pattern", ["item", "a.b.c", "shop.it*", "", ".", "a.", "`a.b", "a`b.c"])
def test_what_is_no_table(pattern: str) -> None:
    with pytest.raises(BadInput) as caught:
        Tables([pattern])
    assert "backquotes" in caught.value.hint


def test_one_text_is_not_taken_for_many() -> None:
    with pytest.raises(BadInput):
        Tables("shop.item")


def test_a_ddl_concerns_whoever_wants_a_table_it_changes() -> None:
    def of(name: str) -> TableStructure:
        return TableStructure(name=name, version=1)

    rename = DdlMessage(1, "", "", "x", 1, of("new"), [DdlTable("x", "y", of("old"), of("new"))])
    for pattern, touched in (("x.old", True), ("y.new", True), ("x.new", False), ("y.*", True)):
        assert Tables([pattern]).touched_by(rename) == touched
    create_database = DdlMessage(1, "", "", "x", 1)
    for pattern, touched in (("x.any", True), ("*.any", True), ("y.any", False)):
        assert Tables([pattern]).touched_by(create_database) == touched
