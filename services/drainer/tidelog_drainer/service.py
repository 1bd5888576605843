"""The Drainer's tree: what `python -m tidelog_drainer` and the simulator run."""

from __future__ import annotations

import contextlib
from typing import Any

from tidelog import node_routes
from tidelog.ddl_history import with_ddl_history
from tidelog.errors import ConfigError, TidelogError
from tidelog.lease import Candidate, Hold, Lease, Release, Role
from tidelog.membership import Membership
from tidelog.messages import (
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    Heartbeat,
    NodeStatus,
)
from tidelog.orders import read_order
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor
from tidelog.upstream.cluster import TidbCluster, TidbClusterKeeper
from tidelog_drainer.config import PD, DrainerConfig
from tidelog_drainer.mail import AskPublished, Leave, Published
from tidelog_drainer.merge.collector import AT_PUMP, Collector
from tidelog_drainer.publish.beginning import refuse_foreign
from tidelog_drainer.publish.publisher import Publisher
from tidelog_drainer.rewind.rewinder import Rewinder


def complaints(actors: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What stands in the way, by who says it: for `tidelog status`."""
    publisher, collector = actors.get("publisher", {}), actors.get("collector", {})
    lease = actors.get("lease", {})
    found = {
        "error": publisher.get("error") or collector.get("error"),
        "standby": lease.get("standby"),
        "waiting": lease.get("waiting") or publisher.get("waiting") or collector.get("waiting"),
        "skipped": publisher.get("skipped"),
    }
    for node, source in collector.get("sources", {}).items():
        if error := source.get("error"):
            held = "the merge waits for it, in vain" if source.get("holds_merge") else "no answer"
            found[node] = f"{held} since {source.get('since')}: {error}"
    return {who: str(what) for who, what in found.items() if what}


def counts(actors: dict[str, dict[str, Any]]) -> dict[str, int]:
    """What was published and what was left out, since the publisher and the merge began."""
    publisher, collector = actors.get("publisher", {}), actors.get("collector", {})
    found = {name: publisher.get(name, 0) for name in ("txns", "rows")}
    found["duplicates"] = collector.get("duplicates", 0)
    left_out = publisher.get("dropped", {}) | {AT_PUMP: collector.get("left_out_at_pumps", 0)}
    return found | {f"dropped.{why}": count for why, count in left_out.items() if count}


def sources(actors: dict[str, dict[str, Any]]) -> list[str]:
    """The Pumps that the merge waits for, or would."""
    collector = actors.get("collector", {})
    return sorted(collector.get("sources", collector.get("known", [])))


def build(config: DrainerConfig, ports: Ports) -> Supervisor:
    """lease <- publisher <- collector (<- its cursors). A lost tail of the stream restarts the
    latter two, so that the merge begins again at the stream's position; a lost lease all, on
    stand-by. It registers when it can take notifications. Raises ConfigError, ForeignDirectory."""
    if config.is_replay:
        raise ConfigError(f"feed {config.feed!r} is a reader's replay", hint="name the feed itself")
    refuse_foreign(config, ports)
    tree = Supervisor("drainer")
    if config.ddl_history == PD:
        tidb = TidbCluster(config.upstream, ports, config.cluster_id)
        tree.actor("upstream", lambda: TidbClusterKeeper(tidb))
        ports = with_ddl_history(ports, tidb.history)
    told = JOINING
    held = read_order(ports.disk).stops_work
    role = Role()
    candidate = Candidate(
        f"lease.{config.feed}",
        DRAINER,
        config.node,
        config.cluster,
        config.feed,
        config.http_addr,
    )
    lease = tree.actor("lease", lambda: Lease(candidate, ports, role, held=held))
    publisher = tree.actor("publisher", lambda: Publisher(config, ports, lease, role, held=held))
    collector = tree.actor("collector", lambda: Collector(config, ports, publisher))
    rewinder = tree.actor(
        "rewinder", lambda: Rewinder(config, ports, lease, role, publisher, held=held)
    )
    known = Published(0, 0)

    async def describe() -> Heartbeat:
        nonlocal known
        # Between two lives of the publisher, what it last said still holds.
        with contextlib.suppress(TidelogError):
            known = await publisher.ask(AskPublished)
        # Paused is who publishes nothing, and whom nobody replaces meanwhile.
        quiet = known.quiet and (told != PAUSING or role.paused or not role.leads)
        reached = {PAUSING: PAUSED, CLOSING: OFFLINE}.get(told, "") if quiet else ""
        said = tree.status()
        reads = told not in (CLOSING, OFFLINE)
        return Heartbeat(
            NodeStatus(
                nodeId=config.node,
                kind=DRAINER,
                epoch=known.epoch,
                resolvedTS=known.commit_ts,
                maxCommitTS=known.commit_ts,
                feed=config.feed,
                http=config.http_addr,
                detail=complaints(said) | ({"error": known.error} if known.error else {}),
                counts=counts(said),
            ),
            reached=reached,
            sources=sources(said) if reads else [],
        )

    async def on_state(state: str, safe_point: int) -> None:
        """Whoever is not online publishes nothing; one that leaves reads nothing either, before it
        says that it is done: what the Pumps remember of its pulls is then forgotten."""
        nonlocal told, held
        held = state != ONLINE
        await lease.tell(Hold(held))
        await publisher.tell(Hold(held))
        await rewinder.tell(Hold(held))
        if state in (CLOSING, OFFLINE):
            await collector.ask(Leave)
        if state == OFFLINE:
            await lease.ask(Release)
        told = state

    tree.actor(
        "membership",
        lambda: Membership(
            ports, config.cluster, DRAINER, describe, on_state, cluster_id=config.cluster_id
        ),
    )
    node_routes.add(tree, ports.bus, config.cluster)
    return tree
