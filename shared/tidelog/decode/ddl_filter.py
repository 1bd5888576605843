"""What the filters leave of a DDL, and under which names readers meet it.

The schema follows every DDL, whatever is left of it here. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.decode.errors import Undecodable
from tidelog.decode.renaming import NotUnderstood, renamed
from tidelog.filter.filters import EVENT_FILTER, Filters, Verdict
from tidelog.schema.history import Affected, TableAt
from tidelog.schema.tracker import DdlOutcome

IGNORED_TXN, MERGED, SYNC_DDL = "ignored_txn", "merged", "sync_ddl"

_SCHEMA_KINDS = frozenset(("create_schema", "drop_schema", "recover_schema"))
_RENAMES = frozenset(("rename_table", "rename_tables"))
_DESTROYING = frozenset(
    (
        "drop_table",
        "truncate_table",
        "drop_view",
        "drop_sequence",
        "drop_schema",
        "truncate_partition",
        "drop_partition",
        "exchange_partition",
    )
)
"""Of one source of a merged table they would take the others' rows away too."""


def routed(table: TableAt, verdict: Verdict) -> TableAt:
    """The table as readers know it."""
    target = verdict.target
    if (target.db, target.table) == (table.db, table.name):
        return table
    return msgspec.structs.replace(table, db=target.db, name=target.table)


class DdlFilter:
    def __init__(self, filters: Filters, *, sync_ddl: bool) -> None:
        self._filters = filters
        self._sync_ddl = sync_ddl

    def left(self, commit_ts: int, outcome: DdlOutcome, query: str) -> DdlOutcome | str:
        """The DDL with the tables that are left of it, named as in the feed; or under which reason
        it is dropped. Raises Undecodable where no reader could do what it says."""
        if self._filters.ignores_txn(commit_ts):
            return IGNORED_TXN
        if outcome.db and (not outcome.affected or outcome.kind in _SCHEMA_KINDS):
            reason = self._of_schema(outcome, query)
            if reason:
                return reason
        kept: list[Affected] = []
        reasons: list[str] = []
        for one in outcome.affected:
            reason = self._of_table(commit_ts, outcome.kind, one, query)
            if reason:
                reasons.append(reason)
            else:
                kept.append(self._named(one))
        target = self._filters.table(outcome.db, "").target.db
        if reasons and not kept and outcome.kind not in _SCHEMA_KINDS:
            return reasons[0]
        if reasons and outcome.kind == "exchange_partition":
            raise self._stop(commit_ts, "exchanges rows with a table that is filtered", query)
        return msgspec.structs.replace(outcome, db=target, affected=tuple(kept))

    def text(self, commit_ts: int, outcome: DdlOutcome, left: DdlOutcome, query: str) -> str:
        """The text of what is left of `outcome`, with the names that readers know. Raises
        Undecodable where these can't be put in."""
        if outcome.kind == "rename_tables" and len(left.affected) < len(outcome.affected):
            return _rename_text(left.affected)
        if not self._filters.has_routes:
            return query
        try:
            return renamed(query, outcome.db, self._target)
        except NotUnderstood as error:
            if (left.db, left.affected) == (outcome.db, outcome.affected):
                return query
            raise Undecodable(commit_ts, error.message, hint=error.hint) from error

    def _target(self, db: str, table: str) -> tuple[str, str]:
        """The names under which readers know a table (or, without a name, a schema)."""
        found = self._filters.table(db, table).target
        return found.db, found.table

    def _of_schema(self, outcome: DdlOutcome, query: str) -> str:
        verdict = self._filters.table(outcome.db, "")
        if verdict.reason:
            return verdict.reason
        if not self._sync_ddl:
            return SYNC_DDL
        if self._filters.event_filter(outcome.db, "", outcome.kind, query):
            return EVENT_FILTER
        return MERGED if verdict.target.merged and outcome.kind in _DESTROYING else ""

    def _of_table(self, commit_ts: int, kind: str, one: Affected, query: str) -> str:
        verdicts = [
            self._filters.table(state.db, state.name)
            for state in (one.before, one.after)
            if state is not None
        ]
        first, last = verdicts[0], verdicts[-1]
        if first.reason and last.reason:
            return first.reason
        if not self._sync_ddl:
            return SYNC_DDL
        if self._ignored_event(kind, one, query):
            return EVENT_FILTER
        if first.reason:
            raise self._stop(commit_ts, "brings rows into the feed that were filtered", query)
        if kind in _DESTROYING and first.target.merged:
            return MERGED
        if kind in _RENAMES and (first.target.merged or last.target.merged):
            if (first.target.db, first.target.table) != (last.target.db, last.target.table):
                raise self._stop(commit_ts, "renames one source of a merged table", query)
            return MERGED
        return ""

    def _ignored_event(self, kind: str, one: Affected, query: str) -> bool:
        return any(
            self._filters.event_filter(state.db, state.name, kind, query)
            for state in (one.before, one.after)
            if state is not None
        )

    def _named(self, one: Affected) -> Affected:
        before, after = (
            None if state is None else routed(state, self._filters.table(state.db, state.name))
            for state in (one.before, one.after)
        )
        last = after or before
        return Affected(last.db if last is not None else one.db, before, after)

    @staticmethod
    def _stop(commit_ts: int, what: str, query: str) -> Undecodable:
        return Undecodable(
            commit_ts,
            f"its DDL {what}: {query[:200]}",
            hint="filter the new name too; or bind a binlog-filter-rule that ignores this event to"
            " the table, and fill it for the readers by other means",
        )


def _rename_text(affected: Iterable[Affected]) -> str:
    """The renames that are left, already under the feed's names."""
    steps = [
        f"{_name(one.before)} TO {_name(one.after)}"
        for one in affected
        if one.before is not None and one.after is not None
    ]
    return f"RENAME TABLE {', '.join(steps)}"


def _name(table: TableAt) -> str:
    return ".".join("`" + part.replace("`", "``") + "`" for part in (table.db, table.name))
