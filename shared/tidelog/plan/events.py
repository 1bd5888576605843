"""A window's events by table, in upstream order."""

from __future__ import annotations

import msgspec

from tidelog.changes import Event
from tidelog.downstream import TableRule
from tidelog.schema.structure import TableStructure


class TableEvents(msgspec.Struct, frozen=True, gc=False):
    """All of one table at one version."""

    db: str
    structure: TableStructure
    rule: TableRule
    events: list[Event]
