"""A payload walked in slices gives what protobuf and the row codec give of the whole."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.decode import survey as module
from tidelog.decode import wire
from tidelog.decode.survey import Survey, mutations, slices, survey
from tidelog.decode.wire import Malformed
from tidelog.rows.errors import RowCorrupt
from tidelog.rows.payload import MutationRows, read_payload
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE, AnyMutation
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue

Rows = list[tuple[int, bytes]]
"""Of one mutation: kind and bytes, in order."""


class Held(bytes):
    """A payload as a file gives it."""

    def read(self, offset: int, length: int) -> bytes:
        return bytes(self[offset : offset + length])

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    """Blocks, steps and slices that a few bytes fill."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wire, "BLOCK", 24)
        for name, value in (("STEP_FIELDS", 2), ("STEP_MUTATIONS", 1), ("REMEMBERED", 1)):
            patch.setattr(module, name, value)
        patch.setattr(module, "SLICE_ROWS", 3)
        patch.setattr(module, "SLICE_BYTES", 40)
        yield


def unknown_kinds(mutation: AnyMutation) -> bool:
    """Protobuf puts kinds that it does not know among the unknown fields."""
    if isinstance(mutation, MutationRows):
        return False
    unknown = UnknownFieldSet(mutation)
    fields = [unknown[at] for at in range(len(unknown))]
    return any(one.field_number == 7 and one.wire_type == 0 for one in fields)


def in_order(mutation: AnyMutation) -> Rows:
    """Its rows by its sequence, as TableCodec takes them. Raises RowCorrupt."""
    lists: dict[int, list[bytes]] = {
        INSERT: list(mutation.inserted_rows),
        UPDATE: list(mutation.updated_rows),
        DELETE: list(mutation.deleted_rows),
    }
    sequence: list[int] = list(mutation.sequence)
    for kind, rows in lists.items():
        if sequence.count(kind) != len(rows):
            raise RowCorrupt(mutation.table_id, "", -1, "another count")
    if len(sequence) != sum(map(len, lists.values())) or unknown_kinds(mutation):
        raise RowCorrupt(mutation.table_id, "", -1, "obsolete")
    return [(kind, lists[kind].pop(0)) for kind in sequence]


def parsed(payload: bytes) -> tuple[Binlog, PrewriteValue]:
    binlog = Binlog.FromString(payload)
    return binlog, PrewriteValue.FromString(binlog.prewrite_value)


def surveyed(payload: bytes) -> Survey:
    steps = survey(Held(payload))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Survey = done.value
            return found


def walked(payload: bytes, found: Survey) -> list[tuple[int, Rows]]:
    made = []
    for mutation in mutations(Held(payload), found):
        if mutation is None:
            continue
        rows: Rows = []
        for part in slices(Held(payload), mutation):
            if part is None:
                continue
            assert 0 < len(part.mutation.sequence) <= 3
            for kind in (INSERT, UPDATE, DELETE):
                assert part.before[kind] == sum(one == kind for one, _ in rows)
            rows += in_order(part.mutation)
        made.append((mutation.table_id, rows))
    return made


def varint(value: int) -> bytes:
    out = bytearray()
    value &= (1 << 64) - 1
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


UNKNOWN = st.sampled_from(
    [
        field(90, 5),
        field(91, b"unknown"),
        varint(92 << 3 | 5) + b"four",
        varint(93 << 3 | 1) + b"eight by",
        field(1, b"a known number of another type"),
        field(2, 7),
    ]
)


@st.composite
def a_mutation(draw: st.DrawFn) -> bytes:
    """Its fields in any order, the sequence packed, not packed or both."""
    kinds = draw(st.lists(st.sampled_from([INSERT, UPDATE, DELETE]), max_size=12))
    numbers = {INSERT: 2, UPDATE: 3, DELETE: 6}
    pieces = [
        field(numbers[kind], draw(st.binary(max_size=draw(st.sampled_from([3, 30, 60])))))
        for kind in kinds
    ]
    pieces += [field(1, draw(st.integers(-5, 1 << 40))) for _ in range(draw(st.integers(0, 2)))]
    pieces += draw(st.lists(UNKNOWN, max_size=2))
    if draw(st.booleans()):
        pieces.append(
            field(4, b"".join(varint(v) for v in draw(st.lists(st.integers(0, 1 << 50)))))
        )
    order = draw(st.permutations(kinds))
    if draw(st.integers(0, 9)) == 0:
        order = [*order, draw(st.integers(0, 300))]
    at = draw(st.integers(0, len(order)))
    sequence = [field(7, b"".join(map(varint, order[:at])))] if at else []
    sequence += [field(7, kind) for kind in order[at:]]
    if draw(st.booleans()):
        return b"".join(draw(st.permutations([*pieces, *sequence])))
    return b"".join(sorted(pieces, key=lambda piece: piece[0]) + sequence)


