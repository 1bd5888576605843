"""Which rows of a Work a downstream refuses. Pure.

A statement of a thousand rows is refused as a whole, and a row may be refused only because of the
ones before it. So beginnings of the Work are tried, each of which is rolled back: the shortest one
that is refused ends with a refused row. It is left out, and the search goes on behind it. Of tables
whose changes are written one by one nothing is left out: the downstream counts how far it got.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from tidelog.downstream import Image, RowRefused, TableShare, Work


class RefusedRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A row that is not downstream, and why: its image before (deleted) or after. It changed at
    `up_to` or some commits before: only what came of a window's changes is known."""

    db: str
    table: str
    up_to: int
    code: int
    reason: str
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    b64: tuple[str, ...] = ()


class Search:
    """Ask `next`, do what it says, say how it went (`told`), until it is None; then `refused` and
    `rest`. Raises RowRefused for a row that may not be left out."""

    def __init__(self, work: Work) -> None:
        """All of it was refused."""
        self._work = work
        self._end = sum(len(rows) for share in work.shares for _, rows in _parts(share))
        self._out: dict[int, RowRefused] = {}
        self._taken = 0
        """So many rows from the beginning, without those in `_out`, are taken."""
        self._bad = self._end
        """So many were refused; 0 = that isn't known."""
        self._asked = 0

    def next(self) -> Work | None:
        """A beginning of the Work, whose transaction is to be rolled back; `safe`, so that what it
        matches is counted once, with `rest`."""
        if self._taken >= self._end:
            return None
        if self._bad:
            half = (self._taken + self._bad) // 2
            self._asked = half if half > self._taken else self._bad
        else:
            self._asked = self._end
        return Work(_cut(self._work, self._asked, self._out), safe=True, ends=False)

    def told(self, error: RowRefused | None) -> None:
        """None: it was taken."""
        if error is None:
            self._taken = self._asked
            if self._taken >= self._bad:
                self._bad = 0  # what refused it has passed
        elif self._asked == self._bad:
            self._blame(error)
        else:
            self._bad = self._asked

    def _blame(self, error: RowRefused) -> None:
        """The beginning that ends with this row was refused again, the one before it is taken."""
        if _is_event(self._work, self._taken):
            raise error
        self._out[self._taken] = error
        self._taken, self._bad = self._bad, 0

    @property
    def rest(self) -> Work:
        """What is taken."""
        return msgspec.structs.replace(self._work, shares=_cut(self._work, self._end, self._out))

    @property
    def refused(self) -> list[RefusedRow]:
        """Those that `rest` leaves out."""
        found, at = [], 0
        for share in self._work.shares:
            for deleted, images in (
                (True, share.deletes),
                (False, share.inserts),
                (False, share.updates),
            ):
                for number, image in enumerate(images, at):
                    if number in self._out:
                        found.append(self._row(share, image, self._out[number], deleted=deleted))
                at += len(images)
            at += len(share.events)
        return found

    def _row(
        self, share: TableShare, image: Image, error: RowRefused, *, deleted: bool
    ) -> RefusedRow:
        return RefusedRow(
            share.db,
            share.structure.name,
            self._work.up_to,
            error.code,
            error.message,
            before=image.row if deleted else None,
            after=None if deleted else image.row,
            b64=tuple(image.b64),
        )


def _parts(share: TableShare) -> tuple[tuple[str, Sequence[Any]], ...]:
    """In the order in which they are written."""
    return (
        ("deletes", share.deletes),
        ("inserts", share.inserts),
        ("updates", share.updates),
        ("events", share.events),
    )


def _is_event(work: Work, number: int) -> bool:
    at = 0
    for share in work.shares:
        for name, rows in _parts(share):
            at += len(rows)
            if number < at:
                return name == "events"
    return False


def _cut(work: Work, end: int, out: Collection[int]) -> list[TableShare]:
    """The first `end` rows, without those in `out`."""
    found, at = [], 0
    for share in work.shares:
        kept: dict[str, Any] = {}
        for name, rows in _parts(share):
            kept[name] = [row for n, row in enumerate(rows, at) if n < end and n not in out]
            at += len(rows)
        if any(kept.values()):
            found.append(msgspec.structs.replace(share, **kept))
    return found
