"""A binlog's payload walked in place: Binlog, its PrewriteValue, its TableMutations (binlog.proto).

The rows are cut out of the payload's bytes once; nothing is copied before. What protobuf takes,
this takes: fields in any order, the last of a repeated single field, unknown fields read over.
"""

from __future__ import annotations

from typing import Final

from tidelog.rows.datum import SIGN
from tidelog.rows.errors import Malformed

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5

# Tags: field << 3 | wire type.
_KEY: Final = 4 << 3 | _BYTES
_VALUE: Final = 5 << 3 | _BYTES
_DDL_QUERY: Final = 6 << 3 | _BYTES
_DDL_JOB: Final = 7 << 3 | _VARINT
_SCHEMA_VERSION: Final = 1 << 3 | _VARINT
_MUTATION: Final = 2 << 3 | _BYTES
_TABLE_ID: Final = 1 << 3 | _VARINT
_INSERTED: Final = 2 << 3 | _BYTES
_UPDATED: Final = 3 << 3 | _BYTES
_DELETED: Final = 6 << 3 | _BYTES
_SEQUENCE: Final = 7 << 3 | _VARINT
_SEQUENCE_PACKED: Final = 7 << 3 | _BYTES


class MutationRows:
    """A TableMutation: the rows of one table by kind, and the kinds in the order of the rows."""

    __slots__ = ("deleted_rows", "inserted_rows", "sequence", "table_id", "updated_rows")

    def __init__(self, table_id: int = 0) -> None:
        self.table_id: int = table_id
        self.inserted_rows: list[bytes] = []
        self.updated_rows: list[bytes] = []
        self.deleted_rows: list[bytes] = []
        self.sequence: list[int] = []


class Payload:
    """What makes a transaction. `is_ddl`: it names a DDL's job or text, which aren't kept here."""

    __slots__ = ("is_ddl", "key", "mutations", "schema_version")

    def __init__(self) -> None:
        self.is_ddl: bool = False
        self.key: bytes = b""
        self.schema_version: int = 0
        self.mutations: list[MutationRows] = []


def read_payload(buf: bytes) -> Payload:
    """The rows of a serialised Binlog. Raises Malformed."""
    try:
        return _binlog(buf)
    except IndexError:
        raise Malformed("the payload ends in the middle of a field") from None


# A tag or length below 128 is read where it stands: nearly all are.


def _binlog(buf: bytes) -> Payload:
    found = Payload()
    p, end = 0, len(buf)
    value_at = value_end = job = query = 0
    while p < end:
        tag = buf[p]
        if tag == _DDL_JOB:
            job, p = _varint(buf, p + 1)
            continue
        if tag not in (_VALUE, _KEY, _DDL_QUERY):
            p = _skip(buf, p)
            continue
        size = buf[p + 1]
        p += 2
        if size > 127:
            size, p = _varint(buf, p - 1)
        at = p
        p += size
        if tag == _VALUE:
            value_at, value_end = at, p
        elif tag == _KEY:
            found.key = buf[at:p]
        else:
            query = size
    if p > end:
        raise Malformed("a field is longer than the payload")
    found.is_ddl = job != 0 or query != 0  # TiDB writes a job of 0 with rows
    _value(buf, value_at, value_end, found)
    return found


def _value(buf: bytes, p: int, end: int, into: Payload) -> None:
    while p < end:
        tag = buf[p]
        if tag == _MUTATION:
            size, p = _varint(buf, p + 1)
            at = p
            p += size
            if p <= end:
                into.mutations.append(_mutation(buf, at, p))
        elif tag == _SCHEMA_VERSION:
            number, p = _varint(buf, p + 1)
            into.schema_version = _signed(number)
        else:
            p = _skip(buf, p)
    if p > end:
        raise Malformed("a field is longer than its PrewriteValue")


def _mutation(buf: bytes, p: int, end: int) -> MutationRows:
    found = MutationRows()
    while p < end:
        tag = buf[p]
        if tag == _SEQUENCE:
            number, p = _varint(buf, p + 1)
            found.sequence.append(number)
            continue
        if tag == _TABLE_ID:
            number, p = _varint(buf, p + 1)
            found.table_id = _signed(number)
            continue
        if tag not in (_INSERTED, _UPDATED, _DELETED, _SEQUENCE_PACKED):
            p = _skip(buf, p)
            continue
        size = buf[p + 1]
        p += 2
        if size > 127:
            size, p = _varint(buf, p - 1)
        at = p
        p += size
        if p > end:
            break
        if tag == _INSERTED:
            found.inserted_rows.append(buf[at:p])
        elif tag == _UPDATED:
            found.updated_rows.append(buf[at:p])
        elif tag == _DELETED:
            found.deleted_rows.append(buf[at:p])
        else:
            _packed(buf, at, p, found.sequence)
    if p > end:
        raise Malformed("a field is longer than its TableMutation")
    return found


def _packed(buf: bytes, p: int, end: int, into: list[int]) -> None:
    while p < end:
        number = buf[p]
        p += 1
        if number > 127:
            number, p = _varint(buf, p - 1)
        into.append(number)
    if p > end:
        raise Malformed("a sequence ends in the middle of a number")


def _varint(buf: bytes, p: int) -> tuple[int, int]:
    """An unsigned number of at most 64 bits, and the position behind it."""
    byte = buf[p]
    p += 1
    if byte < 128:
        return byte, p
    value = byte & 127
    shift = 7
    while True:
        byte = buf[p]
        p += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, p
        shift += 7
        if shift > 63:
            raise Malformed("a number has more than 10 bytes")


def _signed(number: int) -> int:
    return number - (SIGN << 1) if number >= SIGN else number


def _skip(buf: bytes, p: int) -> int:
    """The position behind a field that is not asked for, at its tag."""
    tag = buf[p]
    p += 1
    if tag > 127:
        tag, p = _varint(buf, p - 1)
    wire = tag & 7
    if wire == _VARINT:
        at = p
        while buf[p] > 127:
            p += 1
        if p - at > 9:
            raise Malformed("a number has more than 10 bytes")
        return p + 1
    if wire == _BYTES:
        size, p = _varint(buf, p)
        return p + size
    if wire == _FIXED64:
        return p + 8
    if wire == _FIXED32:
        return p + 4
    raise Malformed(f"wire type {wire} is none of a binlog")
