"""The faults of a history's safety phase, drawn from its seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from tests.simulation.hardware import Hardware
from tidelog import subjects
from tidelog.sim import Node, World
from tidelog.sim.faults import Injected
from tidelog.sim.nats import settle
from tidelog_registry.nodes.node_state import NODE_LEASE_S, READER_LEASE_S

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster


BY_CHANCE = (
    Injected.LOST,
    Injected.DUPLICATED,
    Injected.UNKNOWN,
    Injected.LATE,
    Injected.REFUSED,
    Injected.BROKEN_COMMIT,
)
HALF_FILLED_S = 3.0
MEMBERS_STREAM = "KV_" + subjects.members_bucket("default")
STATUS_STREAM = "KV_" + subjects.status_bucket("default")


class Chaos:
    """One action after the other, `plan.pause_s` apart on average, until `heal`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._world: World = cluster.world
        self._plan = cluster.plan
        self._rng: random.Random = cluster.world.random("chaos")
        self._hardware = Hardware(cluster, self._rng)
        self._partitioned: list[Node] = []
        self.counts: dict[str, int] = {}

    @property
    def faults(self) -> int:
        """All that went wrong on purpose: actions, and what is drawn for each message or call. What
        an action leads to is not counted again, and what is only slow is not counted."""
        injected = self._world.trace.injected
        return sum(self.counts.values()) + sum(injected[fault] for fault in BY_CHANCE)

    async def run(self) -> None:
        actions = [name for name, weight in self._plan.faults.items() for _ in range(weight)]
        if not actions:
            return
        counts = self._cluster.workload.counts
        while not (self._plan.from_the_start or counts.started):
            await self._world.sleep(0.1)
        while True:
            await self._world.sleep(self._rng.random() * 2 * self._plan.pause_s)
            action = self._rng.choice(actions)
            self._world.trace.note("chaos", action)
            if await self._do(action):
                self.counts[action] = self.counts.get(action, 0) + 1

    async def join_late(self) -> None:
        """Pumps that come in mid-run, in a part of the histories while the Drainer is away for
        longer than its lease: then only source 0 tells it of them."""
        counts = self._cluster.workload.counts
        while not counts.started:
            await self._world.sleep(0.05)
        waited = 0.0
        late = sorted(zip(self._plan.late_s, self._cluster.late, strict=True), key=_first)
        for at, (after_s, pump) in enumerate(late):
            await self._world.sleep(after_s - waited)
            waited = after_s
            if at == 0 and self._plan.away:
                self._send_away()
            self._cluster.start_pump(pump)

    def _send_away(self) -> None:
        drainer, seconds = self._cluster.leader, READER_LEASE_S + self._rng.random() * 3
        self.counts["drainer away"] = 1
        if self._plan.away == "cut":
            self._cut(drainer, seconds)
        elif drainer.running:
            drainer.kill(restart_after_s=seconds)

    async def _do(self, action: str) -> bool:
        match action.split():
            case ["kill", kind]:
                node = self._victim(kind)
                if node is None:
                    return False
                node.kill(restart_after_s=self._rng.random() * self._rng.choice((0.2, 3.0)))
            case ["stop", kind]:
                node = self._victim(kind)
                if node is None:
                    return False
                node.restart_gracefully(self._rng.random())
            case ["partition"]:
                self._cut(self._rng.choice(self._cluster.services), self._rng.random() * 4)
            case ["server", "restart"]:
                await self._server_down(self._rng.random() * 2)
            case ["store", "deleted"]:
                await self._server_down(self._rng.random(), delete=True)
            case ["store", "rolled", "back"]:
                await self._roll_back()
            case ["membership", "lost"]:
                await self._lose_membership()
            case ["status", "lost"]:
                await self._lose_status()
            case ["stream", "full"]:
                self._fill_streams()
            case _ if not self._hardware.wear(action):
                raise LookupError(f"no such fault: {action}")
        return True

    def _victim(self, kind: str) -> Node | None:
        frozen = self._cluster.operator.frozen
        nodes = [n for n in self._cluster.of_kind(kind) if n.running and n not in frozen]
        return self._rng.choice(nodes) if nodes else None

    def cut(self, node: Node) -> None:
        """Off from everybody, until `heal` at the latest."""
        node.partition(cut=True)
        self._partitioned.append(node)

    def _cut(self, node: Node, seconds: float) -> None:
        self.cut(node)
        self._world.loop.call_later(seconds, node.partition, False)

    def _fill_streams(self) -> None:
        """The server has no room for a while, for one feed's changes or for anything."""
        streams, name = self._world.nats.streams, subjects.changes_stream(self._cluster.feed)
        chosen = streams.values() if self._rng.random() < 0.5 else [streams.get(name)]
        after_s = self._rng.random() * 3
        for stream in filter(None, list(chosen)):
            stream.full = True
            self._world.loop.call_later(after_s, setattr, stream, "full", False)

    async def _server_down(self, seconds: float, *, delete: bool = False) -> None:
        nats = self._world.nats
        nats.stop()
        if delete:
            nats.delete_store()
        await self._world.sleep(seconds)
        nats.start()

    async def _roll_back(self) -> None:
        nats = self._world.nats
        copy = nats.copy_store()
        await self._world.sleep(self._rng.random() * 2)
        nats.stop()
        nats.roll_back(copy)
        await self._world.sleep(self._rng.random())
        nats.start()

    async def _lose_membership(self) -> None:
        """The bucket is lost while a Pump is away for longer than a lease, so that it can't tell of
        itself, and the Drainer, perhaps the registry too, begins anew (seed 71's loss); or the
        registry's copy of it goes, too (seed 289's)."""
        cluster, rng = self._cluster, self._rng
        pump = self._victim("pump")
        if pump is not None:
            pump.kill(restart_after_s=NODE_LEASE_S + rng.random() * 8)
        before = rng.random() < 0.5
        if before:
            cluster.leader.kill(restart_after_s=rng.random() * 2)
        await self._world.sleep(rng.random())
        self._world.nats.delete(MEMBERS_STREAM)
        if rng.random() < 0.5:
            await self._half_filled()
            if rng.random() < 0.5:
                cluster.lose_copy()
            cluster.registry.kill(restart_after_s=NODE_LEASE_S + rng.random() * 4)
        if not before:
            cluster.leader.kill(restart_after_s=rng.random() * 2)

    async def _lose_status(self) -> None:
        """The status bucket alone is deleted, or older than it was."""
        nats, older = self._world.nats, self._world.nats.copy_store().get(STATUS_STREAM)
        if older is None or self._rng.random() < 0.5:
            nats.delete(STATUS_STREAM)
        else:
            await self._world.sleep(self._rng.random() * 5)
            nats.roll_back({**nats.streams, STATUS_STREAM: older})

    async def _half_filled(self) -> None:
        """Until the registry has made the bucket anew and written its first entry."""
        nats, loop = self._world.nats, self._world.loop
        deadline = loop.time() + HALF_FILLED_S
        while loop.time() < deadline:
            stream = nats.streams.get(MEMBERS_STREAM)
            if stream is not None and stream.messages:
                return
            changed = nats.watch(MEMBERS_STREAM)
            timer = loop.call_at(deadline, settle, changed)
            await changed
            timer.cancel()

    def heal(self) -> None:
        """Nothing goes wrong any more; everybody is up again."""
        world = self._world
        world.trace.note("chaos", "heals everything")
        world.net.heal()
        self._cluster.database.faults.heal()
        if not world.nats.up:
            world.nats.start()
        for node in self._partitioned:
            node.partition(cut=False)
        for stream in world.nats.streams.values():
            stream.full = False
        self._hardware.heal()
        for node in self._cluster.services:
            if node in self._cluster.operator.gone:
                continue
            if node.starts:
                node.restart()
            else:
                self._cluster.start_pump(node)


def _first(pair: tuple[float, Node]) -> float:
    return pair[0]
