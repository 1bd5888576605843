"""A chunk's bodies -> bundles for the parts: the map side. Pure.

Of a key of a spread table only its last change is sent: what a hot key went through stays here.
That is enough, since what all chunks say of a key is settled by the latest of their changes alone,
as `tidelog.plan.fold` has it with `safe`: a row that is not there at the end is deleted, one that
is there is put. A change of the key is a delete of the old one and a put of the new one. Images
are not decoded here: their JSON travels as it came, and keys are told apart by theirs.

Changes of a table that is not spread are sent transaction by transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import final

import msgspec

from tidelog.errors import Stopped, UnparsablePayload
from tidelog.plan.keys import Unsure
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.replay.bundles import EVENT, GONE, PUT, Bundle, Change, bundles, pinned
from tidelog_backfill.replay.key_texts import KeyTexts
from tidelog_backfill.replay.routing import Routing

HELD_ROWS = 200_000
HELD_BYTES = 32 << 20


class _Row(msgspec.Struct, frozen=True, gc=False):
    """An Event; `before` isn't needed, its key is `key`."""

    op: str
    commit_ts: int
    key: msgspec.Raw = msgspec.Raw(b"")
    after: msgspec.Raw = msgspec.Raw(b"")
    b64: list[str] = []


class _Message(msgspec.Struct, frozen=True, gc=False):
    db: str
    table: str
    schema_version: int
    events: list[_Row]


class _Texts(msgspec.Struct, frozen=True, gc=False):
    """A message whose events stay as they are."""

    events: list[msgspec.Raw]


_MESSAGE = msgspec.json.Decoder(_Message)
_TEXTS = msgspec.json.Decoder(_Texts)
_COMMIT_TS = attrgetter("commit_ts")


@final
class Shuffler:
    """Rows with after_ts < commit_ts <= until_ts. Memory: what it holds until `take`."""

    def __init__(self, routing: Routing, after_ts: int, until_ts: int) -> None:
        self._after = after_ts
        self._until = until_ts
        self._routing = routing
        self._forms = {
            (*form.place, form.structure.version): number
            for number, form in enumerate(routing.forms)
        }
        self._tables: dict[int, _Table] = {}
        """Of spread tables, from their first row on."""
        self._in_order: list[Bundle] = []
        self._rows = self._bytes = 0
        """Held."""
        self.events = 0
        """Changes taken so far."""

    def add(self, body: Body) -> None:
        """Raises UnparsablePayload, and Stopped for a table that the routing does not have."""
        try:
            message = _MESSAGE.decode(body.body)
            number = self._form(message)
            table = self._routing.forms[number].table
            after = max(self._after, body.after)
            if self._routing.spread[table]:
                rows = self._tables.get(table)
                if rows is None:
                    rows = self._tables[table] = _Table(self._routing, table)
                held, size = len(rows), rows.bytes
                self.events += rows.add(number, message.events, body.seq, after, self._until)
                self._rows += len(rows) - held
                self._bytes += rows.bytes - size
            else:
                self._keep(number, message.events, body, after)
        except NOT_READABLE as error:
            raise UnparsablePayload(f"a row message can't be read: {error}") from error

    @property
    def is_full(self) -> bool:
        return self._rows >= HELD_ROWS or self._bytes >= HELD_BYTES

    def take(self) -> Iterator[Bundle]:
        """What it holds; it begins anew."""
        for table in self._tables.values():
            yield from table.take()
        in_order, self._in_order = self._in_order, []
        yield from in_order
        self._rows = self._bytes = 0

    def _form(self, message: _Message) -> int:
        form = self._forms.get((message.db, message.table, message.schema_version))
        if form is None:
            raise Stopped(
                f"rows of {message.db}.{message.table} at version {message.schema_version} have no"
                " table to go to",
                hint="backfill the table, or leave it out of the replay",
            )
        return form

    def _keep(self, form: int, rows: list[_Row], body: Body, after: int) -> None:
        table = self._routing.forms[form].table
        part = self._routing.home(table)
        texts = _TEXTS.decode(body.body).events
        changes = [
            Change(form, EVENT, b"", row.commit_ts, seq, [], bytes(text))
            for seq, (row, text) in enumerate(zip(rows, texts, strict=True), body.seq)
            if after < row.commit_ts <= self._until
        ]
        self.events += len(changes)
        for _, of_one in groupby(changes, _COMMIT_TS):
            for bundle in bundles(part, table, 0, list(of_one)):
                self._in_order.append(bundle)
                self._rows += 1
                self._bytes += len(bundle.data)


class _Table:
    """The latest changes of a spread table's keys."""

    def __init__(self, routing: Routing, number: int) -> None:
        self._routing = routing
        self._number = number
        self._keys = KeyTexts(routing.first_form(number))
        self._last: dict[bytes, Change] = {}
        self.bytes = 0
        """Of the rows it holds."""

    def __len__(self) -> int:
        return len(self._last)

    def add(self, form: int, rows: list[_Row], seq: int, after: int, until: int) -> int:
        """How many of the rows it took."""
        taken = 0
        keys, is_exact = self._keys, self._keys.is_exact
        for place, row in enumerate(rows, seq):
            commit_ts = row.commit_ts
            if not after < commit_ts <= until:
                continue
            taken += 1
            b64, text, image = row.b64, bytes(row.key), bytes(row.after)
            key = text if is_exact and not b64 else keys.exact(text, b64)
            if row.op == "u" and not _begins(image, text):
                new = keys.exact(keys.of_image(image), b64)
                if new != key:
                    self._note(Change(form, GONE, key, commit_ts, place, b64, text))
                    key = new
            if image:
                self._note(Change(form, PUT, key, commit_ts, place, b64, image))
            else:
                self._note(Change(form, GONE, key, commit_ts, place, b64, text))
        return taken

    def _note(self, change: Change) -> None:
        known = self._last.get(change.key)
        if known is None:
            self.bytes += len(change.payload)
        elif (known.commit_ts, known.seq) <= (change.commit_ts, change.seq):
            self.bytes += len(change.payload) - len(known.payload)
        else:
            return
        self._last[change.key] = change

    def take(self) -> Iterator[Bundle]:
        last, self._last, self.bytes = self._last, {}, 0
        routing = self._routing
        try:
            slots = self._slots(last)
        except Unsure:
            for part in range(routing.parts):
                yield pinned(part, self._number)
            return
        for slot, changes in slots.items():
            part, bucket = routing.place(self._number, slot)
            yield from bundles(part, self._number, bucket, changes)

    def _slots(self, last: dict[bytes, Change]) -> dict[int, list[Change]]:
        """Raises Unsure."""
        slots: dict[int, list[Change]] = {}
        normal, slot_of = self._keys.normal, self._routing.slot
        for key, change in last.items():
            slot = slot_of(normal(key))
            if slot in slots:
                slots[slot].append(change)
            else:
                slots[slot] = [change]
        return slots


def _begins(image: bytes, key: bytes) -> bool:
    """Whether the row's JSON begins with the key's, as it mostly does: then that is its key."""
    end = len(key) - 1
    return image[:end] == key[:end] and image[end : end + 1] in (b",", b"}")
