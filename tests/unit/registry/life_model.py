"""The model of joins, and with it operators: pause, resume, offline, accepted losses, over the same
crashes and losses and a cut between a Pump and the registry.

`Broken` is raised when a Pump is tombstoned with what somebody has not read, or serves against an
order that it had obeyed; `rest` when, left in peace, it does not get where it was told to be.
"""

from __future__ import annotations

from collections import Counter

from tests.unit.registry.join_model import Broken, Model, Pump
from tidelog.errors import BadInput, Refused
from tidelog.messages import (
    CLOSING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    NodeStatus,
    Order,
    StateRequest,
)
from tidelog.orders import KeptOrder
from tidelog_registry.nodes.effects import Effect, Joined, Write

LEFT = "left"
"""It was told that it is offline: until its next start it only says so."""


class LivingPump(Pump):
    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.kept = KeptOrder()
        self.cut = False
        self.given_up = False
        self.lives = 1

    def status(self, *, alive: bool = True) -> NodeStatus:
        drained = self.state == CLOSING and not self.open
        said = PAUSED if self.state == PAUSING else self.state
        return NodeStatus(
            self.name,
            state=OFFLINE if drained or self.state == LEFT else said,
            isAlive=alive,
            epoch=self.lives,
            highTS=self.high_ts,
            maxCommitTS=max(self.commits, default=0),
            open=len(self.open),
            order=self.kept.standing,
        )


