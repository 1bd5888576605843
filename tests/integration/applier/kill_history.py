"""What was published, table by table, and what a downstream may hold of it at a checkpoint. Pure.

Everything at or below the checkpoint is settled: it must be there. What came later may be there
or not, but only as some state that the row had since (I6); and where the checkpoint calls itself
consistent, nothing of it is.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.wrong import Wrong

Row = tuple[Any, ...]
Key = Callable[[Row], Any]
SHOWN = 5


@dataclass
class History:
    """One table's changes. `key`: of a row, as the table's collation sees it; None: the table has
    none, its rows are a multiset whose changes come in order. `gives_way`: it has other unique keys
    too, so a row that has changed since may be away: another one has replaced it on getting its
    value, and its own change is yet to come."""

    name: str
    key: Key | None
    gives_way: bool = False
    settled: Counter[Row] = field(default_factory=Counter)
    later: deque[tuple[int, Row | None, Row | None]] = field(default_factory=deque)
    """(commit_ts, before, after) above the checkpoint."""

    def add(self, commit_ts: int, before: Row | None, after: Row | None) -> None:
        self.later.append((commit_ts, before, after))

    def settle(self, checkpoint: int) -> None:
        while self.later and self.later[0][0] <= checkpoint:
            _, before, after = self.later.popleft()
            _change(self.settled, before, after)

    def check(self, found: Iterable[Row], *, exactly: bool) -> None:
        """Raises Wrong."""
        have = Counter(found)
        if have == self.settled:
            return
        if exactly:
            self._fail("other rows than at its checkpoint", self.settled, have)
        elif self.key is None:
            self._some_prefix(have)
        else:
            self._each_row_s_states(have, self.key)

    def _fail(self, what: str, wanted: Counter[Row], have: Counter[Row]) -> None:
        missing, extra = list((wanted - have).elements()), list((have - wanted).elements())
        raise Wrong(
            f"{self.name} has {what}: {len(missing)} rows are missing {missing[:SHOWN]},"
            f" {len(extra)} too much {extra[:SHOWN]}"
        )

    def _some_prefix(self, have: Counter[Row]) -> None:
        state = self.settled.copy()
        for _, before, after in self.later:
            _change(state, before, after)
            if state == have:
                return
        self._fail("rows that it had at no moment since its checkpoint", self.settled, have)

    def _each_row_s_states(self, have: Counter[Row], key: Key) -> None:
        possible: dict[Any, set[Row | None]] = {key(row): {row} for row in self.settled}
        for _, before, after in self.later:
            for row in (before, after):
                if row is not None:
                    possible.setdefault(key(row), {None})
            if before is not None and (after is None or key(before) != key(after)):
                possible[key(before)].add(None)
            if after is not None:
                possible[key(after)].add(after)
            if self.gives_way:
                for row in (before, after):
                    if row is not None:
                        possible[key(row)].add(None)
        there: dict[Any, Row] = {}
        for row, times in have.items():
            if times > 1 or key(row) in there:
                raise Wrong(f"{self.name} has {key(row)} twice")
            there[key(row)] = row
        for one in possible.keys() | there.keys():
            row = there.get(one)
            if row not in possible.get(one, {None}):
                raise Wrong(
                    f"{self.name}: {one} is {row}; since the checkpoint it was one of"
                    f" {list(possible.get(one, ()))[:SHOWN]}"
                )


def _change(state: Counter[Row], before: Row | None, after: Row | None) -> None:
    if before is not None:
        state[before] -= 1
        if not state[before]:
            del state[before]
    if after is not None:
        state[after] += 1


def check_all(
    histories: Sequence[History], tables: dict[str, list[Row]], checkpoint: int, *, exactly: bool
) -> None:
    """Raises Wrong."""
    for history in histories:
        history.settle(checkpoint)
        history.check(tables.get(history.name, []), exactly=exactly)
