"""The Drainer's tree: what `python -m tidelog_drainer` and the simulator run."""

from __future__ import annotations

import contextlib
from typing import Any

from tidelog import node_routes
from tidelog.errors import TidelogError
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
from tidelog_drainer.collector import Collector
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.mail import AskPublished, Hold, Leave, Published
from tidelog_drainer.publisher import Publisher


def complaints(actors: dict[str, dict[str, Any]]) -> dict[str, str]:
    """What stands in the way, by who says it: for `tidelog status`."""
    publisher, collector = actors.get("publisher", {}), actors.get("collector", {})
    found = {
        "error": publisher.get("error") or collector.get("error"),
        "waiting": publisher.get("waiting") or collector.get("waiting"),
        "skipped": publisher.get("skipped"),
    }
    for node, source in collector.get("sources", {}).items():
        found[node] = source.get("error")
    return {who: str(what) for who, what in found.items() if what}


def sources(actors: dict[str, dict[str, Any]]) -> list[str]:
    """The Pumps that the merge waits for."""
    return sorted(actors.get("collector", {}).get("sources", {}))


def build(config: DrainerConfig, ports: Ports) -> Supervisor:
    """publisher <- collector (<- its cursors). A lost tail of the stream restarts both, so that
    the merge begins again at the stream's position. It registers when it can take notifications."""
    tree = Supervisor("drainer")
    told = JOINING
    held = read_order(ports.disk).stops_work
    publisher = tree.actor("publisher", lambda: Publisher(config, ports, held=held))
    collector = tree.actor("collector", lambda: Collector(config, ports, publisher))
    known = Published(0, 0)

    async def describe() -> Heartbeat:
        nonlocal known
        # Between two lives of the publisher, what it last said still holds.
        with contextlib.suppress(TidelogError):
            known = await publisher.ask(AskPublished)
        reached = {PAUSING: PAUSED, CLOSING: OFFLINE}.get(told, "") if known.quiet else ""
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
            ),
            reached=reached,
            sources=sources(said) if reads else [],
        )

    async def on_state(state: str, safe_point: int) -> None:
        """Whoever is not online publishes nothing; one that leaves reads nothing either, before it
        says that it is done: what the Pumps remember of its pulls is then forgotten."""
        nonlocal told, held
        held = state != ONLINE
        await publisher.tell(Hold(held))
        if state in (CLOSING, OFFLINE):
            await collector.ask(Leave)
        told = state

    tree.actor(
        "membership",
        lambda: Membership(
            ports, config.cluster, DRAINER, describe, on_state, cluster_id=config.cluster_id
        ),
    )
    node_routes.add(tree, ports.bus, config.cluster)
    return tree
