"""Keys by their JSON: the same ones, and in the same places, as by their values."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event, RowMessage
from tidelog.downstream import TableRule
from tidelog.plan.fold import row_key
from tidelog.plan.keys import TableKeys, Unsure
from tidelog.schema.structure import KeyPart, TableStructure
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.replay.bundles import GONE, PUT, Change, unpacked
from tidelog_backfill.replay.gather import gathered
from tidelog_backfill.replay.key_texts import KeyTexts
from tidelog_backfill.replay.routing import Form, routing
from tidelog_backfill.replay.shuffle import Shuffler
from tidelog_backfill.replay.works import Works

json = msgspec.json.encode
CI = {"collation": "utf8mb4_general_ci"}
SHAPES = {
    "number": [column("id", "bigint")],
    "text": [column("id", "varchar(20)", **CI)],
    "several": [column("id", "bigint"), column("b", "varchar(20)", **CI)],
    "bytes": [column("id", "varbinary(20)")],
    "double": [column("id", "double")],
    "odd names": [column('i"\\', "bigint"), column("id", "varchar(20)", **CI)],
    "odd name": [column("\n", "bigint")],
}
NUMBERS = st.sampled_from([0, 1, 2, 10, 12, 100, -1, 1 << 63])
TEXTS = st.sampled_from(["", "a", "A", "a ", 'q"', "b\\", "1", "12"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "bigint": NUMBERS,
    "varchar": TEXTS,
    "varbinary": st.sampled_from([b"", b"a", b"\xff", b"a\0"]),
    "double": st.sampled_from([0.0, -0.0, 1.5, 1e300, 1.0, 12.0]),
}


def shape(name: str) -> tuple[TableStructure, TableRule]:
    key = tuple(one.name for one in SHAPES[name])
    structure = table("t", *SHAPES[name], column("v", "bigint"), key=key)
    return structure, TableRule(False, True, (tuple(KeyPart(part) for part in key),))


@st.composite
def keys(draw: st.DrawFn, name: str) -> tuple[dict[str, Any], list[str]]:
    """A key as an event has it: text is in base64 now and then."""
    row: dict[str, Any] = {}
    b64: list[str] = []
    for one in SHAPES[name]:
        value = draw(VALUES[one.base])
        if isinstance(value, bytes) or (isinstance(value, str) and draw(st.booleans())):
            raw = value if isinstance(value, bytes) else value.encode()
            value = b64encode(raw).decode()
            b64.append(one.name)
        row[one.name] = value
    return row, b64


@given(st.data(), st.sampled_from(sorted(SHAPES)))
def test_texts_are_equal_as_the_values_are(data: st.DataObject, name: str) -> None:
    structure, rule = shape(name)
    texts = KeyTexts(Form(0, "d", structure, rule))
    (one, marks), (other, other_marks) = data.draw(st.tuples(keys(name), keys(name)))
    names = structure.key_columns
    by_value = row_key(one, marks, names) == row_key(other, other_marks, names)
    exact, other_exact = texts.exact(json(one), marks), texts.exact(json(other), other_marks)
    assert (exact == other_exact) == by_value
    known = TableKeys(structure, rule)
    assert texts.normal(exact) == known.first(one, marks)
    assert texts.of_image(json({"v": 1} | one)) == json(one)


def test_where_text_that_is_no_text_goes_nobody_can_tell() -> None:
    texts = KeyTexts(Form(0, "d", *shape("text")))
    bad = b64encode(b"\xff").decode()
    exact = texts.exact(json({"id": bad}), ["id"])
    assert exact != texts.exact(json({"id": bad}), [])
    with pytest.raises(Unsure):
        texts.normal(exact)


def test_bytes_of_an_enum_are_no_reason_to_stop() -> None:
    structure = table("t", column("id", "enum('a')", elems=("a",)), key=("id",))
    texts = KeyTexts(Form(0, "d", structure, TableRule(False, True, ((KeyPart("id"),),))))
    with pytest.raises(Unsure):
        texts.normal(texts.exact(json({"id": b64encode(b"\xff").decode()}), ["id"]))


def sent(name: str, *events: Event) -> list[Change]:
    structure, rule = shape(name)
    route = routing([("d", structure, rule)], 2)
    shuffler = Shuffler(route, 0, 1 << 62)
    shuffler.add(Body(json(RowMessage("d", "t", structure.version, list(events))), 0))
    return [change for bundle in shuffler.take() for change in unpacked(bundle)]


@given(st.data(), st.sampled_from(sorted(SHAPES)), st.booleans())
def test_an_update_of_the_key_deletes_the_old_one(
    data: st.DataObject, name: str, leading: bool
) -> None:
    """Also where the one begins like the other, and wherever the row has its key."""
    (old, marks), (new, more) = data.draw(st.tuples(keys(name), keys(name)))
    if marks != more:  # an event marks both images
        new, more = old, marks
    before, after = (({} if leading else {"v": 0}) | row | {"v": 1} for row in (old, new))
    found = sent(name, Event("u", 5, old, before, after, marks))
    moved = row_key(old, marks, list(old)) != row_key(new, marks, list(new))
    kinds = sorted((change.kind, change.payload) for change in found)
    gone = [(GONE, json(old))] if moved else []
    assert kinds == [*gone, (PUT, json(after))]


def test_a_table_without_a_key_has_a_place_all_the_same() -> None:
    """Its changes go in order."""
    route = routing([("d", table("t", column("a", "int(11)")), TableRule(True, True, ()))], 4)
    shuffler = Shuffler(route, 0, 10)
    event = Event("c", 1, None, None, {"a": 1})
    shuffler.add(Body(json(RowMessage("d", "t", 1, [event])), 0))
    (found,) = shuffler.take()
    assert [change.payload for change in unpacked(found)] == [json(event)]


def test_a_key_that_begins_like_another_is_another() -> None:
    found = sent("number", Event("u", 5, {"id": 1}, {"id": 1}, {"id": 12}))
    assert sorted((one.kind, one.payload) for one in found) == [
        (GONE, b'{"id":1}'),
        (PUT, b'{"id":12}'),
    ]


def test_what_is_base64_stays_named() -> None:
    """On its way to the parts, in order or not."""
    for name, rule in (("bytes", None), ("bytes", TableRule(True, True, ()))):
        structure, usual = shape(name)
        route = routing([("d", structure, rule or usual)], 1)
        shuffler = Shuffler(route, 0, 10)
        event = Event("c", 1, {"id": "/w=="}, None, {"id": "/w=="}, ["id"])
        shuffler.add(Body(json(RowMessage("d", "t", structure.version, [event])), 0))
        groups = gathered(shuffler.take(), route.spread, set())
        shares = [share for work in Works(route, 10).of(groups) for share in work]
        images = [image for share in shares for image in (*share.inserts, *share.updates)]
        marks = [image.b64 for image in images] + [one.b64 for s in shares for one in s.events]
        assert [list(one) for one in marks] == [["id"]]
