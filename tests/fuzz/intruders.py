"""A stranger in a feed's stream: one message among those of a Drainer, in a simulated cluster.

Whoever may write there is trusted (only a Drainer is, docs/security.md); so a feed may stop at what
nobody wrote. It says so by a typed error, nothing that was there before is lost, doubled or out of
order, and nothing of the stranger's is applied.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass, field

from tests.fuzz.reader_inputs import one_sent
from tests.fuzz.strangers import calm
from tests.simulation.cluster import FEED, Cluster, play
from tidelog import subjects
from tidelog.errors import TidelogError
from tidelog.ports import Outgoing

LIVENESS = "no liveness"


@dataclass
class Intrusion:
    """`outcome`: "went on", or the classes of the errors that it stands at."""

    seed: int
    subject: str = ""
    outcome: str = ""
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

    def prepare(cluster: Cluster) -> None:
        clusters.append(cluster)
        # They read who wrote each message, and what it links to, which of the stranger's nobody can
        # say.
        vars(cluster)["takeovers"] = lambda: 0
        vars(cluster)["check_stored"] = lambda feed, findings: None
        cluster.world.loop.create_task(write(cluster))

    history = play(seed, plan=calm(seed % 900), prepare=prepare)
    findings = history.findings
    told.wrong += findings.loss if not any(LIVENESS in one for one in findings.other) else []
    told.wrong += [*findings.duplicates, *findings.order]
    failures = [error for node in clusters[0].services for error in node.failures]
    told.wrong += [f"{e!r} ended a process" for e in failures if not isinstance(e, TidelogError)]
    stands = {type(error).__name__ for error in failures}
    told.outcome = ", ".join(sorted(stands)) or ("stands" if not findings.clean else "went on")
    if not told.subject:
        told.wrong.append("the stranger never wrote")
    return told


def intrusions(seeds: range) -> tuple[Counter[str], list[str]]:
    found = [intrude(seed) for seed in seeds]
    wrong = [f"seed {one.seed}, {one.subject}: {line}" for one in found for line in one.wrong]
    return Counter(one.outcome for one in found), wrong
