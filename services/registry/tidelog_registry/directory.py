"""The directory: who is in the cluster, whose lease holds, what the safe point is.

It owns the pure `Cluster` and `Consumers` and carries out their effects: entries go to `Members`,
Drainers are asked by tasks of its own, events are published in order.
"""

from __future__ import annotations

import asyncio
from collections import deque

import structlog

from tidelog import messages, subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import BadInput, ForeignCluster, Refused, TidelogError, Unavailable
from tidelog.membership import Member
from tidelog.messages import (
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
    SafePoint,
    SafePointRequest,
)
from tidelog.ports import Ports
from tidelog.timestamps import compose
from tidelog_registry import metrics
from tidelog_registry.cluster import Changed, Cluster, Effect, Joined, Notify, Write
from tidelog_registry.config import RegistryConfig
from tidelog_registry.consumer_store import ConsumerStore
from tidelog_registry.consumers import Consumers, Kept
from tidelog_registry.floor import floor_of
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
from tidelog_registry.node_state import lease_s

log = structlog.get_logger()

ACK_S = 2.0
RETRY_S = 0.3
KEEP_S = 1.0
WAITERS = 8
"""Answers owed for one join; a Pump that asks more often gets the older ones refused."""
PINS = 64
EVENTS = 4096


def _check_kind(status: NodeStatus) -> None:
    if status.kind not in KINDS:
        known = ", ".join(KINDS)
        raise BadInput(f"{status.nodeId} is of unknown kind {status.kind!r}", hint=known)


