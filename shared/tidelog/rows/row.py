"""The old row format: pairs of column id (a signed varint datum) and value datum, in any order.

This is the hot loop of the Drainer; integers, text and NULL are decoded inline, the rest through
`read_datum` and the column.
"""

from __future__ import annotations

from tidelog.rows.any_datum import read_datum
from tidelog.rows.column import Column
from tidelog.rows.datum import COMPACT_BYTES, NIL, UVARINT, VARINT, read_uvarint
from tidelog.rows.errors import Malformed
from tidelog.rows.values import Value

Slot = tuple[str, int, Column]
"""A column's name, the flag that may be decoded inline (0 = none), and the column."""
Slots = dict[int, Slot]
"""By zig-zag form of the column id, which is what stands on the wire."""


def slots_for(columns: list[Column]) -> Slots:
    """The lookup `read_row` needs."""
    slots: Slots = {}
    for column in columns:
        plain = column.convert is None and not column.binary
        inline = column.wire if plain and column.wire in (VARINT, UVARINT, COMPACT_BYTES) else NIL
        slots[column.info.id << 1] = (column.name, inline, column)
    return slots


def read_row(
    buf: bytes, p: int, slots: Slots, row: dict[str, Value], marks: list[str], stop: int
) -> int:
    """Decode pairs from `p` into `row` until the end, or until the column id `stop` (zig-zag) comes
    the second time: there the new image of an update begins. Returns that position.

    Unknown ids (a column of another schema version, the hidden handle -1) are read over. Names of
    base64 values are appended to `marks`. Raises Malformed, IndexError or struct.error.
    """
    end = len(buf)
    find = slots.get
    met_stop = False
    while p < end:
        if buf[p] != VARINT:
            raise Malformed("a column id is expected")
        at = p
        column_id = buf[p + 1]
        if column_id < 128:
            p += 2
        else:
            column_id, p = read_uvarint(buf, p + 1)
        if column_id == stop:
            if met_stop:
                return at
            met_stop = True
        slot = find(column_id)
        if slot is None:
            _, _, p = read_datum(buf, p)
            continue
        name, inline, column = slot
        flag = buf[p]
        if flag == NIL:
            row[name] = None
            p += 1
        elif flag != inline:
            flag, raw, p = read_datum(buf, p)
            row[name] = column.value(flag, raw, marks)
        elif flag == COMPACT_BYTES:
            size = buf[p + 1]
            p += 2
            if size > 127:
                size, p = read_uvarint(buf, p - 1)
            at = p
            p += size >> 1
            if p > end or size & 1:
                raise Malformed("a string is longer than the row")
            try:
                row[name] = str(buf[at:p], "utf-8")
            except UnicodeDecodeError:
                row[name] = column.value(flag, buf[at:p], marks)
        else:
            number = buf[p + 1]
            p += 2
            if number > 127:
                number, p = read_uvarint(buf, p - 1)
            row[name] = (number >> 1) ^ -(number & 1) if flag == VARINT else number
    return p
