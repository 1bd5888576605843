"""The Applier's tree: what `python -m tidelog_applier` and the simulator run."""

from __future__ import annotations

from tidelog import node_routes
from tidelog.downstreams import open_downstream
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
from tidelog.offline import End, Offline
from tidelog.orders import read_order
from tidelog.ports import Ports
from tidelog.relay import BatchLog, RelayLog, Spool
from tidelog.supervisor import Supervisor
from tidelog_applier.apply.applier import Applier
from tidelog_applier.apply.control import options
from tidelog_applier.apply.recovery import Recovery
from tidelog_applier.apply.skipping import REFUSED_FILE
from tidelog_applier.config import SPOOL, ApplierConfig
from tidelog_applier.position import Position


def build(config: ApplierConfig, ports: Ports) -> Supervisor:
    """lease <- applier, then its place in the cluster. The safe point waits for the checkpoint."""
    tree = Supervisor("applier")
    position = Position(held=read_order(ports.disk).stops_work)
    told = JOINING
    role = Role()
    candidate = Candidate(
        f"lease.applier.{config.feed}.{config.copy}",
        APPLIER,
        config.node,
        config.cluster,
        config.feed,
        config.http_addr,
    )
    lease = tree.actor("lease", lambda: Lease(candidate, ports, role, held=position.held))
    tree.actor(
        "applier", lambda: Applier(config, ports, position, lease, role, relay_log(config, ports))
    )

    async def describe() -> Heartbeat:
        saved = position.checkpoint
        # Before the downstream was read, too: a refill must not begin above a reader to come.
        begins = config.start_ts if saved is None else saved
        # Who stands by, perhaps after it led, knows less than who leads.
        knows = saved is not None and role.leads
        consumers = [Consumer(config.copy, config.feed, begins, only_if_new=not knows)]
        status = NodeStatus(
            nodeId=config.node,
            kind=APPLIER,
            resolvedTS=position.applied,
            maxCommitTS=saved or 0,
            feed=config.feed,
            http=config.http_addr,
            detail=_detail(role, position),
            standbyOf=config.standby_of,
            counts={"txns": position.txns, "rows": position.rows},
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


def offline(config: ApplierConfig) -> Offline[ApplierConfig] | None:
    """A downstream that can't be is told before NATS is waited for. Raises ConfigError."""
    open_downstream(options(config, if_free=False))
    return recovery(config)


def recovery(config: ApplierConfig) -> Offline[ApplierConfig] | None:
    """What an Applier can do without its upstream; nothing if it keeps no relay log."""
    if not config.relay_dir:
        return None
    return Offline(0.0 if config.recover else config.recover_after_s, build_recovery)


def build_recovery(config: ApplierConfig, ports: Ports, end: End) -> Supervisor:
    """One actor, which ends by itself."""
    tree = Supervisor("applier")
    tree.actor("recovery", lambda: Recovery(config, ports, relay_log(config, ports), end))
    return tree


def relay_log(config: ApplierConfig, ports: Ports) -> BatchLog:
    """Where what was read waits to be applied."""
    if not config.relay_dir:
        return Spool(ports.disk, SPOOL)
    return RelayLog(
        ports.disk,
        config.relay_dir,
        feed=config.feed,
        cluster_id=config.cluster_id,
        max_file_bytes=config.relay.max_file_size,
    )


def _detail(role: Role, position: Position) -> dict[str, str]:
    """What stands in the way, for `tidelog status`."""
    skipped = f"{position.skipped} rows, see {REFUSED_FILE} in its data directory"
    said = {
        "standby": role.standby,
        "error": position.error,
        "skipped": skipped if position.skipped else "",
    }
    return {who: what for who, what in said.items() if what}
