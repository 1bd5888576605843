"""Which schema version the feed's readers know of each table, and what was dropped on the way."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidelog.schema.tracker import DdlOutcome


class Passed:
    """What the stream has passed so far, as far as decoding asks."""

    def __init__(self) -> None:
        self.dropped: dict[str, int] = {}
        """Transactions, DDLs, mutations, and of an event filter rows, dropped by reason (I7)."""
        self.base_version = 0
        """What readers know of every table that no DDL above it has touched."""
        self.early: set[int] = set()
        """Schema versions published early whose own binlogs are still to come."""
        self.highest = 0
        """Of the DDLs that were passed."""
        self.behind: set[int] = set()
        """Schema versions below it whose DDLs were not: binlogs come in another order."""
        self.unknown: set[int] = set()
        """The newest of those below it that the history has not told of: if they are jobs at all,
        they were not passed either."""
        self.told_at: dict[int, int] = {}
        """By the schema version of a Writer's job, told before its binlog, the commit_ts at which
        it was passed: that may not be published yet."""
        self._known: dict[int, int] = {}

    def begin(
        self,
        version: int,
        early: Iterable[int],
        behind: Mapping[int, Collection[int]],
        unknown: Iterable[int] = (),
    ) -> None:
        """Readers know the schema `version`, and the DDLs of the versions in `early`, but not those
        of the lower versions in `behind`, by which tables were touched."""
        self.base_version = self.highest = version
        self.early, self.behind, self.unknown = set(early), set(behind), set(unknown)
        self._known = {
            table_id: one - 1 for one in sorted(behind, reverse=True) for table_id in behind[one]
        }

    @property
    def remembered(self) -> int:
        """Tables of which a version is remembered."""
        return len(self._known)

    def version_of(self, table_id: int) -> int:
        """The newest schema version by which readers know this table."""
        return self._known.get(table_id, self.base_version)

    def note(self, outcome: DdlOutcome, between: Iterable[int]) -> None:
        """Readers know these tables by this version now, if not by a newer one. `between`: versions
        of other DDLs above the highest that was passed, and below this one."""
        self.behind.discard(outcome.schema_version)
        if outcome.schema_version > self.highest:
            self.behind.update(between)
            self.highest = outcome.schema_version
        for one in outcome.affected:
            for state in (one.before, one.after):
                if state is not None:
                    table_id = state.info.id
                    self._known[table_id] = max(self.version_of(table_id), outcome.schema_version)

    def leave(self, version: int, touched: Iterable[int]) -> None:
        """The history tells of an unknown version now: its DDL, which touched these tables, is
        behind."""
        self.behind.add(version)
        for table_id in touched:
            self._known.setdefault(table_id, min(self.base_version, version - 1))

    def unpublished(self, published_ts: int) -> set[int]:
        """Schema versions whose binlogs whoever begins anew at that position has not passed, of
        early DDLs, too; what is published by then is forgotten."""
        self.told_at = {one: ts for one, ts in self.told_at.items() if ts > published_ts}
        return self.behind | self.early | self.told_at.keys()

    def settle(self, version: int) -> None:
        """Every DDL up to this schema version was passed, and none of them is asked for again. One
        whose own binlog never came (CACHE) isn't waited for any longer."""
        self.early = {one for one in self.early if one > version}
        self.behind = {one for one in self.behind if one > version}
        self.unknown = {one for one in self.unknown if one > version}
        self.base_version = max(self.base_version, version)
        self._known = {one: known for one, known in self._known.items() if known > version}

    def drop(self, reason: str, count: int = 1) -> None:
        """Count something that is not published (I7)."""
        if count:
            self.dropped[reason] = self.dropped.get(reason, 0) + count