class Directory(Actor[DirectoryMail]):
    tick_s = 0.25

    def __init__(self, config: RegistryConfig, ports: Ports, members: Ref[Record | Look]) -> None:
        self._config = config
        self._ports = ports
        self._members = members
        self._store = ConsumerStore(ports, config.cluster)
        self._cluster: Cluster
        self._consumers = Consumers(Kept())
        self._saved = Kept()
        self._losses = 0
        self._far: dict[str, int] = {}
        self._joining: dict[str, deque[Reply[Registered]]] = {}
        self._operating: list[tuple[Member, NodeStatus, Reply[NodeStatus]]] = []
        self._pinning: deque[Reply[SafePoint]] = deque()
        self._pinned = asyncio.Event()
        self._events: deque[NodeStatus] = deque(maxlen=EVENTS)

    async def on_start(self) -> None:
        view = await self._members.ask(Look)
        self._losses = view.losses
        self._cluster = Cluster(view.members, self._now(), fresh=view.fresh, lost=bool(view.losses))
        while True:
            try:
                self._saved = await self._store.load()
                break
            except Unavailable as error:
                log.warning("the kept consumers can't be read yet", reason=str(error))
                await self._ports.clock.sleep(RETRY_S)
        self._consumers = Consumers(self._saved)
        self.spawn(self._watch_members(), "watch-members")
        self.spawn(self._keep_consumers(), "keep-consumers")

    def _now(self) -> float:
        return self._ports.clock.monotonic()

    async def on_batch(self, batch: list[DirectoryMail]) -> None:
        for message in batch:
            self._handle(message)
        await self._publish_events()

    async def on_tick(self) -> None:
        self._run(self._cluster.tick(self._now()))
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
                self._ask_safe_point(body, reply)
            case AskFloor(reply):
                reply.set(self._floor())
            case Recorded(written):
                self._check_losses(written.losses)
                self._recorded(written.member)
            case Acked(drainer, pump):
                self._run(self._cluster.acked(drainer, pump, self._now()))
            case Looked(view):
                self._check_losses(view.losses)

    def _check_losses(self, losses: int) -> None:
        if losses != self._losses:
            self._losses = losses
            self._cluster.lost(self._now())

    # Nodes ----------------------------------------------------------------------------------

    def _enrol(self, body: Register, reply: Reply[Registered]) -> None:
        status = body.status
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
            reply.set(self._registered(status.kind, state))
        else:
            waiting = self._joining.setdefault(status.nodeId, deque())
            waiting.append(reply)
            if len(waiting) > WAITERS:
                waiting.popleft().fail(Refused("this Pump asked again"))
        self._run(effects)

    def _registered(self, kind: str, state: str) -> Registered:
        return Registered(state, lease_s(kind), self._safe_point())

    def _renew(self, message: Renew) -> None:
        status = message.body.status
        try:
            _check_kind(status)
            state, effects = self._cluster.heartbeat(
                status, self._now(), safe_point=self._safe_point()
            )
        except TidelogError as error:
            message.reply.fail(error)
            return
        self._run(effects)
        refused = self._consumers.refused
        self._consumers.announced(message.body)
        metrics.CONSUMERS_REFUSED.inc(self._consumers.refused - refused)
        if state is None:
            message.reply.set(Beat(known=False))
        else:
            message.reply.set(Beat(True, state, self._safe_point()))

    def _operate(self, message: Operate) -> None:
        body = message.body
        try:
            status, effects = self._cluster.operate(
                body.node, body.action, self._now(), accept_loss=body.accept_loss
            )
        except TidelogError as error:
            message.reply.fail(error)
            return
        log.info("an operator asked", node=body.node, action=body.action, state=status.state)
        written = [effect.member for effect in effects if isinstance(effect, Write)]
        if written:
            self._operating.append((written[-1], status, message.reply))
        else:
            message.reply.set(status)
        self._run(effects)

    def _recorded(self, member: Member) -> None:
        self._run(self._cluster.recorded(member, self._now()))
        waiting, self._operating = self._operating, []
        for wanted, status, reply in waiting:
            if wanted == member:
                reply.set(status)
            else:
                self._operating.append((wanted, status, reply))

    # Effects --------------------------------------------------------------------------------

    def _run(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write(member):
                    if member.state == OFFLINE:
                        self._consumers.forget_pump(member.node)
                    self.spawn(self._write(member), f"write-{member.node}")
                case Notify(drainer, pump):
                    self.spawn(self._notify(drainer, pump), f"notify-{drainer}")
                case Changed(status):
                    self._events.append(status)
                case Joined(pump, state):
                    self._end_join(pump, state)

    def _end_join(self, pump: str, state: str) -> None:
        metrics.JOINS.labels(state).inc()
        for reply in self._joining.pop(pump, ()):
            if state == OFFLINE:
                reply.fail(Refused(f"the join of {pump} was ended: register again"))
            else:
                reply.set(self._registered(PUMP, state))

    async def _write(self, member: Member) -> None:
        written: Written = await self._members.ask(lambda reply: Record(member, reply))
        await self.self_ref.tell(Recorded(written))

    async def _notify(self, drainer: str, pump: str) -> None:
        """Until it acked, or its lease ran out and nobody waits for it any more."""
        subject = subjects.drainer(self._config.cluster, drainer, "pump-online")
        body = messages.encode(PumpOnline(pump))
        while self._cluster.awaits(drainer, pump):
            try:
                answer = await self._ports.bus.request(subject, body, timeout_s=ACK_S)
                messages.decode_reply(answer.data, Empty)
            except TidelogError as error:
                log.info("no ack yet", drainer=drainer, pump=pump, reason=str(error))
                await self._ports.clock.sleep(RETRY_S)
            else:
                await self.self_ref.tell(Acked(drainer, pump))
                return

    async def _publish_events(self) -> None:
        while self._events:
            status = self._events.popleft()
            metrics.STATE_CHANGES.labels(status.state).inc()
            log.info("node", node=status.nodeId, state=status.state, alive=status.isAlive)
            subject = subjects.registry_event(self._config.cluster, status.kind, status.nodeId)
            await self._ports.bus.publish(subject, messages.encode(status))

    async def _watch_members(self) -> None:
        while True:
            await self._ports.clock.sleep(1.0)
            await self.self_ref.tell(Looked(await self._members.ask(Look)))

    # The safe point -------------------------------------------------------------------------

    def _safe_point(self) -> int:
        known = self._cluster.safe_point_known(self._now())
        return self._consumers.safe_point() if known else 0

    def _ask_safe_point(self, body: SafePointRequest, reply: Reply[SafePoint]) -> None:
        try:
            if body.consumer is not None and body.remove:
                self._consumers.remove(body.consumer.feed, body.consumer.name)
            elif body.consumer is not None:
                self._consumers.put(body.consumer)
        except TidelogError as error:
            reply.fail(error)
            return
        if body.consumer is None:
            reply.set(SafePoint(self._safe_point()))
            return
        self._pinning.append(reply)
        if len(self._pinning) > PINS:
            self._pinning.popleft().fail(Refused("too many consumers change at once"))
        self._pinned.set()

    async def _keep_consumers(self) -> None:
        """Positions at most once a second; a consumer that was registered or removed by name is
        kept before that is answered."""
        while True:
            await self._wait_pinned()
            replies, self._pinning = self._pinning, deque()
            kept = self._consumers.kept()
            try:
                if kept != self._saved:
                    await self._store.save(kept)
                    self._saved = kept
            except Unavailable as error:
                log.info("consumers not kept yet", reason=str(error))
                for reply in replies:
                    reply.fail(error)
            else:
                for reply in replies:
                    reply.set(SafePoint(self._safe_point()))

    async def _wait_pinned(self) -> None:
        try:
            async with asyncio.timeout(KEEP_S):
                await self._pinned.wait()
        except TimeoutError:
            return
        finally:
            self._pinned.clear()

    # Answers --------------------------------------------------------------------------------

    def _floor(self) -> Floor:
        waits_for = tuple(self._cluster.unheard(self._now()))
        limit = compose(self._ports.clock.wall_ms() + int(self._config.clock_skew_s * 1000))
        ts, far = floor_of(
            self._cluster.statuses(), self._consumers.all, self._consumers.feeds, limit
        )
        for who in sorted(far.keys() - self._far.keys()):
            metrics.FAR_POSITIONS.inc()
            log.error("a position far ahead of the clock is not believed", who=who, ts=far[who])
        self._far = far
        return Floor(ts, waits_for)

    def _nodes(self) -> Nodes:
        return Nodes(
            self._cluster.statuses(),
            self._consumers.all,
            self._consumers.feeds,
            self._safe_point(),
            self._cluster.settled(self._now()),
        )

    def status(self) -> dict[str, object]:
        now = self._now()
        return {
            "nodes": {f"{s.kind}/{s.nodeId}": s.state for s in self._cluster.statuses()},
            "unreachable": [s.nodeId for s in self._cluster.statuses() if not s.isAlive],
            "joining": sorted(self._joining),
            "settled": self._cluster.settled(now),
            "safe_point": self._safe_point(),
            "consumers": len(self._consumers.all),
            "far_ahead": self._far,
        }
