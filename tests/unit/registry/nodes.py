"""Nodes that do nothing but be members: a Pump and a Drainer for the registry's tests."""

from __future__ import annotations

import asyncio

import msgspec

from tidelog import messages, subjects
from tidelog.actor import Actor, Ref
from tidelog.membership import Announce, Membership
from tidelog.messages import (
    DRAINER,
    PAUSED,
    PAUSING,
    PUMP,
    Consumer,
    Empty,
    Heartbeat,
    Nodes,
    NodeStatus,
    PumpOnline,
)
from tidelog.ports import Bus, Ports, Request
from tidelog.supervisor import Supervisor

CLUSTER = "c"


class Script(msgspec.Struct):
    """What a node tells and what it was told; the test reads and changes it between lives.
    `reached` is `paused` once it was told `pausing`, unless set."""

    kind: str
    node: str
    epoch: int = 0
    high_ts: int = 0
    max_commit_ts: int = 0
    log_ts: int = 0
    resolved_ts: int = 0
    feed: str = ""
    consumers: list[Consumer] = []
    feeds: dict[str, int] = {}
    reached: str = ""
    told: list[tuple[str, int]] = []
    added: list[str] = []
    """Drainer: the Pumps it was asked to add."""
    deaf: bool = False
    """Drainer: does not ack."""
    agent: Ref[Announce] | None = None

    def status(self) -> NodeStatus:
        return NodeStatus(
            self.node,
            kind=self.kind,
            epoch=self.epoch,
            highTS=self.high_ts,
            maxCommitTS=self.max_commit_ts,
            logTS=self.log_ts,
            resolvedTS=self.resolved_ts,
            feed=self.feed,
        )


class Listener(Actor[Empty]):
    """Serves a Drainer's `pump-online`."""

    def __init__(self, ports: Ports, script: Script) -> None:
        self._ports = ports
        self._script = script

    async def on_start(self) -> None:
        self.spawn(self._serve(), "serve")

    async def _serve(self) -> None:
        subject = subjects.drainer(CLUSTER, self._script.node, "pump-online")
        subscription = await self._ports.bus.serve(subject, self._online)
        try:
            await asyncio.Event().wait()
        finally:
            await subscription.close()

    async def _online(self, request: Request) -> None:
        node = messages.decode(request.data, PumpOnline).node
        if not self._script.deaf:
            self._script.added.append(node)
            request.respond(messages.encode(Empty()))


def build(script: Script, ports: Ports) -> Supervisor:
    """A service's `build`: takes the script for its config."""
    script.epoch += 1

    async def describe() -> Heartbeat:
        paused = PAUSED if script.told and script.told[-1][0] == PAUSING else ""
        reached = script.reached or paused
        feeds = dict(script.feeds)
        return Heartbeat(script.status(), list(script.consumers), feeds, reached)

    async def on_state(state: str, safe_point: int) -> None:
        script.told.append((state, safe_point))

    tree = Supervisor(script.node)
    if script.kind == DRAINER:
        tree.actor("listener", lambda: Listener(ports, script))
    script.agent = tree.actor(
        "membership",
        lambda: Membership(ports, CLUSTER, script.kind, describe, on_state, cluster_id=0),
    )
    return tree


def pump(node: str, *, high_ts: int = 0, log_ts: int = 0) -> Script:
    fresh = Script(PUMP, node, told=[], added=[], consumers=[], feeds={})
    return msgspec.structs.replace(fresh, high_ts=high_ts, log_ts=log_ts)


def drainer(node: str, feed: str = "f") -> Script:
    return Script(DRAINER, node, feed=feed, told=[], added=[], consumers=[], feeds={})


async def nodes(bus: Bus) -> Nodes:
    answer = await bus.request(subjects.registry(CLUSTER, "nodes"), b"{}", timeout_s=2.0)
    return messages.decode_reply(answer.data, Nodes)
