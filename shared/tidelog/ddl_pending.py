"""What a downstream's checkpoint says of a DDL that was begun there (docs/adr/0016)."""

from __future__ import annotations

import msgspec

DONE, AGAIN = "done", "again"
"""An operator's word on a step of which nobody can tell whether it happened, or that was refused:
it counts as done; it is run, on what is there now."""


class TableFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the DDL was planned with about a table, where there is anything to say."""

    db: str
    name: str
    partitions: tuple[str, ...] = ()
    """By name; () = not partitioned downstream."""
    referenced: bool = False
    """A foreign key of another table points to it."""
    own: bool = False
    """It has columns, indexes or triggers that the upstream's has not. Asked for a TRUNCATE."""


class DdlFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the DDL was planned with, so that it is planned the same way after a restart, when its
    own steps, an operator or a new configuration may have changed what there is to see."""

    keep_dropped: bool = False
    tables: tuple[TableFacts, ...] = ()


class DdlPending(msgspec.Struct, frozen=True):
    """A DDL that was begun, and its next step. `before`: the definitions of that step's tables from
    before it ("" = there was none); empty for a step that may run twice."""

    commit_ts: int
    step: int = 0
    before: tuple[str, ...] = ()
    facts: DdlFacts = DdlFacts()
    decision: str = ""
