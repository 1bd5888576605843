"""A chunk's bodies -> rows that are sent to the parts: the map side. Pure.

Of a key of a spread table only its last change is sent: what a hot key went through stays here.
That is enough, since what all chunks say of a key is settled by the latest of their changes alone,
as `tidelog.plan.fold` has it with `safe`: a row that is not there at the end is deleted, one that
is there is put. A change of the key is a delete of the old one and a put of the new one. Images
are not decoded here: their JSON travels as it came.

Changes of a table that is not spread are sent one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, NamedTuple, final

import msgspec

from tidelog.changes import Event
from tidelog.errors import Stopped, UnparsablePayload
from tidelog.plan.fold import row_key
from tidelog.plan.keys import TableKeys, Unsure
from tidelog_backfill.files.chunk import Body
from tidelog_backfill.replay.routing import Form, Routing, part_of

GONE, PUT, EVENT, PIN, LEFT_OUT = 1, 2, 3, 0, 4
"""Of a key that no row has, of one that a row has; a change in order; a table that has a value of
which nobody can tell what it equals: told to every part; what was left out of a chunk."""
HELD_ROWS = 200_000
HELD_BYTES = 32 << 20


class Sent(NamedTuple):
    """A row for a part. Sorted by (table, key, exact, commit_ts, seq) the changes of a key stand
    together, in order. `key`: as the database compares it; `exact`: as it is, if that differs.
    `payload`: of a PUT the row, of GONE the key's columns, of an EVENT all of it, as JSON; `b64`:
    the JSON array of names, if there are any."""

    part: int
    table: int
    form: int
    kind: int
    key: bytes
    exact: bytes
    commit_ts: int
    seq: int
    b64: bytes
    payload: bytes


class _Message(msgspec.Struct, frozen=True, gc=False):
    db: str
    table: str
    schema_version: int
    events: msgspec.Raw


class _Change(msgspec.Struct, frozen=True, gc=False):
    """An Event; `before` isn't needed, its key is `key`."""

    op: str
    commit_ts: int
    key: dict[str, Any] | None = None
    after: msgspec.Raw = msgspec.Raw(b"")
    b64: list[str] = []


class _Last(NamedTuple):
    """The latest change of a key."""

    stamp: tuple[int, int]
    kind: int
    form: int
    row: dict[str, Any]
    """At least the key's columns."""
    b64: list[str]
    after: bytes


_MESSAGE = msgspec.json.Decoder(_Message)
_CHANGES = msgspec.json.Decoder(list[_Change])
_EVENTS = msgspec.json.Decoder(list[Event])
_json = msgspec.json.encode
_pack = msgspec.msgpack.encode


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
        self._tables = [_Table(routing, number) for number in range(len(routing.spread))]
        self._keys = [_after_key(form) for form in routing.forms]
        self._in_order: list[Sent] = []
        self.events = 0
        """Changes taken so far."""
        self._rows = 0
        self._bytes = 0

    def add(self, body: Body) -> None:
        """Raises UnparsablePayload, and Stopped for a table that the routing does not have."""
        try:
            message = _MESSAGE.decode(body.body)
            form = self._form(message)
            after = max(self._after, body.after)
            if self._routing.spread[self._routing.forms[form].table]:
                self._spread(form, _CHANGES.decode(message.events), body.seq, after)
            else:
                self._keep(form, _EVENTS.decode(message.events), body.seq, after)
        except msgspec.DecodeError as error:
            raise UnparsablePayload(f"a row message can't be read: {error}") from error

    @property
    def is_full(self) -> bool:
        return self._rows >= HELD_ROWS or self._bytes >= HELD_BYTES

    def take(self) -> Iterator[Sent]:
        """What it holds; it begins anew."""
        for table in self._tables:
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

    def _spread(self, form: int, changes: list[_Change], seq: int, after: int) -> None:
        table = self._tables[self._routing.forms[form].table]
        columns = table.columns
        single = columns[0] if len(columns) == 1 else ""
        rows, size = len(table), table.bytes
        for place, change in enumerate(changes, seq):
            commit_ts, row, b64 = change.commit_ts, change.key, change.b64
            if not after < commit_ts <= self._until:
                continue
            self.events += 1
            if row is None:
                raise UnparsablePayload(f"a change of {commit_ts} has no key")
            exact = row[single] if single and not b64 else row_key(row, b64, columns)
            stamp = commit_ts, place
            if change.op == "d":
                table.note(exact, _Last(stamp, GONE, form, row, b64, b""))
                continue
            image = bytes(change.after)
            if change.op == "u":
                new_row = self._keys[form](image)
                new = new_row[single] if single and not b64 else row_key(new_row, b64, columns)
                if new != exact:
                    table.note(exact, _Last(stamp, GONE, form, row, b64, b""))
                    exact, row = new, new_row
            table.note(exact, _Last(stamp, PUT, form, row, b64, image))
        self._rows += len(table) - rows
        self._bytes += table.bytes - size

    def _keep(self, form: int, events: list[Event], seq: int, after: int) -> None:
        table = self._routing.forms[form].table
        part = self._routing.home(table)
        for place, event in enumerate(events, seq):
            commit_ts = event.commit_ts
            if after < commit_ts <= self._until:
                self.events += 1
                data = _json(event)
                self._rows += 1
                self._bytes += len(data)
                sent = Sent(part, table, form, EVENT, b"", b"", commit_ts, place, b"", data)
                self._in_order.append(sent)


