"""A reader of the change stream as an application writes one, and the checker behind it.

It is registered as a consumer, so the Pumps keep what it has not read. Its position is durable:
the checker's, which outlives the process.
"""

from __future__ import annotations

from tidelog.actor import Actor
from tidelog.change_reader import ChangeReader, Gap
from tidelog.config import ServiceConfig
from tidelog.membership import Membership
from tidelog.messages import APPLIER, Consumer, Heartbeat, NodeStatus
from tidelog.ports import Ports
from tidelog.sim.checker import StreamChecker
from tidelog.supervisor import Supervisor


class AuditorConfig(ServiceConfig, frozen=True, kw_only=True):
    feed: str


class Auditor(Actor[None]):
    def __init__(self, config: AuditorConfig, ports: Ports, checker: StreamChecker) -> None:
        self._reader = ChangeReader(ports.bus, config.feed, checker.position)
        self._checker = checker

    async def on_start(self) -> None:
        self.spawn(self._read(), "read")

    async def _read(self) -> None:
        while True:
            try:
                changes = await self._reader.next()
            except Gap as gap:
                # A registered consumer never has to ask for a refill: the Drainer begins below it.
                self._checker.findings.gaps.append(str(gap))
                raise
            for change in changes:
                self._checker.take(change)


def build_auditor(config: AuditorConfig, ports: Ports, checker: StreamChecker) -> Supervisor:
    tree = Supervisor("auditor")
    tree.actor("auditor", lambda: Auditor(config, ports, checker))

    async def describe() -> Heartbeat:
        name = config.node_id
        return Heartbeat(
            NodeStatus(
                nodeId=name,
                kind=APPLIER,
                resolvedTS=checker.position,
                feed=config.feed,
            ),
            [Consumer(name, config.feed, checker.position)],
        )

    async def on_state(state: str, safe_point: int) -> None:
        """Nothing to do: it only reads."""

    tree.actor(
        "membership",
        lambda: Membership(
            ports, config.cluster, APPLIER, describe, on_state, cluster_id=config.cluster_id
        ),
    )
    return tree
