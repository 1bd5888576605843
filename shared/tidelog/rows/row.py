"""The old row format: pairs of column id (a signed varint datum) and value datum, in any order.

This is the hot loop of the Drainer: what most columns hold is decoded inline or by one call, the
rest through `read_datum` and the column.
"""

from __future__ import annotations

from typing import Final

from tidelog.rows.any_datum import read_datum
from tidelog.rows.column import Column, Convert
from tidelog.rows.datum import COMPACT_BYTES, DECIMAL, NIL, UVARINT, VARINT, read_uvarint
from tidelog.rows.decimal import read_decimal
from tidelog.rows.errors import Malformed
from tidelog.rows.values import Value

_NUMBER: Final = 0
_TEXT: Final = 1
_DECIMAL: Final = 2


class Slot:
    """A column as the loop needs it. `wire`: the flag that `form` reads; -1 = the column does."""

    __slots__ = ("column", "convert", "form", "name", "wire")

    def __init__(self, column: Column) -> None:
        self.column = column
        self.name: str = column.name
        self.convert: Convert | None = column.convert
        self.wire: int = column.wire
        self.form: int = _NUMBER
        if column.wire == COMPACT_BYTES and not column.binary:
            self.form = _TEXT
        elif column.wire == DECIMAL:
            self.form = _DECIMAL
        elif column.wire not in (VARINT, UVARINT):
            self.wire = -1

    def text(self, raw: bytes, marks: list[str]) -> Value:
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            return self.column.value(COMPACT_BYTES, raw, marks)


Slots = dict[int, Slot]
"""By zig-zag form of the column id, which is what stands on the wire."""


def slots_for(columns: list[Column]) -> Slots:
    """The lookup `read_row` needs."""
    return {column.info.id << 1: Slot(column) for column in columns}


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
        name = slot.name
        flag = buf[p]
        if flag == NIL:
            row[name] = None
            p += 1
        elif flag != slot.wire:
            flag, raw, p = read_datum(buf, p)
            row[name] = slot.column.value(flag, raw, marks)
        elif slot.form == _DECIMAL:
            row[name], p = read_decimal(buf, p + 1)
        else:
            number = buf[p + 1]
            p += 2
            if number > 127:
                number, p = read_uvarint(buf, p - 1)
            if slot.form == _TEXT:
                at = p
                p += number >> 1
                if p > end or number & 1:
                    raise Malformed("a string is longer than the row")
                row[name] = slot.text(buf[at:p], marks)
                continue
            if flag == VARINT:
                number = (number >> 1) ^ -(number & 1)
            convert = slot.convert
            row[name] = number if convert is None else convert(number)
    return p
