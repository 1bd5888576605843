"""A failpoint fires in a simulated history: its node dies, its call fails, its task stands still.

The same seed is the same history up to the instant where the point fires. So a history without it
(`Reach`) says which points it passes and how often, and one that is played again with the point
armed at one of these passages fires for certain.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import msgspec

from tests.planted.schedules import calm
from tests.simulation.cluster import Cluster, History, play
from tests.simulation.plan import Appliers, Plan
from tidelog import failpoints
from tidelog.sim import Node, SimulationError
from tidelog.sim.disk import DiskFaults
from tidelog.sim.faults import NetFaults
from tidelog.sim.life import current_life
from tidelog_drainer.config import DrainerConfig

ACTIONS = ("kill", "raise", "stall")
STALLS_S = (0.05, 0.8, 7.5)
"""The last one outlives every lease."""
BACK_S = (0.0, 0.4, 5.0)
BATCH_MESSAGES = 2
"""Of an atomic batch: a transaction over some tables takes several."""
WHO = {
    "pump": ("pump",),
    "drainer": ("drainer",),
    "applier": ("applier",),
    "registry": ("registry",),
    "client": ("workload",),
    "node": ("pump", "drainer", "applier", "auditor"),
    "reader": ("applier", "auditor"),
}
"""By a name's first word the nodes that may pass there."""


def busy(seed: int) -> Plan:
    """Everybody twice, a Pump that joins, DDLs, clients that die, retention, orders."""
    plan = calm(seed, pumps=2, transactions=60, rate=25.0, rollback_share=0.1)
    return replace(
        plan,
        late_s=(0.7,),
        ddl_share=0.1,
        dead_share=0.1,
        net=NetFaults(loss=0.01, duplicate=0.01, unknown=0.01, tail_chance=0.01, tail_s=0.02),
        disk=DiskFaults(sync_s=0.001),
        standby=True,
        appliers=Appliers(("parallel", "atomic")[seed % 2], 3, 5, 2 << 10, standby=True),
        segment_bytes=1 << 10,
        gc_s=0.2,
        gc_interval_s=0.2,
        faults={
            "kill drainer": 1,
            "kill applier": 1,
            "kill pump": 1,
            "stop pump": 1,
            "stop drainer": 1,
        },
        pause_s=0.7,
        events=(("pause drainer", 0.4), ("offline", 1.0)),
        liveness_s=60.0,
    )


def slow(seed: int) -> Plan:
    """Indexes that don't keep up, on a slow disk."""
    plan = calm(seed, pumps=2, transactions=80, clients=6, index_buffer=256, slow_write_s=0.02)
    faults = {"slow index": 6, "kill pump": 1}
    return replace(plan, faults=faults, pause_s=0.15, disk=DiskFaults(sync_s=0.004))


def without_a_store(seed: int) -> Plan:
    """JetStream's store is deleted, once or twice, and what was in it made anew."""
    plan = calm(seed, pumps=2, transactions=60, rate=15.0)
    faults = {"store deleted": 1, "kill registry": 1, "membership lost": 1}
    return replace(plan, ddl_share=0.05, faults=faults, pause_s=1.5, liveness_s=60.0)


def cut_off(seed: int) -> Plan:
    """A network that loses answers, and machines off it: Prewrites go to a second Pump."""
    plan = calm(seed, pumps=3, transactions=120, rate=40.0, follow=seed % 2 == 0)
    net = NetFaults(loss=0.04, duplicate=0.03, unknown=0.04, tail_chance=0.05, tail_s=0.3, late=0.5)
    faults = {"partition": 3, "kill pump": 1, "server restart": 1}
    return replace(plan, net=net, faults=faults, pause_s=0.5, dead_share=0.05, liveness_s=60.0)


SCENES: tuple[Callable[[int], Plan], ...] = (busy, slow, without_a_store, cut_off)


@dataclass(frozen=True)
class Reach:
    """What the history of a scene and a seed passes, and that it is clean."""

    scene: int
    seed: int
    hits: Counter[str]
    history: History


@dataclass(frozen=True)
class Case:
    """Fire `point` at its `at`-th passage in that history."""

    point: str
    action: str
    scene: int
    seed: int
    at: int


@dataclass(frozen=True)
class Outcome:
    case: Case
    fired: bool
    history: History


def reach(scene: int, seed: int) -> Reach:
    failpoints.disarm_all()
    failpoints.arm("", lambda: None)
    try:
        history = play(seed, plan=SCENES[scene](seed), prepare=_prepare)
        return Reach(scene, seed, Counter(failpoints.hits), history)
    finally:
        failpoints.disarm_all()


def fire(case: Case) -> Outcome:
    failpoints.disarm_all()
    fired: list[str] = []

    def prepare(cluster: Cluster) -> None:
        _prepare(cluster)
        failpoints.arm(case.point, partial(_once, cluster, case, fired), case.at)

    try:
        history = play(case.seed, plan=SCENES[case.scene](case.seed), prepare=prepare)
    finally:
        failpoints.disarm_all()
    return Outcome(case, bool(fired), history)


def _prepare(cluster: Cluster) -> None:
    """Small atomic batches; and the load belongs to a process, so that its tasks can be held."""
    for node in cluster.drainers:
        node.start = partial(_start_drainer, node.start)  # type: ignore[method-assign]
    cluster._load = partial(_as_process, cluster, cluster._load)  # type: ignore[method-assign]


def _start_drainer(start: Callable[..., None], build: Any, config: DrainerConfig) -> None:
    start(build, msgspec.structs.replace(config, batch_messages=BATCH_MESSAGES))


async def _as_process(
    cluster: Cluster,
    load: Callable[[asyncio.Event], Coroutine[Any, Any, None]],
    stop: asyncio.Event,
) -> None:
    node = cluster.world.node("workload")
    current_life.set(node._life)
    await load(stop)


def _once(cluster: Cluster, case: Case, fired: list[str]) -> None:
    if fired:
        return
    life = current_life.get()
    who = life.name if life is not None else "nobody"
    if who.split("-")[0] not in WHO[case.point.split(".")[0]]:
        raise SimulationError(f"{case.point} was passed by {who}")
    fired.append(who)
    world = cluster.world
    rng = world.random(f"failpoint/{case}")
    world.trace.event(who, "failpoint", f"{case.point} {case.action}")
    node = world.nodes[who]
    match case.action:
        case "kill":
            _die(node, rng)
        case "raise":
            raise failpoints.failure(case.point)
        case _:
            _hold(node, rng.choice(STALLS_S))


def _die(node: Node, rng: random.Random) -> None:
    """Its power fails, and nothing of this step happens any more."""
    life = node._life
    node.kill(restart_after_s=rng.random() * rng.choice(BACK_S))
    assert life is not None
    life.check()


def _hold(node: Node, seconds: float) -> None:
    """This task takes no further step for so long, while all others go on; a thread's result
    doesn't come: there the whole process."""
    task, loop = _current_task(), node._world.loop
    if task is None:
        loop.freeze(node.name, seconds)
    else:
        loop.stall(node.name, task.get_name(), seconds)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
