"""Protobuf's wire format, walked over a payload of any size with a block of it in memory. Pure.

What protobuf's own parser refuses is refused here, and what it passes over is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

BLOCK = 256 << 10
_LONGEST = 20
"""Bytes of a tag and a varint behind it."""
_TAG_BYTES = 5
_VARINT_BYTES = 10
_GROUPS_MAX = 100
_NUMBER_MAX = (1 << 29) - 1
_UINT64 = (1 << 64) - 1

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
_FIXED = {FIXED64: 8, FIXED32: 4}

Field = tuple[int, int, int, int]
"""Number, wire type, a varint's value (else the offset where the field's content begins), and the
offset behind the field."""


class Malformed(Exception):
    """These bytes are no message."""


class Readable(Protocol):
    """A payload that is read piece by piece."""

    def __len__(self) -> int: ...
    def read(self, offset: int, length: int) -> bytes: ...
    def close(self) -> None: ...


class Walk:
    """One position in a payload, moving forward as a rule: it keeps the block around it."""

    def __init__(self, payload: Readable) -> None:
        self._payload = payload
        self._block = b""
        self._base = 0

    def bytes(self, start: int, end: int) -> bytes:
        """What lies at [start, end)."""
        at = start - self._base
        if at < 0 or end - self._base > len(self._block):
            if end - start > BLOCK:
                return self._payload.read(start, end - start)
            self._load(start)
            at = 0
        return self._block[at : end - self._base]

    def _load(self, start: int) -> None:
        self._block = self._payload.read(start, BLOCK)
        self._base = start

    def fields(self, at: int, end: int) -> Iterator[Field]:
        """The fields of the message at [at, end), in their order. Raises Malformed."""
        groups: list[int] = []
        while at < end:
            tag, value, start = self._head(at)
            number, kind = tag >> 3, tag & 7
            stop = start + value if kind == BYTES else start + _FIXED.get(kind, 0)
            if stop > end or kind > FIXED32 or not 0 < number <= _NUMBER_MAX:
                raise Malformed(f"a field {number} of wire type {kind} at {at}")
            if kind in (GROUP, GROUP_END):
                _step(groups, number, kind)
            elif not groups:
                yield number, kind, value if kind == VARINT else start, stop
            at = stop
        if groups:
            raise Malformed("a group without an end")

    def _head(self, at: int) -> tuple[int, int, int]:
        """The tag at `at`, the varint behind it where its wire type has one, and where what
        follows begins."""
        p = at - self._base
        block = self._block
        if p < 0 or p + _LONGEST > len(block):
            self._load(at)
            p, block = 0, self._block
        try:
            tag = block[p]
            p += 1
            if tag > 0x7F:
                tag, p = varint(block, p - 1, _TAG_BYTES)
            value = 0
            kind = tag & 7
            if kind in (VARINT, BYTES):
                value = block[p]
                p += 1
                if value > 0x7F:
                    longest = _TAG_BYTES if kind == BYTES else _VARINT_BYTES
                    value, p = varint(block, p - 1, longest)
        except IndexError as error:
            raise Malformed(f"it ends in a field at {at}") from error
        return tag, value, p + self._base

    def varints(self, at: int, end: int) -> Iterator[int]:
        """The packed varints at [at, end). Raises Malformed."""
        while at < end:
            block = self.bytes(at, min(end, at + BLOCK))
            p = 0
            try:
                while p < len(block):
                    value = block[p]
                    p += 1
                    if value > 0x7F:
                        begin = p - 1
                        try:
                            value, p = varint(block, begin, _VARINT_BYTES)
                        except IndexError:
                            if at + len(block) >= end or not begin:
                                raise
                            p = begin  # it goes on in the next block
                            break
                    yield value
            except IndexError as error:
                raise Malformed(f"it ends in a varint at {at}") from error
            at += p


def _step(groups: list[int], number: int, kind: int) -> None:
    """Into a group, or out of one."""
    if kind == GROUP and len(groups) < _GROUPS_MAX:
        groups.append(number)
    elif kind == GROUP or not groups or groups.pop() != number:
        raise Malformed(f"group {number}")


def varint(block: bytes, p: int, longest: int) -> tuple[int, int]:
    """The varint at `p`, its lowest 64 bits as protobuf has it, and the place behind it. Raises
    IndexError, Malformed."""
    begin = p
    value = shift = 0
    while True:
        byte = block[p]
        p += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if p - begin >= longest:
            raise Malformed(f"a varint of more than {longest} bytes")
    return value & _UINT64, p


def int64(value: int) -> int:
    """A varint as an int64."""
    return value - (1 << 64) if value >> 63 else value
