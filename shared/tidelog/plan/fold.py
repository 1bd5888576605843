"""Pure folding: what a window leaves of one table's rows (design section 9).

A window ends in a state in which the table's unique keys hold, also where it cuts a transaction:
its events come in the order of execution. So every key the window touched is deleted first, then
the rows that live at the end are put. That order is right under any collation and with any number
of unique keys: a row that conflicts with one of the final rows was itself changed by the window,
since upstream the two were never there together. Only a state between transactions is one that
readers upstream could see; a window that cuts one leaves what the transaction had done by then.

Keys are compared by their exact values: a row's stored key text comes back letter by letter as the
`before` of its next change, also under a case-insensitive collation.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Hashable, Iterable, Sequence

import msgspec

from tidelog.changes import Event
from tidelog.downstream import Image, Row


class Folded(msgspec.Struct, frozen=True):
    """Each in the order of keys. `deletes` hold at least the key columns. What must exist
    afterwards: `inserts` where no row had the key before, and `updates`."""

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
    last: dict[Hashable, Event] = {}
    gone: dict[Hashable, Event] = {}
    existed: set[Hashable] = set()
    single = key_columns[0] if len(key_columns) == 1 else ""
    for event in events:
        before, after, b64 = event.before, event.after, event.b64
        plain = single and not b64
        new = old = None
        if after is not None:
            new = after[single] if plain else row_key(after, b64, key_columns)
        if before is not None:
            old = before[single] if plain else row_key(before, b64, key_columns)
            if old not in last:
                existed.add(old)
            if after is None or old != new:
                if safe or old in existed:
                    gone[old] = event
                last.pop(old, None)
        if after is not None:
            last[new] = event
    deletes = [Image(gone[key].before or {}, gone[key].b64) for key in _in_order(gone)]
    inserts: list[Image] = []
    updates: list[Image] = []
    for key in _in_order(last):
        event = last[key]
        there = key in existed and key not in gone
        (updates if there else inserts).append(Image(event.after or {}, event.b64))
    return Folded(deletes, inserts, updates)


def _in_order(events: dict[Hashable, Event]) -> Iterable[Hashable]:
    """Neighbours together: the database then finds them on pages that it has just touched."""
    try:
        return sorted(events)  # type: ignore[type-var]
    except TypeError:
        return events  # text beside bytes


def row_key(row: Row, b64: Sequence[str], columns: Sequence[str]) -> Hashable:
    """A row's exact key. Text is marked as base64 whenever either image of its event needs it, so
    the same text may come marked in one event and plain in the next."""
    if len(columns) == 1:
        return _exact(row[columns[0]], columns[0] in b64)
    return tuple([_exact(row[name], name in b64) for name in columns])


def _exact(value: Hashable, marked: bool) -> Hashable:
    if not marked:
        return value
    raw = b64decode(str(value))
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
