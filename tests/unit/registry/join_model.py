"""A model of I3 and I4 around the real `Cluster`: Pumps write, Drainers emit, everything that
travels arrives in any order, the registry and the bucket are lost at any step.

`Broken` is raised when a Drainer has emitted past a transaction that it did not receive.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from tidelog.errors import TidelogError
from tidelog.membership import Member
from tidelog.messages import DRAINER, JOINING, OFFLINE, ONLINE, NodeStatus
from tidelog_registry.nodes.cluster import Cluster
from tidelog_registry.nodes.effects import Effect, Joined, Notify, Write
from tidelog_registry.nodes.node_state import NODE_LEASE_S

HEARTBEAT_S = 2.0
REGISTER_S = 4.0


class Broken(AssertionError):
    pass


class Pump:
    def __init__(self, name: str) -> None:
        self.name = name
        self.state = OFFLINE
        self.registering = False
        self.alive = True
        self.heard_at = 0.0
        self.high_ts = 0
        self.open: list[int] = []
        self.commits: list[int] = []

    def resolved(self) -> int:
        return min([self.high_ts, *self.open])

    def status(self, *, alive: bool = True) -> NodeStatus:
        return NodeStatus(
            self.name,
            state=self.state,
            isAlive=alive,
            highTS=self.high_ts,
            maxCommitTS=max(self.commits, default=0),
        )


class Drainer:
    def __init__(self, name: str) -> None:
        self.name = name
        self.sources: dict[str, int] = {}
        self.emitted = 0
        self.seen = (0, -1)
        self.distrust_until = 0.0
        self.pending = 0
        self.heard_at = 0.0
        self.silent = False

    def status(self) -> NodeStatus:
        return NodeStatus(self.name, kind=DRAINER, state=ONLINE, isAlive=True, feed="f")


class Model:
    """`source_0` and `notify` switch the two guards off, to see that the model finds the loss."""

    def __init__(self, seed: int, *, source_0: bool = True, notify: bool = True) -> None:
        self.rng = random.Random(seed)
        self.source_0, self.notify = source_0, notify
        self.now = 100.0
        self.ts = 0
        self.created, self.born, self.sequence = 1, 0.0, 0
        self.bucket: dict[str, Member] = {}
        self.memory: dict[str, Member] = {}
        self.noticed = 1
        self.pumps = [Pump(f"p{i}") for i in range(4)]
        self.drainers = [Drainer("d0"), Drainer("d1")]
        self.cluster = Cluster({}, self.now, fresh=True, lost=False)
        self.writes: list[Member] = []
        self.travelling: list[Callable[[], None]] = []
        self.emissions = 0
        self.last_memory = False
        self.settling_until = 0.0

    def run(self, steps: int) -> None:
        calm = [
            *[self.tick] * 6,
            *[self.register] * 2,
            *[self.write_next] * 4,
            *[self.arrive] * 5,
            *[self.transact] * 4,
            *[self.receive] * 5,
            *[self.emit] * 5,
            self.revive,
        ]
        faults = [
            self.crash_registry,
            self.crash_drainer,
            self.crash_pump,
            self.silence_drainer,
            self.lose_bucket,
        ]
        chosen = self.rng.sample(faults, self.rng.randrange(1, len(faults) + 1))
        unrest = self.rng.choice([0.003, 0.01, 0.03])
        for _ in range(steps):
            self.rng.choice(chosen if self.rng.random() < unrest else calm)()

    # The registry -------------------------------------------------------------------------

    def effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(member):
                    self.writes.append(member)
                case Notify(drainer, pump):
                    self.travelling.append(partial(self.notified, drainer, pump))
                case Joined(pump, state):
                    self.travelling.append(partial(self.told, pump, state))

    def notified(self, drainer: str, pump: str) -> None:
        found = next(d for d in self.drainers if d.name == drainer)
        if found.silent:
            if self.cluster.joins.awaits(drainer, pump):
                self.travelling.append(lambda: self.notified(drainer, pump))
            return
        if self.notify:
            found.sources.setdefault(pump, found.emitted)
        self.travelling.append(partial(self.acked, self.cluster, drainer, pump))

    def acked(self, asked_by: Cluster, drainer: str, pump: str) -> None:
        if asked_by is self.cluster:
            self.effects(self.cluster.joins.acked(drainer, pump, self.now))

    def told(self, pump: str, state: str) -> None:
        found = next(p for p in self.pumps if p.name == pump)
        if found.alive and found.registering:
            found.registering, found.state = False, state

    def write_next(self) -> None:
        """The next membership write becomes durable, if the bucket is the one we know."""
        if not self.writes or self.noticed != self.created:
            return
        member = self.writes.pop(0)
        self.memory[member.node] = member
        if self.bucket.get(member.node) != member:
            self.bucket[member.node] = member
            self.sequence += 1
        self.effects(self.cluster.joins.recorded(member, self.now))

    def arrive(self) -> None:
        if self.travelling:
            self.travelling.pop(self.rng.randrange(len(self.travelling)))()

    def tick(self) -> None:
        self.now += self.rng.random() * 0.5
        if self.noticed != self.created:
            # The registry looks once a second; it fills the bucket from its memory.
            self.noticed = self.created
            self.cluster.lost(self.now)
            self.settling_until = self.now + NODE_LEASE_S
            for node, member in self.memory.items():
                if node not in self.bucket:
                    self.bucket[node] = member
                    self.sequence += 1
        self.effects(self.cluster.tick(self.now))
        for pump in self.pumps:
            due = not pump.registering and self.now - pump.heard_at >= HEARTBEAT_S
            if due and pump.alive and pump.state != OFFLINE:
                self.heartbeat(pump)
            elif pump.alive and pump.registering and self.now - pump.heard_at >= REGISTER_S:
                self.ask_to_join(pump)
        for drainer in self.drainers:
            if not drainer.silent and self.now - drainer.heard_at >= HEARTBEAT_S:
                drainer.heard_at = self.now
                self.effects(self.cluster.register(drainer.status(), self.now)[1])

    def heartbeat(self, pump: Pump) -> None:
        pump.heard_at = self.now
        state, effects = self.cluster.heartbeat(pump.status(), self.now)
        self.effects(effects)
        if state is None:
            pump.state = JOINING
            self.ask_to_join(pump)
        else:
            pump.state = state

    def register(self) -> None:
        pump = self.rng.choice(self.pumps)
        if pump.alive and (pump.state in (OFFLINE, JOINING) or pump.registering):
            self.ask_to_join(pump)

    def ask_to_join(self, pump: Pump) -> None:
        pump.registering = True
        pump.heard_at = self.now
        state, effects = self.cluster.register(pump.status(), self.now)
        self.effects(effects)
        if state is not None:
            self.travelling.append(lambda: self.told(pump.name, state))

    def crash_registry(self) -> None:
        """With its directory or without; what it was about to do is gone."""
        self.writes.clear()
        keeps = self.rng.random() < 0.7 or not self.known_elsewhere()
        lost = self.noticed != self.created or self.now < self.settling_until or not keeps
        fresh = not keeps and not self.bucket
        if not keeps:
            self.last_memory = self.last_memory or self.noticed != self.created or fresh
            self.memory = dict(self.bucket)
        if keeps:
            for node, member in self.memory.items():
                if node not in self.bucket:
                    self.bucket[node] = member
                    self.sequence += 1
        self.memory |= self.bucket
        self.noticed = self.created
        self.cluster = Cluster(self.memory, self.now, fresh=fresh, lost=lost and not fresh)
        if lost:
            self.settling_until = self.now + NODE_LEASE_S

    def known_elsewhere(self) -> bool:
        """May the registry's directory go now? With bucket and directory gone, only the Drainers
        remember the Pumps that are down; if these forgot as well, nobody could know."""
        living = [n for n, member in self.memory.items() if member.state != OFFLINE]
        return all(n in self.bucket for n in living) or all(
            n in drainer.sources for n in living for drainer in self.drainers
        )

    def lose_bucket(self) -> None:
        self.created += 1
        self.born, self.sequence, self.bucket = self.now, 0, {}

    # Pumps --------------------------------------------------------------------------------

    def transact(self) -> None:
        pump = self.rng.choice(self.pumps)
        if not pump.alive:
            return
        if pump.open and self.rng.random() < 0.6:
            self.ts += 1
            pump.open.pop(0)
            pump.commits.append(self.ts)
            pump.high_ts = self.ts
            for drainer in self.drainers:
                if drainer.emitted >= self.ts:
                    raise Broken(f"{drainer.name} emitted {drainer.emitted}, {self.ts} comes now")
        elif pump.state == ONLINE and not pump.registering:
            self.ts += 1
            pump.high_ts = max(pump.high_ts, self.ts)
            pump.open.append(pump.high_ts)

    def crash_pump(self) -> None:
        self.rng.choice(self.pumps).alive = False

    def revive(self) -> None:
        """What died or fell silent comes back: a Pump as after a restart."""
        for pump in self.pumps:
            if not pump.alive and self.rng.random() < 0.5:
                pump.alive, pump.registering, pump.state = True, False, OFFLINE
        for drainer in self.drainers:
            drainer.silent = drainer.silent and self.rng.random() < 0.8

    # Drainers -----------------------------------------------------------------------------

    def receive(self) -> None:
        """Everything up to each source's resolved_ts, which an idle Pump takes from the oracle."""
        drainer = self.rng.choice(self.drainers)
        for pump in self.pumps:
            if pump.name in drainer.sources and pump.alive:
                pump.high_ts = max(pump.high_ts, self.ts)
                known = drainer.sources[pump.name]
                drainer.sources[pump.name] = max(known, pump.resolved())
        drainer.pending = min(drainer.sources.values(), default=0)

    def emit(self) -> None:
        drainer = self.rng.choice(self.drainers)
        if self.source_0:
            if not self.consult(drainer):
                return
        elif self.rng.random() < 0.1:
            # As the original does: look at the list now and then.
            self.read_bucket(drainer)
        upto = min(drainer.pending, min(drainer.sources.values(), default=0))
        for pump in self.pumps:
            for commit in pump.commits:
                if drainer.emitted < commit <= upto and pump.name not in drainer.sources:
                    raise Broken(f"{drainer.name} emits {upto} without {commit} of {pump.name}")
        if upto > drainer.emitted:
            drainer.emitted = upto
            self.emissions += 1

    def consult(self, drainer: Drainer) -> bool:
        created = drainer.seen[0]
        if created != self.created:
            first = created == 0
            left = NODE_LEASE_S - (self.now - self.born) if first else NODE_LEASE_S
            drainer.distrust_until = self.now + left
            drainer.seen = (self.created, -1)
        if self.now < drainer.distrust_until:
            return False
        if drainer.seen[1] == self.sequence:
            return True
        self.read_bucket(drainer)
        return False

    def read_bucket(self, drainer: Drainer) -> None:
        for node, member in self.bucket.items():
            if member.state == OFFLINE:
                drainer.sources.pop(node, None)
            else:
                drainer.sources.setdefault(node, drainer.emitted)
        drainer.seen = (self.created, self.sequence)

    def crash_drainer(self) -> None:
        if self.last_memory:
            return
        drainer = self.rng.choice(self.drainers)
        drainer.sources, drainer.pending, drainer.seen = {}, 0, (0, -1)

    def silence_drainer(self) -> None:
        self.rng.choice(self.drainers).silent = True


def first_break(seeds: range, steps: int, **guards: bool) -> tuple[int, str] | None:
    for seed in seeds:
        try:
            Model(seed, **guards).run(steps)
        except Broken as broken:
            return seed, str(broken)
        except TidelogError as error:
            return seed, f"refused: {error}"
    return None
