"""The Drainer's tree: what `python -m tidelog_drainer` and the simulator run."""

from __future__ import annotations

import contextlib
from typing import Any

from tidelog import node_routes
from tidelog.errors import TidelogError
from tidelog.membership import Membership
from tidelog.messages import DRAINER, Heartbeat, NodeStatus
from tidelog.ports import Ports
from tidelog.supervisor import Supervisor
from tidelog_drainer.collector import Collector
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.mail import AskPublished, Published
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


def build(config: DrainerConfig, ports: Ports) -> Supervisor:
    """publisher <- collector (<- its cursors). A lost tail of the stream restarts both, so that
    the merge begins again at the stream's position. It registers when it can take notifications."""
    tree = Supervisor("drainer")
    publisher = tree.actor("publisher", lambda: Publisher(config, ports))
    tree.actor("collector", lambda: Collector(config, ports, publisher))
    known = Published(0, 0)

    async def describe() -> Heartbeat:
        nonlocal known
        # Between two lives of the publisher, what it last said still holds.
        with contextlib.suppress(TidelogError):
            known = await publisher.ask(AskPublished)
        return Heartbeat(
            NodeStatus(
                nodeId=config.node,
                kind=DRAINER,
                epoch=known.epoch,
                resolvedTS=known.commit_ts,
                maxCommitTS=known.commit_ts,
                feed=config.feed,
                detail=complaints(tree.status()) | ({"error": known.error} if known.error else {}),
            )
        )

    async def on_state(state: str, safe_point: int) -> None:
        """A Drainer is never told what to do by its state yet."""

    tree.actor(
        "membership",
        lambda: Membership(
            ports, config.cluster, DRAINER, describe, on_state, cluster_id=config.cluster_id
        ),
    )
    node_routes.add(tree, ports.bus, config.cluster)
    return tree
