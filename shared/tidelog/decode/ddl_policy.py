"""What happens to each kind of DDL (appendix B.11: the original's list of what is never forwarded).

A kind that nobody decided about stops the feed: skipping it could lose a table's meaning.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.drainer_control import REWRITE, SKIP, STOP, DdlOrders
from tidelog.schema.jobs import KIND_NAMES

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
    """The defaults, under what a feed's configuration says, under what its operators ordered."""

    def __init__(self, configured: Mapping[str, str]) -> None:
        known = dict.fromkeys(KIND_NAMES.values(), REWRITE)
        known |= dict.fromkeys(sorted(PLACEMENT | _SKIPPED), SKIP)
        known |= dict.fromkeys(sorted(_STOPPED), STOP)
        self._configured = known | dict(configured)
        self.obey(DdlOrders())

    def obey(self, orders: DdlOrders) -> None:
        """From now on."""
        self.orders = orders
        self._actions = self._configured | orders.policy
        self._decided = {one.job_id: one.action for one in orders.decided}

    def action(self, kind: str, job_id: int) -> str:
        """FORWARD, REWRITE, SKIP or STOP; unknown kinds stop."""
        return self._decided.get(job_id) or self._actions.get(kind, STOP)

    def reason(self, kind: str, job_id: int) -> str:
        """The name under which a skipped DDL is counted."""
        if job_id in self._decided:
            return "ddl_order"
        return "placement" if kind in PLACEMENT else "ddl_policy"