@st.composite
def a_payload(draw: st.DrawFn) -> bytes:
    fields = [field(2, one) for one in draw(st.lists(a_mutation(), max_size=4))]
    fields += [field(1, draw(st.integers(-1, 1 << 33))) for _ in range(draw(st.integers(0, 2)))]
    fields += draw(st.lists(UNKNOWN, max_size=1))
    value = b"".join(draw(st.permutations(fields)))
    head = [field(2, 400), field(3, 401), field(4, draw(st.binary(max_size=9)))]
    if draw(st.integers(0, 5)) == 0:
        head.append(field(5, b"an earlier one is replaced"))
    head = draw(st.permutations(head))
    return b"".join([*head, field(5, value), *draw(st.lists(UNKNOWN, max_size=1))])


def agree(payload: bytes) -> None:
    """Either both refuse it, or both say the same."""
    try:
        binlog, value = parsed(payload)
    except DecodeError:
        with pytest.raises(Malformed):
            surveyed(payload)
        return
    found = surveyed(payload)
    head = Binlog.FromString(found.head)
    binlog.ClearField("prewrite_value")
    for name in ("tp", "start_ts", "commit_ts", "prewrite_key", "ddl_query", "ddl_job_id"):
        assert getattr(head, name) == getattr(binlog, name)
    assert found.version == value.schema_version
    ids = [mutation.table_id for mutation in value.mutations]
    assert list(found.tables) == list(dict.fromkeys(ids))
    assert all(found.tables[one] == ids.count(one) for one in ids)
    try:
        expected = [(one.table_id, in_order(one)) for one in value.mutations]
    except RowCorrupt:
        with pytest.raises(RowCorrupt):
            walked(payload, found)
        return
    assert walked(payload, found) == expected


@settings(max_examples=150)
@given(a_payload())
def test_slices_are_what_the_whole_is(payload: bytes) -> None:
    """As protobuf has it, and as what small transactions are decoded from."""
    agree(payload)
    whole = read_payload(payload)
    found = surveyed(payload)
    assert found.version == whole.schema_version
    try:
        expected = [(one.table_id, in_order(one)) for one in whole.mutations]
    except RowCorrupt:
        with pytest.raises(RowCorrupt):
            walked(payload, found)
        return
    assert walked(payload, found) == expected


def test_groups_are_passed_over() -> None:
    group = varint(94 << 3 | 3) + field(2, b"in a group") + varint(94 << 3 | 4)
    agree(field(5, group + field(1, 3) + field(2, group + field(2, b"row") + group + field(7, 0))))
    agree(group[:-2])


@settings(max_examples=150)
@given(a_payload(), st.data())
def test_damaged_bytes_too(payload: bytes, data: st.DataObject) -> None:
    damaged = bytearray(payload)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        match data.draw(st.integers(0, 2)):
            case 0:
                damaged[at] = data.draw(st.integers(0, 255))
            case 1:
                damaged[at : at + 1] = data.draw(st.binary(max_size=3)) or b"\xff"
            case 2:
                del damaged[max(at, 1) :]
    agree(bytes(damaged))


@settings(max_examples=150)
@given(st.binary(max_size=80))
def test_any_bytes(payload: bytes) -> None:
    agree(payload)


def test_rows_far_behind_others_are_looked_for_in_steps() -> None:
    body = field(2, b"a") + field(6, b"d") * 50 + field(2, b"b")
    body += field(7, INSERT) + field(7, INSERT) + field(7, DELETE) * 50
    payload = field(5, field(2, field(1, 9) + body))
    found = surveyed(payload)
    (mutation,) = [one for one in mutations(Held(payload), found) if one is not None]
    parts = list(slices(Held(payload), mutation))
    assert parts[0] is None
    assert next(part for part in parts if part is not None).mutation.sequence[:2] == [INSERT] * 2


def test_of_a_number_of_more_than_64_bits_the_lowest_count() -> None:
    for last in (1, 2, 0x7F):
        number = b"\x80" * 9 + bytes([last])
        mutation = b"\x08" + number + field(4, number) + field(7, number)
        agree(field(5, b"\x08" + number + field(2, mutation)))
        agree(field(5, field(2, mutation + varint(95 << 3) + number)))


@pytest.mark.parametrize("before", [0, 30])
def test_a_sequence_that_ends_within_a_number_is_malformed(before: int) -> None:
    """`before` whole ones: the last block holds no more than its beginning."""
    packed = b"\x00" * before + b"\x80"
    mutation = b"\x3a" + bytes([len(packed)]) + packed  # field 7, its bytes
    value = b"\x12" + bytes([len(mutation)]) + mutation
    payload = b"\x2a" + bytes([len(value)]) + value
    assert Binlog.DESCRIPTOR.fields_by_name["prewrite_value"].number == 5
    with pytest.raises(Malformed, match="it ends in a varint at"):
        surveyed(payload)
