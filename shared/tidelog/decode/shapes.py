"""What readers find under a key of `SCHEMAS_<FEED>`: tables that routes merge may meet there."""

from __future__ import annotations

from collections import OrderedDict

from tidelog.changes import structure_key
from tidelog.decode.config import DecodeConfig
from tidelog.decode.errors import Undecodable
from tidelog.schema.structure import TableStructure

KEYS_MAX = 1 << 16
"""Keys remembered, those met last."""


class Shapes:
    """By key how rows under it are read. One DDL job may change several sources of a merged table:
    they have one name and one schema version then, and only one structure is kept."""

    def __init__(self, config: DecodeConfig) -> None:
        self.idle = not config.table_migrate_rule
        """No table has another one's name."""
        self._known: OrderedDict[str, int] = OrderedDict()

    def check(self, commit_ts: int, db: str, shape: TableStructure) -> None:
        """Raises Undecodable for rows that readers would take for others. Not asked while idle."""
        key, read_by = structure_key(db, shape), hash((shape.columns, shape.key_columns))
        if self._known.setdefault(key, read_by) != read_by:
            raise Undecodable(
                commit_ts,
                f"one DDL job changed two tables that routes merge as {db}.{shape.name}, and their"
                f" columns or keys differ: {key} can't be both",
                hint="give them targets of their own, or filter one of them",
            )
        self._known.move_to_end(key)
        if len(self._known) > KEYS_MAX:
            self._known.popitem(last=False)
