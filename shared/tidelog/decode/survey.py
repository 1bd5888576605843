"""A large transaction's payload, walked instead of parsed: what it is, its rows in slices. Pure.

Generators yield None between steps of some milliseconds, so that whoever drives them lets others
run. A TableMutation has rows in three lists and their order in `sequence`, its fields in any order.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator

import msgspec

from tidelog.decode.wire import BYTES, VARINT, Readable, Walk, int64
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.payload import MutationRows
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE
from tidelog_proto.binlog_pb2 import (
    Binlog,
    MutationType,
    PrewriteValue,
    TableMutation,
)

STEP_FIELDS = 4096
STEP_MUTATIONS = 256
SLICE_ROWS = 256
SLICE_BYTES = 128 << 10
REMEMBERED = 1024
"""Mutations whose survey is kept between their routing and their rows."""

_PREWRITE_VALUE = Binlog.PREWRITE_VALUE_FIELD_NUMBER
_VERSION = PrewriteValue.SCHEMA_VERSION_FIELD_NUMBER
_MUTATIONS = PrewriteValue.MUTATIONS_FIELD_NUMBER
_TABLE_ID = TableMutation.TABLE_ID_FIELD_NUMBER
_SEQUENCE = TableMutation.SEQUENCE_FIELD_NUMBER
_PACKED = (_SEQUENCE, TableMutation.DELETED_IDS_FIELD_NUMBER)
_ROWS = {
    TableMutation.INSERTED_ROWS_FIELD_NUMBER: INSERT,
    TableMutation.UPDATED_ROWS_FIELD_NUMBER: UPDATE,
    TableMutation.DELETED_ROWS_FIELD_NUMBER: DELETE,
}
_FIELDS = {kind: number for number, kind in _ROWS.items()}
_LISTS = {INSERT: "inserted_rows", UPDATE: "updated_rows", DELETE: "deleted_rows"}
_WALKED = frozenset((*_ROWS, _SEQUENCE))
UNKNOWN = -1
"""In Mutation.named: kinds that no TiDB knows."""
_KINDS = frozenset(MutationType.values())


class Mutation(msgspec.Struct):
    """One mutation: its table, how many rows of each kind it has and names in its sequence, and
    between which offsets the fields of each number lie."""

    table_id: int = 0
    rows: dict[int, int] = msgspec.field(default_factory=lambda: dict.fromkeys(_LISTS, 0))
    named: dict[int, int] = {}
    spans: dict[int, tuple[int, int]] = {}

    def check(self) -> None:
        """As TableCodec.decode does. Raises RowCorrupt."""
        for kind, count in self.rows.items():
            if self.named.get(kind, 0) != count:
                raise RowCorrupt(
                    self.table_id, _LISTS[kind], -1, "the sequence names another count"
                )
        if sum(self.named.values()) != sum(self.rows.values()):
            raise RowCorrupt(self.table_id, "sequence", -1, "an obsolete mutation type")


class Slice(msgspec.Struct):
    """Rows of one mutation that stand next to each other; `before`: how many of each kind stand
    before them, as a RowCorrupt of this slice does not know."""

    mutation: MutationRows
    before: dict[int, int]

    def mended(self, error: RowCorrupt) -> RowCorrupt:
        """The error with the row's place in the whole mutation."""
        for kind, name in _LISTS.items():
            if name == error.list_name and error.index >= 0:
                index = error.index + self.before[kind]
                return RowCorrupt(error.table_id, name, index, error.reason)
        return error


class Survey(msgspec.Struct):
    """`head`: the Binlog without its prewrite_value; `tables`: ids in order of appearance, and of
    each how many mutations it has."""

    head: bytes
    version: int
    value: tuple[int, int]
    tables: dict[int, int]
    mutations: dict[int, Mutation]
    """By offset, the first REMEMBERED ones."""


def survey(payload: Readable) -> Generator[None, None, Survey]:
    """Walk all of a payload (binlog.Binlog). Raises Malformed."""
    head: dict[tuple[int, int], bytes] = {}
    value = (0, 0)
    walk = Walk(payload)
    at = steps = 0
    for number, kind, first, stop in walk.fields(0, len(payload)):
        if number == _PREWRITE_VALUE and kind == BYTES:
            value = (first, stop)
        elif number in Binlog.DESCRIPTOR.fields_by_number:
            head[number, kind] = walk.bytes(at, stop)  # the last one counts
        at = stop
        steps += 1
        if not steps % STEP_FIELDS:
            yield
    found = Survey(b"".join(head.values()), 0, value, {}, {})
    for number, kind, first, stop in walk.fields(*value):
        steps += 1
        if not steps % STEP_MUTATIONS:
            yield
        if number == _VERSION and kind == VARINT:
            found.version = int64(first)
        elif number == _MUTATIONS and kind == BYTES:
            mutation = yield from survey_mutation(payload, first, stop)
            if len(found.mutations) < REMEMBERED:
                found.mutations[first] = mutation
            found.tables[mutation.table_id] = found.tables.get(mutation.table_id, 0) + 1
    return found


