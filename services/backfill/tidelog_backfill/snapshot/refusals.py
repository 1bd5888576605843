"""What a backfill refuses to do, or warns of: pure checks of what was asked and found."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.errors import ConfigError, NotFound, Refused, Unavailable
from tidelog_backfill.files.names import Names
from tidelog_backfill.snapshot.plan import Asked, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.source import Found, Source

_NO_KEY = "without a primary or NOT NULL unique key"
_AHEAD_HINT = (
    "only a source read at a timestamp (TiDB, a dump) can tell which of their rows the stream"
    " brings again; leave them out by `tables`"
)
_TOLD_HINT = (
    "a chunk that is tried again comes to the feed's stream twice, and without a key nothing tells"
    " its rows from others that are equal; leave them out by `tables`"
)


def refuse_another(plan: SnapshotPlan, asked: Asked, ts: int, anew: str) -> None:
    """A job goes on with a plan of what it asks for only. `ts`: the one it names, 0 = none; `anew`:
    how the plan is forgotten. Raises Refused."""
    if plan.asked != asked or ts not in (0, plan.ts):
        wanted = f"{asked} at {ts}" if ts else str(asked)
        raise Refused(
            f"the target has a copy, or a part of one, of {plan.asked} at {plan.ts}: {wanted} is"
            " another",
            hint=f"ask for the same to go on with it; or {anew}",
        )


def refuse_unknown_moment(source: Source, ts: int) -> None:
    """A timestamp of now would pass by what was committed since files of then were made. `ts`: the
    one that the job names, or the source; 0 = neither does. Raises ConfigError."""
    if not (ts or source.is_now):
        raise ConfigError(
            f"{source.shown} does not say at which timestamp it was made",
            hint="snapshot-ts (`--snapshot`): a commit_ts from before the dump was begun",
        )


def refuse_changed(before: Sequence[CopiedTable], after: Sequence[CopiedTable]) -> None:
    """Raises Unavailable: it passes."""
    first = {table.shown: table for table in before}
    second = {table.shown: table for table in after}
    changed = [name for name in sorted(first | second) if first.get(name) != second.get(name)]
    if changed:
        raise Unavailable(
            f"DDLs of the source ran while the copy began: {', '.join(changed)}",
            hint="begin again when they are through",
        )


def refuse_unmet(patterns: Sequence[str], found: Found, source: str) -> list[str]:
    """A warning for each pattern that nothing is meant by. Raises NotFound for a name."""
    warnings = []
    for pattern in patterns:
        names = Names([pattern])
        if any(names.wants(db, name) for db, name in found.names):
            continue
        told = f"{source} has no table {pattern}"
        if not set(pattern) & set("*?["):
            raise NotFound(told, hint="look at `--tables`: nothing is copied while one is missing")
        warnings.append(told)
    return warnings


def refuse_keyless(tables: Sequence[CopiedTable]) -> None:
    """Rows that are ahead of the timestamp would be there twice in a downstream. Raises
    Refused."""
    if named := _keyless(tables):
        raise Refused(f"{_NO_KEY}: {named}", hint=_AHEAD_HINT)


def refuse_keyless_told(tables: Sequence[CopiedTable]) -> None:
    """The feed's stream has the rows of a chunk twice that was tried again, and only a key says
    which are the same. Raises Refused."""
    if named := _keyless(tables):
        raise Refused(f"{_NO_KEY}: {named}", hint=_TOLD_HINT)


def keyless_ahead(tables: Sequence[CopiedTable], ts: int) -> list[str]:
    """A warning, where the copy itself is what is wanted, and no stream need follow it."""
    named = _keyless(tables)
    what = "the copy may hold rows that the feed has after"
    return [f"{_NO_KEY}, {what} {ts}, and nothing tells which: {named}"] if named else []


def _keyless(tables: Sequence[CopiedTable]) -> str:
    return ", ".join(table.shown for table in tables if not table.structure.key_columns)


def refuse_ordered(tables: Sequence[CopiedTable]) -> None:
    """As `refuse_keyless`, of tables whose rows the downstream itself keeps from being replaced.
    Raises Refused."""
    ordered = [table.shown for table in tables if table.ordered]
    if ordered:
        named = ", ".join(ordered)
        raise Refused(
            f"triggers, foreign keys or columns of the downstream's own are in the way of {named}",
            hint=_AHEAD_HINT,
        )