class LifeModel(Model):
    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.living = [LivingPump(f"p{i}") for i in range(4)]
        self.pumps = list(self.living)
        self.asked: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    def run(self, steps: int) -> None:
        """Bursts of the joins' own steps, between them what operators and the network do."""
        for _ in range(steps // 20):
            super().run(20)
            if self.rng.random() < 0.5:
                acts = [*[self.operate] * 6, *[self.cut] * 3, *[self.stop] * 3, self.give_up]
                self.rng.choice(acts)()

    def rest(self) -> None:
        """Nothing fails any more, nobody asks for anything."""
        for _ in range(4000):
            for pump in self.living:
                pump.cut = False
            for drainer in self.drainers:
                drainer.silent = False
            self.rng.choice(
                [self.tick, self.write_next, self.arrive, self.receive, self.emit, self.revive]
            )()
            self.finish()
            if self.rng.random() < 0.1:
                self.register()
        for pump in self.living:
            wanted = {"pause": PAUSED, "offline": LEFT}.get(pump.kept.standing.action, ONLINE)
            if pump.state != wanted and not (pump.state == LEFT and pump.kept.left):
                raise Broken(f"{pump.name} is {pump.state} with {pump.kept}: {self.cluster.nodes}")

    def finish(self) -> None:
        """Open transactions end, so that one may be drained; sequence and time go on."""
        for pump in self.living:
            if pump.open and pump.alive:
                self.ts += 1
                pump.open.pop(0)
                pump.commits.append(self.ts)
                pump.high_ts = self.ts

    # What is checked

    def effects(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Write) and effect.member.state == OFFLINE:
                pump = next(p for p in self.living if p.name == effect.member.node)
                self.tombstoned(pump)
            if isinstance(effect, Joined):
                self.answer(effect.pump, effect.state)
        super().effects([effect for effect in effects if not isinstance(effect, Joined)])

    def tombstoned(self, pump: LivingPump) -> None:
        if pump.given_up:
            return
        if pump.open:
            raise Broken(f"{pump.name} is tombstoned with {pump.open} open")
        last = max(pump.commits, default=0)
        behind = [drainer.name for drainer in self.drainers if drainer.emitted < last]
        if behind:
            raise Broken(f"{pump.name} is tombstoned, and {behind} have not read {last}")
        self.counts["tombstoned"] += 1

    def answer(self, pump: str, state: str) -> None:
        """State and order as they are when the answer is sent."""
        order = self.cluster.order("pump", pump)
        self.travelling.append(lambda: self.answered(pump, state, order))

    def answered(self, pump: str, state: str, order: Order) -> None:
        found = next(p for p in self.living if p.name == pump)
        if found.alive and found.registering and not found.cut:
            found.registering = False
            if state == OFFLINE:
                found.state = OFFLINE  # This join was ended: it asks again.
            else:
                self.obey(found, state, order)

    def obey(self, pump: LivingPump, state: str, order: Order) -> None:
        if order.number > pump.kept.order.number:
            pump.kept = KeptOrder(order)
            self.counts[f"obeyed {order.action}"] += 1
        if pump.state == LEFT:
            return
        if state == OFFLINE:
            pump.kept, pump.state = KeptOrder(pump.kept.order, left=True), LEFT
            self.counts["left"] += 1
            return
        if state == ONLINE:
            standing, asked = pump.kept.standing.action, self.asked.get(pump.name)
            if standing in ("pause", "offline") or (asked == "pause" and pump.state == PAUSED):
                raise Broken(f"{pump.name} serves, and was told to {standing or asked}")
            self.counts["online"] += 1
        pump.state = state

    # What Pumps do

    def heartbeat(self, pump: Pump) -> None:
        assert isinstance(pump, LivingPump)
        pump.heard_at = self.now
        if pump.cut:
            return
        state, effects = self.cluster.heartbeat(pump.status(), self.now, self.behind)
        self.effects(effects)
        if state is not None:
            self.obey(pump, state, self.cluster.order("pump", pump.name))
        elif pump.state != LEFT:
            pump.state = "joining"
            self.ask_to_join(pump)

    def behind(self, ts: int) -> list[str]:
        unknown = [] if self.cluster.trust.knows_consumers(self.now) else ["somebody"]
        return unknown + [drainer.name for drainer in self.drainers if drainer.emitted < ts]

    def ask_to_join(self, pump: Pump) -> None:
        assert isinstance(pump, LivingPump)
        pump.registering, pump.heard_at = True, self.now
        if pump.cut:
            return
        state, effects = self.cluster.register(pump.status(), self.now)
        self.effects(effects)
        if state is not None:
            self.answer(pump.name, state)

    def revive(self) -> None:
        dead = [pump for pump in self.living if not pump.alive]
        super().revive()
        for pump in dead:
            if pump.alive:
                pump.lives += 1
                pump.given_up = False
                if pump.kept.left:
                    self.asked.pop(pump.name, None)
        for pump in self.living:
            pump.cut = pump.cut and self.rng.random() < 0.7

    def cut(self) -> None:
        self.rng.choice(self.living).cut = True

    def stop(self) -> None:
        """In order, with a good-bye that arrives."""
        pump = self.rng.choice(self.living)
        if pump.alive and not pump.cut and pump.state not in (OFFLINE, "joining"):
            said = pump.status(alive=False)
            self.effects(self.cluster.heartbeat(said, self.now, self.behind)[1])
            pump.alive = False
            self.counts["stopped"] += 1

    # What operators do

    def operate(self) -> None:
        self.ask(self.rng.choice(self.living), self.rng.choice(["pause", "resume", "offline"]))

    def give_up(self) -> None:
        """A Pump dies for good, and an operator accepts that once its lease is over."""
        pump = self.rng.choice(self.living)
        pump.alive = False
        until = self.now + 10
        while self.now < until:
            self.tick()
            self.write_next()
        self.ask(pump, "offline", loses=True)

    def ask(self, pump: LivingPump, action: str, *, loses: bool = False) -> None:
        read = {drainer.name: drainer.emitted for drainer in self.drainers}
        wish = StateRequest(pump.name, action, accept_loss=loses)
        if loses:
            before, pump.given_up = pump.given_up, True
        try:
            _, effects = self.cluster.operate(wish, self.now, read, int(self.now * 1000))
        except (BadInput, Refused):
            if loses:
                pump.given_up = before
            return
        self.asked[pump.name] = action
        if loses and not any(isinstance(e, Write) for e in effects):
            pump.given_up = before
        elif loses:
            pump.commits, pump.open = [], []
            self.counts["accepted loss"] += 1
        self.effects(effects)
