"""Bodies of the stream as columns: what the rows say, whatever batches they come in."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.changes import Event, RowMessage
from tidelog.errors import UnparsablePayload
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.source import changes
from tidelog_backfill.source.changes import SCHEMA, batches

_json = msgspec.json.encode
TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
IMAGES = st.none() | st.dictionaries(TEXTS, st.none() | st.integers() | TEXTS, max_size=3)
EVENTS = st.builds(
    Event,
    op=st.sampled_from("cudr"),
    commit_ts=st.integers(1, 9),
    key=IMAGES,
    before=IMAGES,
    after=IMAGES,
    b64=st.lists(TEXTS, max_size=2),
)
BODIES = st.builds(
    lambda db, table, events, seq, after, start_ts: (
        RowMessage(db, table, 1, sorted(events, key=lambda one: one.commit_ts)),
        seq,
        after,
        start_ts,
    ),
    TEXTS,
    TEXTS,
    st.lists(EVENTS, max_size=5),
    st.integers(0, 1 << 40),
    st.integers(0, 9),
    st.integers(0, 1 << 62),
)
Told = tuple[RowMessage, int, int, int]


def expected(told: list[Told]) -> list[dict[str, Any]]:
    return [
        {
            "commit_ts": event.commit_ts,
            "start_ts": start_ts,
            "seq": seq + place,
            "db": message.db,
            "table": message.table,
            "op": event.op,
            **{name: _text(getattr(event, name)) for name in ("key", "before", "after")},
            "b64": event.b64,
        }
        for message, seq, after, start_ts in told
        for place, event in enumerate(message.events)
        if event.commit_ts > after
    ]


def _text(image: dict[str, Any] | None) -> str | None:
    return None if image is None else _json(image).decode()


def body(told: Told) -> Body:
    message, *rest = told
    return Body(_json(message), *rest)


@given(told=st.lists(BODIES, max_size=6), rows=st.integers(1, 9))
def test_rows_are_those_of_the_bodies(told: list[Told], rows: int) -> None:
    with patch.object(changes, "BATCH_ROWS", rows):
        found = list(batches(map(body, told)))
    for batch in found:
        batch.validate(full=True)
    assert [row for batch in found for row in batch.to_pylist()] == expected(told)
    assert all(batch.num_rows for batch in found)


@given(
    told=st.lists(BODIES, max_size=3),
    names=st.lists(st.sampled_from(SCHEMA.names), min_size=1, unique=True),
)
def test_columns_are_those_that_are_asked_for(told: list[Told], names: list[str]) -> None:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    found = [row for batch in batches(map(body, told), schema) for row in batch.to_pylist()]
    assert found == [{name: row[name] for name in names} for row in expected(told)]


@pytest.mark.parametrize("wrong", [b"", b'{"db":"d"}', b'{"db":"d","table":"t","events":[{}]}'])
def test_what_is_no_row_message_is_named(wrong: bytes) -> None:
    with pytest.raises(UnparsablePayload, match="a row message"):
        list(batches([Body(wrong, 0)]))


def test_an_image_that_is_null_is_none() -> None:
    events = b'{"op":"d","commit_ts":1,"key":{},"before":{"a":null},"after":null}'
    told = b'{"db":"d","table":"t","schema_version":1,"events":[' + events + b"]}"
    (row,) = [row for batch in batches([Body(told, 0)]) for row in batch.to_pylist()]
    assert (row["key"], row["before"], row["after"]) == ("{}", '{"a":null}', None)


def test_names_that_are_none_are_named() -> None:
    event = b'{"op":"c","commit_ts":1,"b64":[1]}'
    wrong = b'{"db":"d","table":"t","schema_version":1,"events":[' + event + b"]}"
    with pytest.raises(UnparsablePayload, match="a row message"):
        list(batches([Body(wrong, 0)]))
