"""What happens to each kind of DDL (appendix B.11: the original's list of what is never forwarded).

A kind that nobody decided about stops the feed: skipping it could lose a table's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.schema.jobs import KIND_NAMES

FORWARD, SKIP, STOP = "forward", "skip", "stop"

PLACEMENT = frozenset(
    (
        "create_placement_policy",
        "alter_placement_policy",
        "drop_placement_policy",
        "alter_partition_placement",
        "modify_schema_placement",
        "alter_table_placement",
    )
)
"""Where replicas lie is the upstream cluster's own affair."""

_SKIPPED = frozenset(
    (
        "lock_table",
        "unlock_table",
        "update_tiflash_replica_status",
        "alter_table_attributes",
        "alter_partition_attributes",
        "cache_table",
        "nocache_table",
        "create_resource_group",
        "alter_resource_group",
        "drop_resource_group",
        "alter_stats_options",
    )
)

_STOPPED = frozenset(("flashback_cluster",))
"""It rewrites history under the stream: only an operator can say how to go on."""


class DdlPolicy:
    """The defaults, with a feed's own decisions over them."""

    def __init__(self, overrides: Mapping[str, str]) -> None:
        known = dict.fromkeys(KIND_NAMES.values(), FORWARD)
        known |= dict.fromkeys(sorted(PLACEMENT | _SKIPPED), SKIP)
        known |= dict.fromkeys(sorted(_STOPPED), STOP)
        self._actions = known | dict(overrides)

    def action(self, kind: str) -> str:
        """FORWARD, SKIP or STOP; unknown kinds stop."""
        return self._actions.get(kind, STOP)

    def reason(self, kind: str) -> str:
        """The name under which a skipped DDL is counted."""
        return "placement" if kind in PLACEMENT else "ddl_policy"
