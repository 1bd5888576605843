"""Directs a history: when a given event happens for the n-th time, something is done at once.

The events are those of the trace (`tidelog.sim.trace`): who, what, and a detail. A schedule so
waits for the unsafe moment itself instead of a time, and stays valid when timing changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tests.planted.marks import broken_marks
from tests.simulation.chaos import MEMBERS_STREAM
from tests.simulation.cluster import CLUSTER, FEED, Cluster
from tidelog.errors import TidelogError
from tidelog.messages import StateReply, StateRequest, decode_reply, encode
from tidelog.sim import Node
from tidelog.sim.trace import Event
from tidelog.subjects import changes_stream, registry
from tidelog_proto.binlog_pb2 import Binlog, BinlogType
from tidelog_proto.transport_pb2 import WriteBatch

LEADER = "leader"
"""Instead of a node: the Drainer that leads, where an action says that it takes that."""


@dataclass(frozen=True)
class When:
    """An event of `node` (any, if empty) whose detail holds `detail`. `binlog`: of a message to a
    Pump, which kind of binlog it carries, as "Prewrite"."""

    node: str
    what: str
    detail: str = ""
    binlog: str = ""

    def fits(self, event: Event) -> bool:
        return (
            event.what == self.what
            and self.node in ("", event.node)
            and self.detail in event.detail
            and (not self.binlog or _carries(event.data, BinlogType.Value(self.binlog)))
        )


class Action(ABC):
    """Something done to the cluster in the instant of an event. Raises LookupError if there is
    nothing to do it to."""

    @abstractmethod
    def perform(self, cluster: Cluster) -> None: ...


@dataclass(frozen=True)
class PowerLoss(Action):
    """Without `back_s` the machine stays off until `Start`, or the end of the load."""

    node: str
    back_s: float | None = None

    def perform(self, cluster: Cluster) -> None:
        _running(cluster, self.node).kill(restart_after_s=self.back_s)


@dataclass(frozen=True)
class Restart(Action):
    """Stopped in order, and started again."""

    node: str
    back_s: float

    def perform(self, cluster: Cluster) -> None:
        _running(cluster, self.node).restart_gracefully(self.back_s)


@dataclass(frozen=True)
class Start(Action):
    """A machine that is off, or a Pump that has never been there: it joins."""

    node: str

    def perform(self, cluster: Cluster) -> None:
        node = _node(cluster, self.node)
        if node.running:
            raise LookupError(f"{self.node} runs already")
        if node.starts:
            node.restart()
        else:
            cluster.start_pump(node)


@dataclass(frozen=True)
class Cut(Action):
    """Off the network, until `Reconnect` or the end of the load."""

    node: str

    def perform(self, cluster: Cluster) -> None:
        cluster.chaos.cut(_running(cluster, self.node))


@dataclass(frozen=True)
class Reconnect(Action):
    node: str

    def perform(self, cluster: Cluster) -> None:
        _running(cluster, self.node).partition(cut=False)


@dataclass(frozen=True)
class Stall(Action):
    """An actor (by its task's name) gets no processor for a while; the others go on. `node` may be
    LEADER."""

    node: str
    task: str
    seconds: float

    def perform(self, cluster: Cluster) -> None:
        loop = cluster.world.loop
        node = cluster.leader.name if self.node == LEADER else self.node
        theirs = {(task.life.name, task.get_name()) for task in loop.tasks_of(None) if task.life}
        if (node, self.task) not in theirs:
            raise LookupError(f"{node} has no task {self.task}")
        loop.stall(node, self.task, self.seconds)


@dataclass(frozen=True)
class LoseChanges(Action):
    """The change stream is deleted."""

    def perform(self, cluster: Cluster) -> None:
        if changes_stream(FEED) not in cluster.world.nats.streams:
            raise LookupError(f"there is no {changes_stream(FEED)}")
        cluster.world.nats.delete(changes_stream(FEED))


@dataclass(frozen=True)
class LoseMembership(Action):
    """The membership bucket is deleted."""

    def perform(self, cluster: Cluster) -> None:
        if MEMBERS_STREAM not in cluster.world.nats.streams:
            raise LookupError(f"there is no {MEMBERS_STREAM}")
        cluster.world.nats.delete(MEMBERS_STREAM)


@dataclass(frozen=True)
class LoseFile(Action):
    """A file of a node is gone, durably."""

    node: str
    path: str

    def perform(self, cluster: Cluster) -> None:
        disk = _node(cluster, self.node).disk
        if self.path not in disk.image().names:
            raise LookupError(f"{self.node} has no {self.path}")
        disk.lose(self.path)


@dataclass(frozen=True)
class Offline(Action):
    """An operator's `offline NODE`, asked once. A refusal is a finding: what comes after it would
    prove nothing."""

    node: str
    accept_loss: bool = False

    def perform(self, cluster: Cluster) -> None:
        cluster.world.loop.create_task(self._ask(cluster), name="operator")

    async def _ask(self, cluster: Cluster) -> None:
        body = encode(StateRequest(self.node, "offline", accept_loss=self.accept_loss))
        bus = cluster.world.ports("operator").bus
        try:
            answer = await bus.request(registry(CLUSTER, "state"), body, timeout_s=3.0)
            decode_reply(answer.data, StateReply)
        except TidelogError as error:
            cluster.findings.other.append(f"{self.node} was not taken offline: {error}")
        else:
            cluster.given_up.add(self.node)


@dataclass(frozen=True)
class AcceptLoss(Offline):
    """`offline NODE --accept-loss`."""

    accept_loss: bool = True


@dataclass(frozen=True)
class Step:
    """At every `nth` fitting event, `times` times, do all of this."""

    when: When
    do: tuple[Action, ...]
    nth: int = 1
    times: int = 1


class Director:
    """Takes one step after the other; the first waits for the load's first transaction."""

    def __init__(self, cluster: Cluster, steps: tuple[Step, ...]) -> None:
        self._cluster = cluster
        self._left = [step for step in steps for _ in range(step.times)]
        self._seen = 0
        cluster.world.trace.watchers.append(self._watch)

    @property
    def left(self) -> int:
        """Steps whose event did not come: the history proves nothing."""
        return len(self._left)

    def broken_marks(self) -> list[str]:
        """What the change stream holds now, if there is one."""
        stream = self._cluster.world.nats.streams.get(changes_stream(FEED))
        slots = stream.slots if stream is not None else []
        return broken_marks((slot.message for slot in slots if slot is not None), FEED)

    def _watch(self, event: Event) -> None:
        if not self._left or not self._cluster.workload.counts.started:
            return
        step = self._left[0]
        if not step.when.fits(event):
            return
        self._seen += 1
        if self._seen == step.nth:
            self._seen = 0
            del self._left[0]
            for action in step.do:
                self._perform(action)

    def _perform(self, action: Action) -> None:
        """Not raised: it would end whoever the event happens to. The history proves nothing."""
        try:
            action.perform(self._cluster)
        except LookupError as error:
            self._cluster.findings.other.append(f"{action} could not be done: {error}")


def _node(cluster: Cluster, name: str) -> Node:
    return cluster.world.nodes[name]


def _running(cluster: Cluster, name: str) -> Node:
    node = _node(cluster, name)
    if not node.running:
        raise LookupError(f"{name} is off")
    return node


def _carries(data: bytes, kind: BinlogType.ValueType) -> bool:
    """An empty payload is a probe, no binlog."""
    payloads = WriteBatch.FromString(data).payloads
    return any(payload and Binlog.FromString(payload).tp == kind for payload in payloads)