def mutations(payload: Readable, found: Survey) -> Iterator[Mutation | None]:
    """All mutations in order; None between steps."""
    for number, kind, first, stop in Walk(payload).fields(*found.value):
        if number == _MUTATIONS and kind == BYTES:
            known = found.mutations.get(first)
            yield known or (yield from survey_mutation(payload, first, stop))


def survey_mutation(payload: Readable, at: int, end: int) -> Generator[None, None, Mutation]:
    """Walk a mutation. Raises Malformed."""
    found = Mutation()
    inner = Walk(payload)
    steps = 0
    for number, kind, first, stop in Walk(payload).fields(at, end):
        if number in _WALKED:
            begin, _ = found.spans.get(number, (at, 0))
            found.spans[number] = begin, stop
        at = stop
        steps += 1
        if kind == BYTES and number in _ROWS:
            found.rows[_ROWS[number]] += 1
        elif kind == BYTES and number in _PACKED:
            for value in inner.varints(first, stop):
                if number == _SEQUENCE:
                    _name(found.named, value)
                steps += 1
                if not steps % STEP_FIELDS:
                    yield
        elif kind == VARINT and number == _SEQUENCE:
            _name(found.named, first)
        elif kind == VARINT and number == _TABLE_ID:
            found.table_id = int64(first)
        if not steps % STEP_FIELDS:
            yield
    return found


def _name(named: dict[int, int], value: int) -> None:
    kind = value if value in _KINDS else UNKNOWN
    named[kind] = named.get(kind, 0) + 1


def slices(payload: Readable, mutation: Mutation) -> Iterator[Slice | None]:
    """The rows of a mutation in the order of its sequence, some hundred at a time; None between
    steps. Raises RowCorrupt if the sequence does not fit the rows."""
    mutation.check()
    lists = {kind: _rows(payload, mutation, kind) for kind in _ROWS.values()}
    seen = dict.fromkeys(_ROWS.values(), 0)
    part = _Part(mutation.table_id, dict(seen))
    for kind in _sequence(payload, mutation):
        if kind is None:
            yield None
            continue
        while (row := next(lists[kind])) is None:
            yield None
        seen[kind] += 1
        if part.add(kind, row):
            yield part.slice()
            part = _Part(mutation.table_id, dict(seen))
    if part.order:
        yield part.slice()


class _Part:
    """A slice in the making."""

    def __init__(self, table_id: int, before: dict[int, int]) -> None:
        self.order: list[int] = []
        self._table_id = table_id
        self._before = before
        self._rows: dict[int, list[bytes]] = {kind: [] for kind in _ROWS.values()}
        self._size = 0

    def add(self, kind: int, row: bytes) -> bool:
        """Whether it is full."""
        self._rows[kind].append(row)
        self.order.append(kind)
        self._size += len(row)
        return len(self.order) >= SLICE_ROWS or self._size >= SLICE_BYTES

    def slice(self) -> Slice:
        made = MutationRows(self._table_id)
        made.inserted_rows = self._rows[INSERT]
        made.updated_rows = self._rows[UPDATE]
        made.deleted_rows = self._rows[DELETE]
        made.sequence = self.order
        return Slice(made, self._before)


def _rows(payload: Readable, mutation: Mutation, kind: int) -> Iterator[bytes | None]:
    """One of the three lists. Each has a walk of its own: where they lie one behind another, as
    TiDB writes them, each walks its own part only."""
    wanted = _FIELDS[kind]
    walk = Walk(payload)
    others = 0
    for number, wire, first, stop in walk.fields(*mutation.spans.get(wanted, (0, 0))):
        if number == wanted and wire == BYTES:
            yield walk.bytes(first, stop)
            continue
        others += 1
        if not others % STEP_FIELDS:
            yield None


def _sequence(payload: Readable, mutation: Mutation) -> Iterator[int | None]:
    inner = Walk(payload)
    others = 0
    for number, wire, first, stop in Walk(payload).fields(*mutation.spans.get(_SEQUENCE, (0, 0))):
        if number == _SEQUENCE and wire == VARINT:
            values: Iterable[int] = (first,)
        elif number == _SEQUENCE and wire == BYTES:
            values = inner.varints(first, stop)
        else:
            others += 1
            if not others % STEP_FIELDS:
                yield None
            continue
        yield from values
