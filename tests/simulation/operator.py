"""What people do to a cluster in the middle of a history's faults, and what freezes or wipes it.

Each event of the plan comes once, by the registry's own orders where it is one. What was begun is
carried to its end, in the liveness phase at the latest: an order that is not obeyed then is a
finding. `counts` says what came to its end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulation.chaos import MEMBERS_STREAM
from tests.simulation.orders import Orders
from tidelog.errors import TidelogError
from tidelog.lease import TAKEOVER_S
from tidelog.messages import OFFLINE, ONLINE, PAUSED, PAUSING, NodeStatus
from tidelog.sealed import unseal
from tidelog.sim import Node
from tidelog.sim.life import Life
from tidelog_drainer.merge.sources import SOURCES_FILE, Kept
from tidelog_registry.lease.tenure import LEASE_S
from tidelog_registry.nodes.node_state import NODE_LEASE_S, READER_LEASE_S

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

LOOK_S = 0.1
AGAIN_S = 2.0
"""An order that got no effect is given again: the registry may have been down, or lost it."""


LEASES_S = {"drainer": READER_LEASE_S, "applier": TAKEOVER_S, "registry": LEASE_S}


class Operator:
    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self._name = name
        self._world = cluster.world
        self._rng: random.Random = cluster.world.random("operator")
        self._in_hand: set[Node] = set()
        self._doing: dict[str, str] = {}
        self._orders: Orders
        self.no_more = False
        """The load is through: nothing new is begun."""
        self.gone: set[Node] = set()
        """Machines that nobody starts again, or only the event that has them in hand."""
        self.frozen: set[Node] = set()
        """Left alone by the other faults, that would end them."""
        self.counts: dict[str, int] = {}

    def status(self) -> dict[str, str]:
        """What is under way, and what it waits for."""
        return dict(self._doing)

    async def run(self) -> None:
        """Until all is done that was begun."""
        if not self._cluster.plan.events:
            return
        self._orders = Orders(self._world, self._name)
        counts = self._cluster.workload.counts
        while not (counts.started or self.no_more):
            await self._world.sleep(LOOK_S)
        async with asyncio.TaskGroup() as events:
            for event, after_s in self._cluster.plan.events:
                events.create_task(self._come(event, after_s), name=event)

    async def _come(self, event: str, after_s: float) -> None:
        await self._world.sleep(after_s)
        if self.no_more:
            return
        self._world.trace.note("operator", event)
        match event.split():
            case ["pause", "pump"]:
                done = await self._with_pump(event, self._pause, leaves=False)
            case ["pause", kind]:
                done = await self._pause(self._leading(kind))
            case ["second", "thoughts"]:
                done = await self._with_pump(event, self._think_again, leaves=True)
            case ["offline"]:
                done = await self._with_pump(event, self._take_offline, leaves=True)
            case ["offline", kind]:
                done = await self._leave(self._leading(kind))
            case ["accept", "loss"]:
                done = await self._with_pump(event, self._give_up, leaves=True)
            case ["freeze", "pump"]:
                freeze = partial(self._freeze, lease_s=NODE_LEASE_S)
                done = await self._with_pump(event, freeze, leaves=False)
            case ["freeze", kind]:
                done = await self._freeze(self._leading(kind), LEASES_S[kind])
            case ["registry", "wiped"]:
                done = await self._wipe()
            case other:
                raise LookupError(f"no such event: {other}")
        self._doing.pop(event, None)
        if done:
            self.counts[event] = self.counts.get(event, 0) + 1

    def _leading(self, kind: str) -> Node:
        cluster = self._cluster
        match kind:
            case "drainer":
                return cluster.leader
            case "applier":
                return cluster.leading(cluster.appliers)
        return cluster.registry

    # The events: each says whether it came to its end ---------------------------------------

    async def _with_pump(
        self, event: str, act: Callable[[Node], Awaitable[bool]], *, leaves: bool
    ) -> bool:
        """On a Pump that no other event has in hand, nor let go (seeds 10429, 14802: that one takes
        no orders); one that leaves is never the last."""
        while not self.no_more:
            free = [
                node
                for node in self._cluster.pumps
                if node.running and _state(node) != OFFLINE
                if node not in self._in_hand and node not in self.gone
            ]
            if len(free) > leaves:
                pump = self._rng.choice(free)
                self._in_hand.add(pump)
                done = await act(pump)
                self._in_hand.discard(pump)
                return done
            self._doing[event] = "waits for a Pump that may be taken"
            await self._world.sleep(LOOK_S)
        return False

    async def _pause(self, node: Node) -> bool:
        await self._until(node, "pause", PAUSED)
        await self._world.sleep(self._rng.random() * self._rng.choice((0.5, 6.0)))
        await self._until(node, "resume", ONLINE)
        await self._heard(node, "resume", ONLINE)
        return True

    async def _take_offline(self, pump: Node) -> bool:
        """Drained and passed by all. Then its machine is taken away, or left as it is."""
        await self._until(pump, "offline", OFFLINE)
        if self._rng.random() < 0.5:
            self._take_away(pump)
            await self._stays_out(pump)
        return True

    async def _think_again(self, pump: Node) -> bool:
        """Another order while the first one may be under way."""
        with suppress(TidelogError):
            await self._orders.operate(pump.name, "pause")
        await self._world.sleep(self._rng.random() * self._rng.choice((0.05, 1.0)))
        if self._rng.random() < 0.5:
            return await self._take_offline(pump)
        await self._until(pump, "resume", ONLINE)
        return True

    async def _leave(self, reader: Node) -> bool:
        """A Drainer or an Applier is taken out, and started again as a new one."""
        await self._until(reader, "offline", OFFLINE)
        await self._world.sleep(self._rng.random() * 3)
        reader.kill()
        reader.restart()
        return True

    async def _give_up(self, pump: Node) -> bool:
        """It dies for good in a moment when nothing on it is unread, so nothing may be missed."""
        await self._until(pump, "pause", PAUSED)
        while not self._all_read(pump):
            self._doing["accept loss"] = f"waits until {pump.name} holds nothing unread"
            await self._world.sleep(LOOK_S)
        self._take_away(pump)
        await self._until(pump, "offline", OFFLINE, accept_loss=True)
        await self._stays_out(pump)
        return True

    async def _freeze(self, node: Node, lease_s: float) -> bool:
        """No step of its process for longer than a lease; then it goes on as if nothing was."""
        while not node.running:
            await self._world.sleep(LOOK_S)
        seconds, starts = lease_s + 0.5 + self._rng.random() * 3, node.starts
        self._world.trace.note(node.name, "frozen", f"for {seconds:.1f} s")
        self._world.loop.freeze(node.name, seconds)
        self.frozen.add(node)
        await self._world.sleep(seconds)
        self.frozen.discard(node)
        return node.running and node.starts == starts

    async def _wipe(self) -> bool:
        """The registry loses the membership, bucket and copy, while a Pump is away that holds what
        was acked and not read. The Drainer knows of that Pump: else nobody could (ADR 6)."""
        while (pump := self._with_unread()) is None:
            if self.no_more:
                return False
            await self._world.sleep(LOOK_S)
        cluster, rng = self._cluster, self._rng
        self._take_away(pump)
        cluster.registry.kill(restart_after_s=rng.random() * 3)
        self._world.nats.delete(MEMBERS_STREAM)
        cluster.lose_copy()
        if rng.random() < 0.5:
            cluster.leader.kill(restart_after_s=rng.random() * 3)
        self._doing["registry wiped"] = f"{pump.name} is away"
        await self._world.sleep(NODE_LEASE_S + rng.random() * 6)
        self.gone.discard(pump)
        pump.restart()
        return True

    # What they need -------------------------------------------------------------------------

    async def _until(
        self, node: Node, action: str, state: str, *, accept_loss: bool = False
    ) -> None:
        """Give the order, again where it had no effect, until the registry shows that state. Where
        it was refused (for a full disk, say) what is shown may not last (seed 874)."""
        what = f"{action} {node.name}"
        again, taken = 0.0, False
        while True:
            try:
                if self._world.loop.time() >= again:
                    again, taken = self._world.loop.time() + AGAIN_S, False
                    await self._orders.operate(node.name, action, accept_loss=accept_loss)
                    taken = True
                found = await self._orders.of(node.name)
            except TidelogError as error:
                self._doing[what] = str(error)
            else:
                self._doing[what] = f"is {found.state}: {found.detail}" if found else "not known"
                there = found is not None and found.state == state and _ordered(found, action)
                if there and taken:
                    del self._doing[what]
                    return
            await self._world.sleep(LOOK_S)

    async def _heard(self, node: Node, action: str, state: str) -> None:
        """A Pump that is down hears of an order later. Until then it stands in the members' bucket
        and the registry's copy of that: where both were lost it is given again (seed 3081)."""
        lost = self._cluster.copies_lost
        while _state(node) != state:
            self._doing[f"{action} {node.name}"] = "has not heard of it"
            await self._world.sleep(LOOK_S)
            if lost != self._cluster.copies_lost:
                lost = self._cluster.copies_lost
                await self._until(node, action, state)
        self._doing.pop(f"{action} {node.name}", None)

    def _take_away(self, node: Node) -> None:
        self.gone.add(node)
        node.kill()

    async def _stays_out(self, pump: Node) -> None:
        """Its tombstone may be lost with the membership before the Drainer has met it, which then
        brings that Pump back: it has to be let go once more."""
        while not self.no_more or self._remembered(pump, by=any):
            await self._world.sleep(AGAIN_S)
            if self._remembered(pump, by=any):
                await self._until(pump, "offline", OFFLINE, accept_loss=True)

    def _remembered(self, pump: Node, *, by: Callable[[Iterable[bool]], bool]) -> bool:
        """Do the Drainers know of that Pump, any or all, whatever becomes of their processes?"""
        return by(pump.name in _kept(node) for node in self._cluster.all_drainers)

    def _all_read(self, pump: Node) -> bool:
        """Nothing is open there, it takes nothing new, and everybody has read what it has."""
        quiet = pump.running and _state(pump) in (PAUSING, PAUSED)
        open_, last = _held(pump)
        return quiet and not open_ and last <= self._cluster.read_ts()

    def _with_unread(self) -> Node | None:
        """A Pump whose loss of memory would show, and that the Drainer's disk tells of."""
        for pump in self._cluster.pumps:
            free = pump.running and pump not in self._in_hand
            if free and self._remembered(pump, by=all):
                open_, last = _held(pump)
                if open_ or last > self._cluster.read_ts():
                    return pump
        return None


def _ordered(found: NodeStatus, action: str) -> bool:
    """Is it so by that order? A Pump that stops is shown as paused, too. (One that left, and told
    a registry that had lost its memory so, has no order any more.)"""
    return found.order.action == action or found.state == OFFLINE


def _said(node: Node) -> Mapping[str, Mapping[str, Any]]:
    said = node.status()
    return said if isinstance(said, dict) else {}


def _kept(drainer: Node) -> Container[str]:
    disk = drainer.disk.mount(Life("operator"))
    kept = disk.read_file(SOURCES_FILE) if disk.exists(SOURCES_FILE) else b"{}"
    return unseal(kept, Kept).pumps


def _state(node: Node) -> str:
    """What the node itself takes its state for; "" while it starts."""
    return str(_said(node).get("membership", {}).get("state", ""))


def _held(pump: Node) -> tuple[int, int]:
    """Open Prewrites, and the largest commit_ts. One that starts says neither."""
    sorter = _said(pump).get("sorter", {})
    return sorter.get("open", 0), sorter.get("max_commit_ts", 0)
