"""The status bucket: what each node last told the registry, readable without the registry.

Nothing is decided by it: who is a source stands in the membership bucket (I3). Each entry is a
`NodeStatus` (seed 000, "Pump status definition") under a lease of its own that the server keeps. So
a node that nobody heard of is gone after STATUS_TTL_S, also when the registry is dead, too.
"""

from __future__ import annotations

import msgspec

from tidelog import subjects
from tidelog.kv import Bucket
from tidelog.messages import NodeStatus
from tidelog.ports import Bus
from tidelog.subjects import escape

STATUS_TTL_S = 12
"""Two node leases: a registry that is started again leaves no hole."""


def status_bucket(bus: Bus, cluster: str) -> Bucket:
    return Bucket(bus, subjects.status_bucket(cluster), leased=True)


def status_key(status: NodeStatus) -> str:
    return f"{status.kind}.{escape(status.nodeId)}"


async def read_statuses(bus: Bus, cluster: str) -> list[NodeStatus]:
    """Every node that was heard of lately, by kind and name. `updateTS` says when (a timestamp of
    the registry's clock); it is renewed about each 4 s.

    Raises StreamMissing (there was never a registry, or the store is lost and not yet rebuilt),
    Unavailable.
    """
    entries, _ = await status_bucket(bus, cluster).entries()
    return [msgspec.json.decode(entries[key].value, type=NodeStatus) for key in sorted(entries)]
