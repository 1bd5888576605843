"""What happens to the cluster, in which order: drawn from a seed. Pure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

PUMPS = 4
KILLS = 5
"""Of the registry and of NATS each, in a full run; a quarter of the run has one."""


class Change(Enum):
    """What is done to the nodes; `_FROZEN`: while the Drainer is frozen beyond its lease."""

    JOIN = "join"
    JOIN_FROZEN = "join while the Drainer is frozen"
    PAUSE = "pause"
    RESUME = "resume"
    KILL = "kill -9 and return"
    OFFLINE = "offline"
    OFFLINE_FROZEN = "offline while the Drainer is frozen"


class Outage(Enum):
    REGISTRY = "registry"
    NATS = "nats"


@dataclass(frozen=True)
class Step:
    """`outages` happen one after another while the change is under way."""

    change: Change
    pump: int
    outages: tuple[Outage, ...] = ()

    def __str__(self) -> str:
        beside = "".join(f", {outage.value} killed" for outage in self.outages)
        return f"{self.change.value} pump-{self.pump}{beside}"


def script(seed: int, *, quarter: bool) -> list[Step]:
    """1 -> 4 -> 2 Pumps. A frozen Drainer and an outage don't meet: which Drainers live must be
    known to the registry for the lease to be what is tried."""
    rng = random.Random(seed)
    paused, killed = rng.randint(1, PUMPS), rng.randint(1, PUMPS)
    first, second = rng.sample(range(1, PUMPS + 1), 2)
    steps = [
        (Change.JOIN, 2),
        (Change.JOIN_FROZEN, 3),
        (Change.JOIN, 4),
        (Change.PAUSE, paused),
        (Change.RESUME, paused),
        (Change.KILL, killed),
        (Change.OFFLINE_FROZEN, first),
        (Change.OFFLINE, second),
    ]
    frozen = (Change.JOIN_FROZEN, Change.OFFLINE_FROZEN)
    calm = [at for at, (change, _) in enumerate(steps) if change not in frozen]
    outages: dict[int, list[Outage]] = {at: [] for at in range(len(steps))}
    for outage in Outage:
        for _ in range(1 if quarter else KILLS):
            outages[rng.choice(calm)].append(outage)
    for met in outages.values():
        rng.shuffle(met)
    return [Step(change, pump, tuple(outages[at])) for at, (change, pump) in enumerate(steps)]
