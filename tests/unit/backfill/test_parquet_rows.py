"""What a change is in a replay's Parquet files."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog.changes import Event
from tidelog_backfill.replay.bundles import EVENT, GONE, PUT, Change
from tidelog_backfill.replay.parquet_rows import Rows

KEYED = Rows(table("t", column("k", "varchar(9)"), column("v", "int(11)"), key=("k",)))
KEYLESS = Rows(table("t", column("k", "varchar(9)"), column("v", "int(11)")))
DOCUMENTS = Rows(table("t", column("id", "int(11)"), column("j", "json"), key=("id",)))
NULL = b64encode(b"null").decode()


def in_order(rows: Rows, event: Event) -> list[tuple[str, dict[str, Any]]]:
    return list(rows.of(Change(0, EVENT, b"", 2, 1, [], msgspec.json.encode(event))))


def test_an_update_that_takes_the_key_leaves_no_row_under_the_old_one() -> None:
    """A table whose keys nobody can tell goes in order, event by event."""
    old, new = {"k": "ä", "v": 1}, {"k": "ö", "v": 1}
    moved = Event("u", 2, {"k": "ä"}, old, new)
    assert in_order(KEYED, moved) == [("d", {"k": "ä"}), ("u", new)]


def test_one_that_leaves_it_is_one_row() -> None:
    old, new = {"k": "ä", "v": 1}, {"k": "ä", "v": 2}
    assert in_order(KEYED, Event("u", 2, {"k": "ä"}, old, new)) == [("u", new)]
    assert in_order(KEYED, Event("c", 2, {"k": "ä"}, None, new)) == [("c", new)]
    assert in_order(KEYED, Event("d", 2, {"k": "ä"}, old)) == [("d", {"k": "ä"})]


def test_without_a_key_an_update_tells_what_it_replaces() -> None:
    old, new = {"k": "a", "v": 1}, {"k": "a", "v": 2}
    assert in_order(KEYLESS, Event("u", 2, None, old, new)) == [("d", old), ("c", new)]
    assert in_order(KEYLESS, Event("c", 2, None, None, new)) == [("c", new)]
    assert in_order(KEYLESS, Event("d", 2, None, old)) == [("d", old)]


@pytest.mark.parametrize(
    ("told", "b64", "shown"),
    [
        ({"a": 1}, [], '{"a":1}'),
        ("null", [], '"null"'),
        (None, [], None),
        (None, ["j"], None),
        (NULL, ["j"], "null"),
        (b64encode(b'{"a":1}').decode(), ["j"], '{"a":1}'),
    ],
)
def test_a_document_is_its_text_however_it_came(told: Any, b64: list[str], shown: Any) -> None:
    """JSON's own null comes in base64, and so does what shares its event with one."""
    row = {"id": 1, "j": told}
    put = Change(0, PUT, b"", 2, 1, b64, msgspec.json.encode(row))
    assert list(DOCUMENTS.of(put)) == [("u", {"id": 1, "j": shown})]
    event = Event("c", 2, {"id": 1}, None, row, b64)
    assert in_order(DOCUMENTS, event) == [("c", {"id": 1, "j": shown})]


def test_of_a_key_that_no_row_has_the_key_is_told() -> None:
    assert list(KEYED.of(Change(0, GONE, b"", 2, 1, [], b'{"k":"a"}'))) == [("d", {"k": "a"})]