class _Table:
    """The latest changes of a spread table's keys."""

    def __init__(self, routing: Routing, number: int) -> None:
        form = routing.first_form(number)
        self.columns = form.structure.key_columns
        self._number = number
        self._parts = routing.parts
        self._shift = routing.home(number)
        self._keys = TableKeys(form.structure, form.rule)
        self._last: dict[Hashable, _Last] = {}
        self.bytes = 0
        """Of the rows it holds."""

    def __len__(self) -> int:
        return len(self._last)

    def note(self, exact: Hashable, change: _Last) -> None:
        known = self._last.get(exact)
        if known is None or known.stamp <= change.stamp:
            self._last[exact] = change
            self.bytes += len(change.after) - (len(known.after) if known is not None else 0)

    def take(self) -> Iterator[Sent]:
        last, self._last, self.bytes = self._last, {}, 0
        try:
            for exact, change in last.items():
                yield self._sent(exact, change)
        except Unsure:
            for part in range(self._parts):
                yield Sent(part, self._number, 0, PIN, b"", b"", 0, 0, b"", b"")

    def _sent(self, exact: Hashable, change: _Last) -> Sent:
        keys, row, b64 = self._keys, change.row, change.b64
        normal = row[keys.plain] if keys.plain and not b64 else keys.first(row, b64)
        commit_ts, seq = change.stamp
        return Sent(
            (part_of(normal, self._parts) + self._shift) % self._parts,
            self._number,
            change.form,
            change.kind,
            _pack(_one_zero(normal)),
            b"" if normal == exact else _pack(exact),
            commit_ts,
            seq,
            _json(b64) if b64 else b"",
            change.after if change.kind == PUT else _json(row),
        )


def _one_zero(key: Any) -> Any:
    """-0.0 and 0.0 are equal, and are written otherwise."""
    if isinstance(key, tuple):
        return tuple([_one_zero(part) for part in key])
    return key + 0.0 if isinstance(key, float) else key


def _after_key(form: Form) -> Callable[[bytes], dict[str, Any]]:
    """Reads the key's columns out of a row's JSON, and passes over the others."""
    columns = form.structure.key_columns
    fields = [(f"k{n}", Any, msgspec.field(name=name)) for n, name in enumerate(columns)]
    decode = msgspec.json.Decoder(msgspec.defstruct("Key", fields)).decode

    def key(data: bytes) -> dict[str, Any]:
        return dict(zip(columns, msgspec.structs.astuple(decode(data)), strict=True))

    return key
