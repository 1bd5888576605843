"""The directory: who is in the cluster, whose lease holds, what the safe point is.

It owns the pure `Cluster` and `Consumers` and carries out their effects: entries go to `Members`,
Drainers are asked by tasks of its own, events are published in order.
"""

from __future__ import annotations

from collections import deque

import msgspec
import structlog

from tidelog import messages, subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import BadInput, ForeignCluster, Overloaded, Refused, TidelogError
from tidelog.failpoints import hit
from tidelog.membership import Member
from tidelog.messages import (
    DRAINER,
    DRAINER_CONSUMER,
    KINDS,
    OFFLINE,
    PUMP,
    Beat,
    Empty,
    Nodes,
    NodeStatus,
    PumpOnline,
    Register,
    Registered,
    StateReply,
)
from tidelog.node_form import is_unreachable
from tidelog.ports import Ports
from tidelog.timestamps import compose
from tidelog_registry import metrics
from tidelog_registry.config import RegistryConfig
from tidelog_registry.consumers.kept import KeptConsumers
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.mail import (
    Acked,
    AskFloor,
    AskSafePoint,
    DirectoryMail,
    Enrol,
    Floor,
    ListNodes,
    Looked,
    Operate,
    Recorded,
    Renew,
)
from tidelog_registry.members import Look, Record, Written
from tidelog_registry.nodes import forgetting
from tidelog_registry.nodes.cluster import Cluster
from tidelog_registry.nodes.effects import Changed, Effect, Forget, Joined, Notify, Write
from tidelog_registry.nodes.node import ReaderOrder
from tidelog_registry.nodes.node_state import lease_s
from tidelog_registry.nodes.unbegun import Unbegun
from tidelog_registry.oracle.floor import floor_of

log = structlog.get_logger()

ACK_S = 2.0
RETRY_S = 0.3
WAITERS = 8
"""Answers owed for one join; a Pump that asks more often gets the older ones refused. And for the
orders to one Pump, until they are in its entry; more are refused before they change anything."""
EVENTS = 4096
LOOK_S = 1.0


def _check_kind(status: NodeStatus) -> None:
    if status.kind not in KINDS:
        known = ", ".join(KINDS)
        raise BadInput(f"{status.nodeId} is of unknown kind {status.kind!r}", hint=known)


