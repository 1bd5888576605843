"""Which tables a transaction changes, read from its bytes without building its rows. Pure.

A transaction may be two gigabytes and is fed in steps: of each mutation only the first field, its
table id, is looked at. One that is not as a TiDB writes it has no known tables: it goes to its
reader, who says what is wrong with it.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.ports import Buffer

MAX_TABLES = 256
_LEAST = 32
"""A mutation's tag, length and table id need no more bytes."""
_KEY, _VALUE, _JOB, _STATE = 0x22, 0x2A, 0x38, 0x40
"""Tags of Binlog: prewrite_key, prewrite_value, ddl_job_id (0 where it is no DDL's), its state."""
_VERSION, _MUTATION, _TABLE_ID = 0x08, 0x12, 0x08
"""Tags of PrewriteValue, and of a TableMutation's first field."""


class Changed(NamedTuple):
    """The ids of all tables that a transaction changes, and its schema version."""

    version: int
    tables: frozenset[int]


class _Unusual(Exception):
    """Not as a TiDB writes rows; or no rows at all."""


class TableIds:
    """Fed the fields of a Commit behind its timestamps, in steps of any size."""

    def __init__(self) -> None:
        self._ids: set[int] = set()
        self._version = 0
        self._unusual = False
        self._fed = 0
        self._next = 0
        """Where the next tag is, counted from the first byte fed."""
        self._value_end = 0
        self._held = b""
        """What was fed from `_next` on, while it is too little."""

    def feed(self, data: Buffer) -> None:
        begin = self._fed - len(self._held)
        self._fed += len(data)
        if self._unusual or self._next >= self._fed:
            return
        window = memoryview(self._held + bytes(data)) if self._held else memoryview(data)
        self._walk(window, begin, self._fed - _LEAST)
        self._held = bytes(window[self._next - begin :]) if self._next < self._fed else b""

    def found(self) -> Changed | None:
        """After the last byte: what it changes; None if that is not known, or nothing."""
        self._walk(memoryview(self._held), self._fed - len(self._held), self._fed - 1)
        if self._unusual or self._next != self._fed or not self._ids:
            return None
        return Changed(self._version, frozenset(self._ids))

    def _walk(self, window: memoryview, begin: int, last: int) -> None:
        """Over every tag at or before `last`; the window's first byte is at `begin`."""
        try:
            while not self._unusual and self._next <= last:
                self._next = begin + self._step(window, self._next - begin, begin)
        except (_Unusual, IndexError):
            self._unusual = True

    def _step(self, window: memoryview, at: int, begin: int) -> int:
        """Past one field, or into prewrite_value."""
        tag = window[at]
        value, at = _varint(window, at + 1)
        if begin + at <= self._value_end:
            if tag == _VERSION:
                self._version = value
                return at
            fits = value > 1 and begin + at + value <= self._value_end
            if tag != _MUTATION or not fits or window[at] != _TABLE_ID:
                raise _Unusual
            self._ids.add(_varint(window, at + 1)[0])
            if len(self._ids) > MAX_TABLES:
                raise _Unusual
            return at + value
        if tag == _VALUE and not self._value_end:
            self._value_end = begin + at + value
            return at
        if tag == _KEY:
            return at + value
        if tag == _STATE or (tag == _JOB and not value):
            return at
        raise _Unusual


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise _Unusual
