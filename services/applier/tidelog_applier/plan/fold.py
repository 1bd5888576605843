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
from tidelog.downstream import Image, Row

Key = tuple[Any, ...]


class Folded(msgspec.Struct, frozen=True):
    """`deletes` hold key values in the order of the key columns, as an Image of at least those
    columns. What must exist afterwards: `inserts` where no row had the key before, and `updates`.
    """

    deletes: list[Image]
    inserts: list[Image]
    updates: list[Image]


def fold(events: Iterable[Event], key_columns: Sequence[str], *, safe: bool = False) -> Folded:
    """The net effect of a table's events, in commit order. `key_columns` is not empty.

    A put overwrites whatever row has its key, so only keys whose row was deleted or moved to
    another key are deleted; one that was deleted and put again too, because the new row's key may
    be equal for the database and spelled differently. A row that came and went leaves nothing,
    unless `safe`: then an earlier attempt, that ended in between, may have left it there.
    """
    last: dict[Key, Image] = {}
    gone: dict[Key, Image] = {}
    existed: dict[Key, bool] = {}
    key_of = _key_getter(key_columns)
    names = frozenset(key_columns)
    for event in events:
        before, after = event.before, event.after
        plain = names.isdisjoint(event.b64)
        if before is not None:
            old = key_of(before) if plain else _marked_key(before, event, key_columns)
            was_there = existed.setdefault(old, True)
            if after is None or key_of(before) != key_of(after):
                if was_there or safe:
                    gone[old] = Image(before, event.b64)
                last.pop(old, None)
        if after is not None:
            new = key_of(after) if plain else _marked_key(after, event, key_columns)
            existed.setdefault(new, False)
            last.pop(new, None)
            last[new] = Image(after, event.b64)
    return Folded(
        list(gone.values()),
        [image for key, image in last.items() if key in gone or not existed[key]],
        [image for key, image in last.items() if key not in gone and existed[key]],
    )


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