class Directory(Actor[DirectoryMail]):
    tick_s = 0.25

    def __init__(
        self, config: RegistryConfig, ports: Ports, tenure: Tenure, members: Ref[Record | Look]
    ) -> None:
        self._config = config
        self._ports = ports
        self._members = members
        self._tenure = tenure
        self._kept = KeptConsumers(
            ports, config.cluster, tenure, self._safe_point, self._reader_orders
        )
        self._cluster: Cluster
        self._unbegun = Unbegun(ports.bus, config.cluster)
        self._losses = 0
        self._far: dict[str, int] = {}
        self._joining: dict[str, deque[Reply[Registered]]] = {}
        self._operating: list[tuple[Member, StateReply, Reply[StateReply]]] = []
        self._events: deque[NodeStatus] = deque(maxlen=EVENTS)
        self._drops_events = False

    async def on_start(self) -> None:
        view = await self._members.ask(Look)
        self._losses = view.losses
        orders = await self._kept.load()
        self._cluster = Cluster(
            view.members, self._now(), fresh=view.fresh, lost=bool(view.losses), orders=orders
        )
        self.spawn(self._watch_members(), "watch-members")
        self.spawn(self._kept.keep(), "keep-consumers")

    def _now(self) -> float:
        return self._ports.clock.monotonic()

    async def on_batch(self, batch: list[DirectoryMail]) -> None:
        for message in batch:
            self._handle(message)
        await self._publish_events()

    async def on_tick(self) -> None:
        self._run(self._cluster.tick(self._now()))
        self._kept.consumers.announced_by({name for _, name in self._cluster.nodes})
        await self._publish_events()

    def _handle(self, message: DirectoryMail) -> None:
        match message:
            case Enrol():
                self._enrol(message.body, message.reply)
            case Renew():
                self._renew(message)
            case ListNodes(reply):
                reply.set(self._nodes())
            case Operate():
                self._operate(message)
            case AskSafePoint(body, reply):
                self._kept.ask(body, reply)
            case AskFloor(reply):
                reply.set(self._floor())
            case Recorded(written):
                self._check_losses(written.losses)
                self._recorded(written.member)
            case Acked(drainer, pump):
                self._run(self._cluster.joins.acked(drainer, pump, self._now()))
            case Looked(view):
                self._check_losses(view.losses)

    def _check_losses(self, losses: int) -> None:
        if losses != self._losses:
            self._losses = losses
            self._cluster.lost(self._now())

    # Nodes ----------------------------------------------------------------------------------

    def _enrol(self, body: Register, reply: Reply[Registered]) -> None:
        status = self._dated(body.status)
        ours = self._config.cluster_id
        try:
            _check_kind(status)
            if ours and body.cluster_id and ours != body.cluster_id:
                raise ForeignCluster(
                    f"{status.nodeId} has cluster id {body.cluster_id}, this cluster has {ours}"
                )
            state, effects = self._cluster.register(status, self._now())
        except TidelogError as error:
            reply.fail(error)
            return
        if state is not None:
            reply.set(self._registered(status.kind, status.nodeId, state))
        else:
            waiting = self._joining.setdefault(status.nodeId, deque())
            waiting.append(reply)
            if len(waiting) > WAITERS:
                waiting.popleft().fail(Refused("this Pump asked again"))
        self._run(effects)

    def _dated(self, status: NodeStatus) -> NodeStatus:
        """With `updateTS`: when it came, by this clock, as a timestamp."""
        now = compose(self._ports.clock.wall_ms())
        return msgspec.structs.replace(status, updateTS=now)

    def _registered(self, kind: str, node: str, state: str) -> Registered:
        order = self._cluster.order(kind, node)
        return Registered(state, lease_s(kind), self._safe_point(), order)

    def _renew(self, message: Renew) -> None:
        status = self._dated(message.body.status)
        let_go = self._cluster.let_go(status.kind, status.nodeId)
        try:
            _check_kind(status)
            state, effects = self._cluster.heartbeat(status, self._now(), self._behind)
        except TidelogError as error:
            message.reply.fail(error)
            return
        # A Pump that has left speaks for no feed; a reader that ends tells where it goes on.
        ends = status.kind != PUMP and not (status.isAlive or let_go)
        if state != OFFLINE or ends:
            self._kept.announced(message.body)
        self._run(effects)
        self._run(self._cluster.recall(message.body.sources, self._now()))
        if state is None:
            message.reply.set(Beat(known=False))
        else:
            order = self._cluster.order(status.kind, status.nodeId)
            message.reply.set(Beat(True, state, self._safe_point(), order))

    def _behind(self, ts: int) -> list[str]:
        """Who has yet to read up to `ts`."""
        if not self._cluster.trust.knows_consumers(self._now()):
            return ["readers that may still announce themselves"]
        found = [
            f"{who}, which has read up to {position}"
            for who, position in self._kept.consumers.read.items()
            if position < ts
        ]
        for status in self._cluster.statuses() if ts else ():
            unknown = not self._kept.consumers.knows(status.feed, DRAINER_CONSUMER)
            if status.kind == DRAINER and status.state != OFFLINE and status.isAlive and unknown:
                found.append(f"Drainer {status.nodeId}, which has no position yet")
        for feed, told in self._unbegun.behind(ts).items() if ts else ():
            if not self._kept.consumers.knows(feed, DRAINER_CONSUMER):
                found.append(told)
        return found

    def _operate(self, message: Operate) -> None:
        wish = message.body
        waiting = [member for member, _, _ in self._operating if member.node == wish.node]
        try:
            if len(waiting) >= WAITERS and not wish.dry_run:
                raise Overloaded(f"{len(waiting)} orders to {wish.node} are not written yet")
            read, wall_ms = self._kept.consumers.read, self._ports.clock.wall_ms()
            published_ts = self._kept.consumers.published_ts
            answer, effects = self._cluster.operate(wish, self._now(), read, wall_ms, published_ts)
        except TidelogError as error:
            message.reply.fail(error)
            return
        if not wish.dry_run:
            log.info("an operator asked", **msgspec.to_builtins(wish), state=answer.status.state)
        for line in answer.may_lose if not wish.dry_run else ():
            log.error("an operator accepts a loss", pump=wish.node, what=line)
        hit("registry.directory.ordered")
        written = [effect.member for effect in effects if isinstance(effect, Write)]
        if not written and not wish.dry_run:
            # Asked again while the entry is being written: no sooner answered than who asked first.
            written = waiting
        if written:
            self._operating.append((written[-1], answer, message.reply))
        elif wish.dry_run or answer.status.kind == PUMP:
            message.reply.set(answer)
        else:
            self._kept.when_kept(message.reply, lambda: answer)
        self._run(effects)

    def _recorded(self, member: Member) -> None:
        hit("registry.directory.recorded")
        self._run(self._cluster.joins.recorded(member, self._now()))
        waiting, self._operating = self._operating, []
        for wanted, answer, reply in waiting:
            if wanted == member:
                reply.set(answer)
            else:
                self._operating.append((wanted, answer, reply))

    # Effects --------------------------------------------------------------------------------

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(member):
                    if member.state == OFFLINE:
                        self._kept.consumers.forget_pump(member.node)
                    self.spawn(self._write(member), f"write-{member.node}")
                case Notify(drainer, pump):
                    self.spawn(self._notify(drainer, pump), f"notify-{drainer}")
                case Changed(status):
                    if len(self._events) == EVENTS:
                        self._count_drop("too many wait: the oldest goes")
                    self._events.append(status)
                case Joined(pump, state):
                    self._end_join(pump, state)
                case Forget(status, last):
                    self._kept.consumers.forget_reader(status, last=last)
                    if last and status.kind == DRAINER and status.feed:
                        self.spawn(self._forget(status.feed), f"forget-{status.feed}")

    def _end_join(self, pump: str, state: str) -> None:
        metrics.JOINS.labels(state).inc()
        for reply in self._joining.pop(pump, ()):
            if state == OFFLINE:
                reply.fail(Refused(f"the join of {pump} was ended: register again"))
            else:
                reply.set(self._registered(PUMP, pump, state))

    async def _write(self, member: Member) -> None:
        written: Written = await self._members.ask(lambda reply: Record(member, reply))
        await self.self_ref.tell(Recorded(written))

    async def _notify(self, drainer: str, pump: str) -> None:
        """Until it acked, or its lease ran out and nobody waits for it any more."""
        subject = subjects.drainer(self._config.cluster, drainer, "pump-online")
        body = messages.encode(PumpOnline(pump))
        while self._cluster.joins.awaits(drainer, pump):
            try:
                hit("registry.directory.before_notification")
                answer = await self._ports.bus.request(subject, body, timeout_s=ACK_S)
                messages.decode_reply(answer.data, Empty)
            except TidelogError as error:
                log.info("no ack yet", drainer=drainer, pump=pump, reason=str(error))
                await self._ports.clock.sleep(RETRY_S)
            else:
                hit("registry.directory.notified")
                await self.self_ref.tell(Acked(drainer, pump))
                return

    async def _forget(self, feed: str) -> None:
        def gone() -> bool:
            return not self._cluster.has_drainer(feed)

        pumps = self._cluster.members()
        await forgetting.forget(self._ports, self._config.cluster, feed, pumps, gone)

    async def _publish_events(self) -> None:
        """One that can't be sent is dropped: who missed it asks for the list. Those behind it are
        tried at the next tick: it may take long to be refused, and heartbeats wait meanwhile."""
        while self._events:
            status = self._events.popleft()
            log.info("node", node=status.nodeId, state=status.state, alive=status.isAlive)
            hit("registry.directory.before_events")
            subject = subjects.registry_event(self._config.cluster, status.kind, status.nodeId)
            try:
                await self._ports.bus.publish(subject, messages.encode(status))
            except TidelogError as error:
                self._count_drop(str(error))
                return
            metrics.STATE_CHANGES.labels(status.state).inc()
            self._drops_events = False

    def _count_drop(self, why: str) -> None:
        """Said once, until one is published again."""
        metrics.EVENTS_DROPPED.inc()
        if not self._drops_events:
            log.warning("state events are dropped", why=why)
        self._drops_events = True

    async def _watch_members(self) -> None:
        while True:
            await self._ports.clock.sleep(LOOK_S)
            await self._unbegun.look(wanted=self._cluster.is_left())
            await self.self_ref.tell(Looked(await self._members.ask(Look)))

    def _safe_point(self) -> int:
        """0, nobody may delete anything, as long as there may be a consumer that is not known here:
        another registry may have taken one up since the lease was last renewed."""
        known = self._tenure.holds() and self._cluster.trust.knows_consumers(self._now())
        return self._kept.consumers.safe_point() if known else 0

    def _settled(self) -> bool:
        return self._tenure.holds() and self._cluster.trust.settled(self._now())

    def _reader_orders(self) -> list[ReaderOrder]:
        return self._cluster.reader_orders()

    # Answers --------------------------------------------------------------------------------

    def _floor(self) -> Floor:
        waits_for = tuple(self._cluster.unheard(self._now()))
        limit = compose(self._ports.clock.wall_ms() + int(self._config.clock_skew_s * 1000))
        ts, far = floor_of(
            self._cluster.statuses(), self._kept.consumers.all, self._kept.consumers.feeds, limit
        )
        for who in sorted(far.keys() - self._far.keys()):
            metrics.FAR_POSITIONS.inc()
            log.error("a position far ahead of the clock is not believed", who=who, ts=far[who])
        self._far = far
        return Floor(ts, waits_for)

    def _nodes(self) -> Nodes:
        return Nodes(
            self._cluster.statuses(),
            self._kept.consumers.all,
            self._kept.consumers.feeds,
            self._safe_point(),
            self._settled(),
            self._config.oracle,
        )

    def status(self) -> dict[str, object]:
        return {
            "nodes": {f"{s.kind}/{s.nodeId}": s.state for s in self._cluster.statuses()},
            "unreachable": [
                f"{s.kind}/{s.nodeId}" for s in self._cluster.statuses() if is_unreachable(s)
            ],
            "joining": sorted(self._joining),
            "settled": self._settled(),
            "safe_point": self._safe_point(),
            "consumers": len(self._kept.consumers.all),
            "read": self._kept.consumers.read,
            "far_ahead": self._far,
        }
