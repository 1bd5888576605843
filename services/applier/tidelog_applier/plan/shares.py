"""A table's events as what a lane writes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.changes import Event
from tidelog.downstream import TableRule, TableShare
from tidelog.schema.structure import TableStructure
from tidelog_applier.plan.fold import fold


def share(
    db: str, structure: TableStructure, rule: TableRule, events: Sequence[Event], *, safe: bool
) -> TableShare:
    """All of them for one lane: folded, or in order where the rule wants that. `safe`: some may
    have been applied before."""
    if rule.ordered:
        return TableShare(db, structure, events=list(events))
    net = fold(events, structure.key_columns, safe=safe)
    return TableShare(db, structure, net.deletes, net.inserts, net.updates)
