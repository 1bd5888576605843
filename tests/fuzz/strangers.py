"""A stranger on NATS: every control subject of a whole simulated cluster gets messages that are
none, while it takes and applies transactions. Each question is answered, no actor restarts, and
what was acked arrives once and in order.

A stranger who says what a service would say is another matter: whoever may publish to a control
subject is trusted with it (docs/security.md). So what would be obeyed is not sent.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import msgspec
from google.protobuf.message import DecodeError

from tests.fuzz.control_inputs import example
from tests.fuzz.mutation import Form, mutated
from tests.fuzz.pump_inputs import write_requests
from tests.simulation.cluster import CLUSTER, Cluster, play
from tests.simulation.plan import Plan, draw
from tests.unit.backfill.service_rig import Clockwork
from tidelog import messages, subjects
from tidelog.applier_control import ApplierRequest
from tidelog.bulk.control import AskJobs, Cancel, JobStatus, Submit
from tidelog.drainer_control import DrainerRequest
from tidelog.errors import DeadlineExceeded, TidelogError, UnparsablePayload
from tidelog.payload import classify
from tidelog.ports import Bus, Ports
from tidelog.pump_control import ControlRequest
from tidelog.rewind import Rewind
from tidelog.sim import Node
from tidelog_backfill.config import BackfillConfig
from tidelog_backfill.service import build as build_backfill
from tidelog_proto.pump_pb2 import WriteBinlogReq
from tidelog_proto.transport_pb2 import PullFrame, PullRequest, WriteBatch, WriteBatchResult

MOST = 5000
"""Of one history: its load lasts six seconds."""
AT_ONCE = 16
"""Questions under way."""
ANSWER_S = 2.0
"""Virtual; longer than the longest poll that is asked."""
UNFORESEEN = b"unforeseen"
"""What an edge says of an error that nobody thought of."""
Kept = Callable[[bytes], bool]


@dataclass(frozen=True)
class Door:
    """A subject. `kind`: what it takes, as JSON; None = protobuf. `lets_in`: would it be obeyed?"""

    subject: str
    seeds: list[bytes]
    kind: type[msgspec.Struct] | None
    lets_in: Kept
    answered: bool = True


@dataclass
class Talk:
    inputs: int = 0
    wrong: list[str] = field(default_factory=list)
    answers: Counter[str] = field(default_factory=Counter)
    transactions: int = 0
    ends: str = ""

    @property
    def said(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.answers.most_common(5))


def _json_door(
    subject: str, kind: type[msgspec.Struct], harmless: Callable[[Any], bool], **more: Any
) -> Door:
    def lets_in(data: bytes) -> bool:
        try:
            return not harmless(messages.decode(data or b"{}", kind))
        except TidelogError:
            return False

    return Door(subject, [msgspec.json.encode(example(kind))], kind, lets_in, **more)


def _stores(data: bytes) -> bool:
    """Would a Pump store any of it?"""
    try:
        batch = WriteBatch.FromString(data)
    except DecodeError:
        return False
    return any(map(is_binlog, batch.payloads))


def is_binlog(payload: bytes) -> bool:
    """Would a Pump store it?"""
    try:
        classify(payload)
    except UnparsablePayload:
        return False
    return True


def _moves(data: bytes) -> bool:
    """Does it pull for the feed, whose position a Pump notes, or wait for what is to come?"""
    try:
        wanted = PullRequest.FromString(data)
    except DecodeError:
        return False
    return wanted.feed == "main" or wanted.wait_ms > 1000


def _never(_: Any) -> bool:
    return False


def _always(_: Any) -> bool:
    return True


def doors(pump: str = "pump-1", drainer: str = "drainer", applier: str = "applier") -> list[Door]:
    """Every control subject there is."""

    def registry(verb: str, kind: type[msgspec.Struct], harmless: Callable[[Any], bool]) -> Door:
        return _json_door(subjects.registry(CLUSTER, verb), kind, harmless)

    def no_node(body: messages.Register | messages.Heartbeat) -> bool:
        return body.status.kind not in messages.KINDS

    writes = [
        WriteBatch(payloads=[WriteBinlogReq.FromString(one).payload]).SerializeToString()
        for one in write_requests()
    ]
    pulls = [
        PullRequest(after_ts=5, max_bytes=1000, feed="stranger").SerializeToString(),
        PullRequest(
            after_ts=5, commit_ts=7, offset=3, unwanted_table_ids=[1, 2], compression="zstd"
        ).SerializeToString(),
    ]
    looks = ("status", "inspect", "who-has")
    backfill = partial(subjects.backfill, CLUSTER, "backfill")
    return [
        registry("register", messages.Register, no_node),
        registry("heartbeat", messages.Heartbeat, no_node),
        registry("nodes", messages.Empty, _always),
        registry("state", messages.StateRequest, lambda b: b.dry_run or b.action == ""),
        registry("safepoint", messages.SafePointRequest, lambda b: b.consumer is None),
        registry("ddl-append", messages.DdlAppend, _never),
        registry("ddl-list", messages.DdlList, _always),
        registry("tso", messages.TsoRequest, _always),
        Door(subjects.pump(CLUSTER, pump, "write"), writes, None, _stores),
        Door(subjects.pump(CLUSTER, pump, "pull"), pulls, None, _moves),
        _json_door(
            subjects.pump(CLUSTER, pump, "control"), ControlRequest, lambda b: b.verb in looks
        ),
        _json_door(subjects.drainer(CLUSTER, drainer, "control"), DrainerRequest, _never),
        _json_door(subjects.drainer(CLUSTER, drainer, "pump-online"), messages.PumpOnline, _never),
        _json_door(subjects.drainer(CLUSTER, drainer, "rewind"), Rewind, _never),
        _json_door(subjects.applier(CLUSTER, applier, "control"), ApplierRequest, _never),
        _json_door(backfill("submit"), Submit, _always),
        _json_door(backfill("status"), AskJobs, _always),
        _json_door(backfill("cancel"), Cancel, _always),
        _json_door(backfill("event.x"), JobStatus, _always, answered=False),
        _json_door(subjects.txnstatus(CLUSTER), messages.TxnStatusRequest, _never),
        _json_door(
            subjects.registry_event(CLUSTER, "state", pump),
            messages.NodeStatus,
            _never,
            answered=False,
        ),
    ]


class Stranger:
    """Says `count` things at all doors, so many at once."""

    def __init__(
        self, bus: Bus, rng: random.Random, count: int, talk: Talk, spoken_to: list[Door]
    ) -> None:
        self._bus = bus
        self._rng = rng
        self._left = count
        self._talk = talk
        self._doors = spoken_to
        self._seeds = [seed for door in self._doors for seed in door.seeds]

    async def speak(self) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(AT_ONCE):
                group.create_task(self._one_after_the_other())

    async def _one_after_the_other(self) -> None:
        while self._left > 0:
            self._left -= 1
            door = self._rng.choice(self._doors)
            await self._say(door, self._input(door))

    def _input(self, door: Door) -> bytes:
        form: Form = "proto" if door.kind is None else "json"
        while True:
            data = mutated(self._rng, self._rng.choice(door.seeds), form, self._seeds)
            if not door.lets_in(data):
                return data

    async def _say(self, door: Door, data: bytes) -> None:
        self._talk.inputs += 1
        if not door.answered:
            await self._bus.publish(door.subject, data)
            return
        try:
            answer = (await self._bus.request(door.subject, data, timeout_s=ANSWER_S)).data
        except DeadlineExceeded:
            self._talk.wrong.append(f"{door.subject} gave no answer to {data[:300]!r}")
            return
        what = self._judged(door, answer)
        self._talk.answers[what] += 1
        if UNFORESEEN in answer or what == "InvariantBroken":
            self._talk.wrong.append(f"{door.subject} said {answer[:300]!r} to {data[:300]!r}")

    def _judged(self, door: Door, answer: bytes) -> str:
        """The code of the error, or "answered"."""
        if door.subject.endswith(".write"):
            codes = {result.code for result in WriteBatchResult.FromString(answer).results}
            return ",".join(sorted(codes)) or "answered"
        if door.subject.endswith(".pull"):
            return PullFrame.FromString(answer).code or "answered"
        found = msgspec.json.decode(answer)
        return str(found["code"]) if found.get("error") == "error" else "answered"


def calm(seed: int) -> Plan:
    """A topology and a load, without any fault of its own."""
    plan = next(p for p in map(draw, range(seed, seed + 900)) if not p.faults and not p.events)
    alone = replace(plan.appliers, standby=False)  # a standby serves no questions
    return replace(
        plan, pumps=2, transactions=120, rate=20.0, hold=0.0, dead_share=0.0, gc_s=0.0,
        standby=False, appliers=alone,
    )  # fmt: skip


def talk(inputs: int, seed: int) -> Talk:
    """One history in which a stranger says so much. What is wrong is in the answer."""
    told = Talk()
    clusters: list[Cluster] = []
    speaking: list[asyncio.Task[None]] = []

    def prepare(cluster: Cluster) -> None:
        world = cluster.world
        clusters.append(cluster)
        runner = Clockwork(world)
        build = partial(build_backfill, runner=runner)
        world.node("backfill").start(build, BackfillConfig(cluster=CLUSTER, node_id="backfill"))
        ports, rng = world.ports("stranger"), world.random("stranger")
        speaking.append(world.loop.create_task(_when_it_flows(cluster, ports, rng, inputs, told)))

    history = play(seed, plan=calm(seed % 900), prepare=prepare)
    told.transactions = history.transactions
    told.wrong += [f"{what}, {count} times" for what, count in history.failures.items()]
    if not history.findings.clean:
        told.wrong.append(history.findings.text(seed))
    for task in speaking:
        if not task.done() or task.cancelled() or task.exception() is not None:
            told.wrong.append(f"the stranger could not say all: {task}")
    if not history.transactions:
        told.wrong.append("no transaction was committed meanwhile")
    told.ends = f"{'':13} {history.transactions} transactions meanwhile, all as they were acked"
    return told


async def _when_it_flows(
    cluster: Cluster, ports: Ports, rng: random.Random, inputs: int, told: Talk
) -> None:
    """Speak while transactions go through; then nobody may have been started anew."""
    database = cluster.database

    def flows() -> bool:
        return database.checkpoint is not None and bool(cluster.ledger.committed)

    await cluster.world.until(flows, 60, "a first transaction")
    await Stranger(ports.bus, rng, inputs, told, doors()).speak()
    nodes: list[Node] = [*cluster.services, cluster.world.node("backfill")]
    for node in nodes:
        restarts = getattr(node.service, "restarts_total", 0)
        if node.starts != bool(node.service) or restarts:
            told.wrong.append(f"{node.name} was started {node.starts} times, {restarts} restarts")
