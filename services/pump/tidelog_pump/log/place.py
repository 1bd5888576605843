"""Where a record lies in the value log."""

from __future__ import annotations

from typing import NamedTuple


class Pointer(NamedTuple):
    """A record: segment number and offset of its header."""

    fid: int
    offset: int


class Place(NamedTuple):
    """A Prewrite's record: the pointer, the payload's bytes, where its body begins in it."""

    fid: int
    offset: int
    length: int
    body: int
