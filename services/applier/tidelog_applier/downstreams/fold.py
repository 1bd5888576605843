"""Pure folding: what a group of changes leaves of one table's rows (design section 9).

A group holds whole transactions, so its end is a state the upstream had: every key the group
touched is deleted first, then the rows that live at the end are put. That order is right under any
collation and with any number of unique keys: a row that conflicts with one of the final rows was
itself changed by the group, since upstream the two were never there together.

Keys are compared by their exact values: a row's stored key text comes back letter by letter as the
`before` of its next change, also under a case-insensitive collation.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from tidelog.changes import Event

Row = dict[str, Any]
Key = tuple[Any, ...]


class Image(msgspec.Struct, frozen=True, gc=False):
    """A row to write; names in `b64` hold base64."""

    row: Row
    b64: Sequence[str] = ()


class Folded(msgspec.Struct, frozen=True):
    """`deletes` hold key values in the order of the key columns, as an Image of at least those
    columns; `puts` the rows that must exist afterwards."""

    deletes: list[Image]
    puts: list[Image]


def fold(events: Iterable[Event], key_columns: Sequence[str]) -> Folded:
    """The net effect of a table's events, in commit order. `key_columns` is not empty.

    A put overwrites whatever row has its key, so only keys whose row was deleted or moved to
    another key are deleted; one that was deleted and put again too, because the new row's key may
    be equal for the database and spelled differently.
    """
    last: dict[Key, Image | None] = {}
    gone: dict[Key, Image] = {}
    key_of = _key_getter(key_columns)
    names = frozenset(key_columns)
    for event in events:
        after = event.after
        plain = names.isdisjoint(event.b64)
        if event.before is not None:
            old = key_of(event.before) if plain else _marked_key(event.before, event, key_columns)
            if after is None or key_of(event.before) != key_of(after):
                gone[old] = Image(event.before, event.b64)
                last.pop(old, None)
        if after is not None:
            new = key_of(after) if plain else _marked_key(after, event, key_columns)
            last.pop(new, None)
            last[new] = Image(after, event.b64)
    return Folded(list(gone.values()), [image for image in last.values() if image is not None])


def _marked_key(row: Row, event: Event, columns: Sequence[str]) -> Key:
    """A key of which a part is base64. Text is marked whenever either image of its event needs it,
    so the same text may come marked in one event and plain in the next."""
    return tuple([_unmarked(row[name]) if name in event.b64 else row[name] for name in columns])


def _unmarked(value: str) -> str | bytes:
    raw = b64decode(value)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _key_getter(columns: Sequence[str]) -> Callable[[Row], Key]:
    if len(columns) == 1:
        name = columns[0]
        return lambda row: (row[name],)
    names = tuple(columns)
    return lambda row: tuple([row[name] for name in names])
