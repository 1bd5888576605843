"""A stranger in a feed's stream: one message among those of a Drainer, in a simulated cluster.

Whoever may write there is trusted (only a Drainer is, docs/security.md); so a feed may stop at what
nobody wrote. It says so by a typed error, in a status or as a process ends; nothing that was there
before is lost, doubled or out of order, and nothing of the stranger's is applied.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain

from tests.fuzz.reader_inputs import one_sent
from tests.fuzz.strangers import calm
from tests.simulation.cluster import FEED, Cluster, play
from tests.simulation.contents import name_differences
from tidelog import subjects
from tidelog.errors import TidelogError
from tidelog.ports import Outgoing
from tidelog.sim import Node
from tidelog.sim.checker import Findings

LIVENESS = "no liveness"
LOOK_S = 1.0


@dataclass
class Intrusion:
    """`outcome`: "went on", or the classes of the errors that ended processes, or "stands, and says
    so". `says`: the errors that the nodes' statuses name."""

    seed: int
    subject: str = ""
    outcome: str = ""
    says: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)


def intrude(seed: int) -> Intrusion:
    """One history, one message."""
    told = Intrusion(seed)
    clusters: list[Cluster] = []

    async def write(cluster: Cluster) -> None:
        world, rng = cluster.world, random.Random(f"intruder/{seed}")
        stream = subjects.changes_stream(FEED)
        await world.until(lambda: cluster.read_ts() > 0, 60, "a first transaction")
        await asyncio.sleep(rng.random())
        sent = one_sent(rng, FEED)
        told.subject = sent.subject
        await world.ports("intruder").bus.append(
            stream, [Outgoing(sent.subject, sent.data, sent.headers)]
        )

    async def look(cluster: Cluster) -> None:
        while True:
            told.says = complaints(cluster.services)
            await cluster.world.sleep(LOOK_S)

    def prepare(cluster: Cluster) -> None:
        clusters.append(cluster)
        # They read who wrote each message, and what it links to, which of the stranger's nobody can
        # say.
        vars(cluster)["takeovers"] = lambda: 0
        vars(cluster)["check_stored"] = lambda feed, findings: None
        cluster.world.loop.create_task(write(cluster))
        cluster.world.loop.create_task(look(cluster))

    findings = play(seed, plan=calm(seed % 900), prepare=prepare).findings
    (cluster,) = clusters
    told.wrong += wrong_with(cluster, findings)
    failures = [error for node in cluster.services for error in node.failures]
    told.wrong += [f"{e!r} ended a process" for e in failures if not isinstance(e, TidelogError)]
    stands = not cluster.arrived
    if stands and not (told.says or failures):
        told.wrong.append("it stands still, and nobody says why")
    ended_by = {type(error).__name__ for error in failures}
    told.outcome = ", ".join(sorted(ended_by)) or ("stands, and says so" if stands else "went on")
    if not told.subject:
        told.wrong.append("the stranger never wrote")
    return told


def complaints(nodes: Iterable[Node]) -> list[str]:
    """The errors that their statuses name."""
    statuses = ((node.name, node.status()) for node in nodes)
    return [
        f"{name}: {actor['error']}"
        for name, status in statuses
        if isinstance(status, dict)
        for actor in status.values()
        if actor.get("error")
    ]


def wrong_with(cluster: Cluster, findings: Findings) -> list[str]:
    """All that was found, but for what a feed that stands still by a typed error brings with it: a
    service that stopped, a reader that sees a gap, and a downstream that is behind."""
    found = findings.kinds()
    stopped = tuple(f"{node.name} stopped: " for node in cluster.services)
    expected = [line for line in findings.other if line.startswith((LIVENESS, *stopped))]
    if not cluster.arrived:
        expected += [*findings.gaps, *_behind(cluster)]
    return [line for line in chain.from_iterable(found.values()) if line not in expected]


def _behind(cluster: Cluster) -> Iterable[str]:
    """How the downstream differs in the databases that upstream has; the stranger's is another."""
    workload, behind = cluster.workload, Findings()
    held = [place for place in cluster.database.tables if place[0] in workload.config.databases]
    name_differences(behind, workload.source.contents(), held, cluster._held)
    return chain.from_iterable(behind.kinds().values())


def intrusions(seeds: range) -> tuple[Counter[str], list[str]]:
    found = [intrude(seed) for seed in seeds]
    wrong = [f"seed {one.seed}, {one.subject}: {line}" for one in found for line in one.wrong]
    return Counter(one.outcome for one in found), wrong
