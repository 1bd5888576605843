"""The Applier's tree: what `python -m tidelog_applier` and the simulator run."""

from __future__ import annotations

from tidelog import node_routes
from tidelog.lease import Candidate, Hold, Lease, Release, Role
from tidelog.membership import Membership
from tidelog.messages import (
    APPLIER,
    CLOSING,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    Consumer,
    Heartbeat,
    NodeStatus,
)
from tidelog.orders import read_order
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor
from tidelog_applier.apply.applier import Applier
from tidelog_applier.config import ApplierConfig
from tidelog_applier.position import Position


def build(config: ApplierConfig, ports: Ports) -> Supervisor:
    """lease <- applier, then its place in the cluster. The safe point waits for the checkpoint."""
    tree = Supervisor("applier")
    position = Position(held=read_order(ports.disk).stops_work)
    told = JOINING
    role = Role()
    candidate = Candidate(APPLIER, config.node, config.cluster, config.feed, config.http_addr)
    lease = tree.actor("lease", lambda: Lease(candidate, ports, role, held=position.held))
    tree.actor("applier", lambda: Applier(config, ports, position, lease))

    async def describe() -> Heartbeat:
        saved = position.checkpoint
        # Before the downstream was read, too: a refill must not begin above a reader to come.
        begins = config.start_ts if saved is None else saved
        consumers = [Consumer(config.node, config.feed, begins, only_if_new=saved is None)]
        status = NodeStatus(
            nodeId=config.node,
            kind=APPLIER,
            resolvedTS=position.applied,
            maxCommitTS=saved or 0,
            feed=config.feed,
            http=config.http_addr,
            detail=_detail(role, position),
        )
        reached = {PAUSING: PAUSED, CLOSING: OFFLINE}.get(told, "") if position.quiet else ""
        return Heartbeat(status, consumers if told != OFFLINE else [], reached=reached)

    async def on_state(state: str, safe_point: int) -> None:
        """Whoever is not online applies nothing."""
        nonlocal told
        told, position.held = state, state != ONLINE
        position.quiet = position.quiet and position.held
        await lease.tell(Hold(position.held))
        if state == OFFLINE:
            await lease.ask(Release)

    tree.actor(
        "membership",
        lambda: Membership(
            ports, config.cluster, APPLIER, describe, on_state, cluster_id=config.cluster_id
        ),
    )
    node_routes.add(tree, ports.bus, config.cluster)
    return tree


def _detail(role: Role, position: Position) -> dict[str, str]:
    """What stands in the way, for `tidelog status`."""
    said = {"standby": role.standby, "error": position.error}
    return {who: what for who, what in said.items() if what}
