"""Which page of the snapshot holds which tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.schema.folded import State

PAGE_BYTES = 128 << 10
"""A page takes new tables up to this size, packed and not yet compressed."""
PAGE_MAX_BYTES = 256 << 10
"""A page whose tables have grown beyond it gives them away."""
GROUP = 32
"""Pages of one part of the index."""


class Pages:
    """Pages are numbered from 1; numbers of empty ones are used again."""

    def __init__(self, states: Iterable[State] = ()) -> None:
        self.members: dict[int, set[int]] = {}
        self._of: dict[int, int] = {}
        self._sizes: dict[int, int] = {}
        self._open = 0
        for state in states:
            self._of[state.table.id] = state.table.page
            self.members.setdefault(state.table.page, set()).add(state.table.id)

    def copy(self) -> Pages:
        made = Pages()
        made.members = {page: set(ids) for page, ids in self.members.items()}
        made._of, made._sizes, made._open = dict(self._of), dict(self._sizes), self._open
        return made

    def sized(self, page: int, size: int) -> None:
        """A page was written, or is known to be of this size."""
        self._sizes[page] = size

    def put(self, table_id: int, size: int, taken: Iterable[int]) -> set[int]:
        """Place a table that is new or has changed. Returns the pages it came from and is in.
        `taken`: numbers that are not free even where they are empty now."""
        page = self._of.get(table_id, 0)
        if page and self._sizes.get(page, 0) + size <= PAGE_MAX_BYTES:
            return {page}
        touched = self.drop(table_id)
        if not self._open or self._sizes.get(self._open, 0) + size > PAGE_BYTES:
            self._open = self._free(taken)
        self._of[table_id] = self._open
        self.members.setdefault(self._open, set()).add(table_id)
        self._sizes[self._open] = self._sizes.get(self._open, 0) + size
        return {*touched, self._open}

    def drop(self, table_id: int) -> set[int]:
        """A table is gone. Returns the page it came from."""
        page = self._of.pop(table_id, 0)
        if not page:
            return set()
        self.members[page].discard(table_id)
        if not self.members[page]:
            del self.members[page]
            self._sizes.pop(page, None)
            if self._open == page:
                self._open = 0
        return {page}

    def page_of(self, table_id: int) -> int:
        return self._of[table_id]

    def _free(self, taken: Iterable[int]) -> int:
        used = {*taken, *self.members}
        return next(number for number in range(1, len(used) + 2) if number not in used)


def group_of(page: int) -> int:
    return (page - 1) // GROUP


def pages_of(group: int) -> range:
    return range(group * GROUP + 1, (group + 1) * GROUP + 1)
