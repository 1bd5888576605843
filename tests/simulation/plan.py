"""What one seed draws: a topology, a load and a mix of faults (swarm testing, reliability R2)."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Literal

from tidelog.sim.disk import DiskFaults
from tidelog.sim.downstream import DatabaseFaults
from tidelog.sim.faults import NetFaults

ACTIONS = (
    "kill pump",
    "kill drainer",
    "kill registry",
    "kill applier",
    "kill auditor",
    "stop pump",
    "partition",
    "server restart",
    "io error",
    "disk full",
    "store deleted",
    "store rolled back",
    "membership lost",
    "slow index",
    "status lost",
    "clock jump",
    "slow disk",
    "bad disk",
    "index fails",
    "stream full",
    "stop drainer",
    "stop applier",
)
EVENTS = (
    "pause pump",
    "pause drainer",
    "offline",
    "accept loss",
    "freeze drainer",
    "freeze registry",
    "registry wiped",
)
"""What `operator.py` does beside the faults."""
FREEZE_APPLIER = "freeze applier"
LEAVING = ("offline drainer", "offline applier")
"""Nobody keeps for it what the server loses meanwhile."""
MORE_EVENTS = ("freeze pump", "pause applier", "second thoughts")
"""Drawn from sources of their own."""
ALL_EVENTS = (*EVENTS, FREEZE_APPLIER, *MORE_EVENTS, *LEAVING)
TAKEOVER = "takeover"
"""A standby went on where the leader was: what follows from the others."""
WEAR = (
    "clock jump",
    "slow disk",
    "bad disk",
    "index fails",
    "stream full",
    "stop drainer",
    "stop applier",
)
TIDB_FROM = 1_000_000
"""Seeds from here on are of clusters whose oracle is `pd`."""
PD_MOVES, PD_FREEZES, PD_OLD = (
    "PD's leader moves",
    "PD's leader freezes",
    "PD's old leader is named",
)
PD_SILENT, PD_AWAY = "PD says nothing", "PD's members are away"
SPLITS, MOVES = "region splits", "region's leader moves"
STORE_SILENT, STORE_AWAY = "store says nothing", "store is away"
TIDB_FAULTS = (
    PD_MOVES,
    PD_FREEZES,
    PD_OLD,
    PD_SILENT,
    PD_AWAY,
    SPLITS,
    MOVES,
    STORE_SILENT,
    STORE_AWAY,
)
"""What `tidb_faults.py` does."""
OF_ITS_OWN = ("slow index", "status lost", *WEAR)
"""Drawn from a source of its own each, so that the other faults' seeds stay what they were."""


@dataclass(frozen=True)
class Appliers:
    """Of the one feed. `relay_bytes`: of one relay file, 0 = no relay log; `standby`: a second
    one stands by."""

    mode: Literal["parallel", "atomic"] = "parallel"
    lanes: int = 4
    txn_batch: int = 5000
    relay_bytes: int = 10 << 20
    standby: bool = False


@dataclass(frozen=True)
class SecondFeed:
    """Of the same cluster, with a Drainer and a reader of its own. `ignores`: the kinds of row
    events that it leaves out; `applied`: an Applier reads it, too."""

    ignores: tuple[str, ...] = ()
    applied: bool = False


@dataclass(frozen=True)
class Tidb:
    """A TiDB cluster whose PD gives the timestamps, and TiKV the verdicts. `faults`: one of them
    each `pause_s` on average; `never`: see `tidb.Tikv`."""

    faults: tuple[str, ...] = ()
    pause_s: float = 1.0
    txn_timeout_s: float = 600.0
    lock_ttl_ms: int = 3000
    skew_ms: int = 0
    never: int = 2


@dataclass(frozen=True)
class Plan:
    """Times in virtual seconds. `faults`: how often each action is drawn, relative to others."""

    seed: int
    pumps: int
    strategy: str
    transactions: int
    clients: int
    rate: float
    ddl_share: float
    net: NetFaults
    disk: DiskFaults
    database: DatabaseFaults
    faults: dict[str, int]
    pause_s: float
    from_the_start: bool
    """Faults come while the first tables are made, too."""
    skew_ms: int
    segment_bytes: int
    follow: bool
    """The Pumps ask no oracle; the registry's still gives the load its timestamps."""
    pull_bytes: int
    late_s: tuple[float, ...]
    """Pumps beyond `pumps` that join so long after the load's first transaction."""
    hold: float
    """How often a task's step is held back while others go on."""
    away: str
    """What happens to the Drainer while they join, until after its lease: "", "kill", "cut"."""
    dead_share: float = 0.03
    """How many of the load's clients die within a transaction."""
    rollback_share: float = 0.05
    """How many of its transactions are rolled back."""
    standby: bool = False
    """A second Drainer of the feed."""
    appliers: Appliers = Appliers()
    second: SecondFeed | None = None
    settled: bool = False
    """The load begins when the Drainer trusts the new membership bucket and emits."""
    index_buffer: int = 16 << 20
    slow_write_s: float = 1.0
    """What a Pump keeps for an index that is slow, and when the chaser takes over."""
    gc_s: float = 0.0
    gc_interval_s: float = 0.0
    """The Pumps' retention and how often they collect; 0 = as by default, longer than any run."""
    events: tuple[tuple[str, float], ...] = ()
    """Of ALL_EVENTS, and how long after the load's first transaction each begins."""
    liveness_s: float = 60.0
    """Within what all that was committed has to arrive once nothing goes wrong any more."""

    tidb: Tidb | None = None
    """None: the registry gives the timestamps, and the load the verdicts."""

    def __str__(self) -> str:
        mix = ", ".join(f"{name} {weight}" for name, weight in self.faults.items())
        return (
            f"seed {self.seed}: {self.pumps} pumps{' that follow' if self.follow else ''}, late"
            f" ones at {self.late_s} with the Drainer {self.away or 'there'}, pulls of"
            f" {self.pull_bytes} bytes, steps held {self.hold}, {self.transactions} transactions by"
            f" {self.clients} clients at {self.rate:.0f}/s, {self.net}, {self.disk},"
            f" {self.database}, {self.index_buffer} bytes for the index and {self.slow_write_s} s,"
            f" gc of {self.gc_s} s each {self.gc_interval_s} s, segments of {self.segment_bytes}"
            f" bytes, {'a standby, ' * self.standby}{self.appliers}, {self.second},"
            f" {self.events}, {self.tidb},"
            f" a fault each {self.pause_s:.2f} s of {mix}"
        )


def draw(seed: int, allowed: tuple[str, ...] = ACTIONS) -> Plan:
    """The plan of a seed. Each seed leaves some kinds of faults out, so that others stand out."""
    rng = random.Random(f"plan/{seed}")
    drawn = [name for name in allowed if name not in OF_ITS_OWN]
    faults = {name: rng.choice((0, 1, 1, 3)) for name in drawn}
    # Losing the server's store takes everything else with it for seconds: rarely.
    for rare in ("store deleted", "store rolled back", "membership lost"):
        if rare in faults and rng.random() < 0.7:
            faults[rare] = 0
    calm = rng.random() < 0.1
    late = rng.random() < 0.33
    transactions, rate = rng.choice((30, 60, 120)), rng.choice((20.0, 60.0, 200.0))
    if late:
        rate = min(rate, 60.0)
    lasts_s = transactions / rate
    plan = Plan(
        seed=seed,
        pumps=rng.randint(1, 4),
        strategy=rng.choice(("range", "hash")),
        transactions=transactions,
        clients=rng.randint(1, 8),
        rate=rate,
        ddl_share=rng.choice((0.0, 0.02, 0.1)),
        net=_net(rng) if not calm else NetFaults(),
        disk=DiskFaults(
            sync_s=rng.choice((0.0003, 0.001, 0.01)),
            stall_chance=rng.choice((0.0, 0.01)),
            stall_s=rng.choice((0.05, 0.5)),
        ),
        database=DatabaseFaults(
            delay_s=rng.choice((0.0005, 0.005)),
            refused=rng.choice((0.0, 0.05)),
            unknown=rng.choice((0.0, 0.05)),
        ),
        faults={} if calm else faults,
        pause_s=rng.choice((0.2, 0.5, 1.5)),
        from_the_start=rng.random() < 0.2,
        skew_ms=rng.choice((0, 0, 50, 2000)),
        segment_bytes=rng.choice((4 << 10, 64 << 10, 500 << 20)),
        follow=rng.random() < 0.3,
        pull_bytes=rng.choice((4 << 20, 4 << 20, 4 << 10, 1 << 10)),
        late_s=tuple(rng.random() * lasts_s for _ in range(rng.randint(1, 2) if late else 0)),
        hold=rng.choice((0.0, 0.0, 0.003, 0.02)),
        away=rng.choice(("", "kill", "cut")) if late and not calm else "",
    )
    if not calm and "slow index" in allowed:
        plan = _with_slow_indexes(plan)
    if not calm and "status lost" in allowed:
        plan = _with_status_lost(plan)
    plan = _with_standby(_with_gc(plan))
    plan = _with_appliers(plan if calm else _with_events(plan), calm=calm)
    if not calm:
        plan = _with_more_events(_with_wear(plan, allowed))
    return _with_tidb(_with_second_feed(_with_fifth_pump(plan)), calm=calm)


def _with_tidb(plan: Plan, *, calm: bool) -> Plan:
    """In each seed from TIDB_FROM on, and in none below: those stay what they were."""
    if plan.seed < TIDB_FROM:
        return plan
    rng = random.Random(f"plan/{plan.seed}/pd")
    tidb = Tidb(
        faults=() if calm else tuple(rng.sample(TIDB_FAULTS, rng.randint(2, 6))),
        pause_s=rng.choice((0.3, 1.0, 2.0)),
        txn_timeout_s=rng.choice((1.5, 2.5, 600.0)),
        lock_ttl_ms=rng.choice((300, 1500, 3000)),
        skew_ms=rng.choice((0, 100, 2000)),
        never=rng.choice((1, 2)),
    )
    share = rng.choice((plan.dead_share, 0.1, 0.2))
    return replace(plan, follow=False, tidb=tidb, dead_share=share)


def _with_events(plan: Plan) -> Plan:
    """In half of the seeds, of a source of its own, under a load that lasts long enough."""
    rng = random.Random(f"plan/{plan.seed}/operator")
    if rng.random() < 0.5:
        return plan
    rate = min(plan.rate, 20.0)
    lasts_s = plan.transactions / rate
    begin = {event: rng.random() * 0.7 * lasts_s for event in EVENTS}
    if plan.late_s:
        # Just before a Pump joins, which the Drainer then hears of by source 0 alone.
        begin["freeze drainer"] = max(0.0, min(plan.late_s) - 0.2)
    events = rng.sample(EVENTS, rng.choice((1, 1, 2)))
    return replace(plan, rate=rate, events=tuple((event, begin[event]) for event in events))


def _with_standby(plan: Plan) -> Plan:
    """In a third of the seeds, of a source of its own."""
    return replace(plan, standby=random.Random(f"plan/{plan.seed}/standby").random() < 0.33)


def _with_appliers(plan: Plan, *, calm: bool) -> Plan:
    """Of a source of its own."""
    rng = random.Random(f"plan/{plan.seed}/applier")
    appliers = Appliers(
        rng.choice(("parallel", "parallel", "atomic")),
        rng.choice((1, 2, 4)),
        rng.choice((2, 10, 5000)),
        rng.choice((0, 2 << 10, 10 << 20)),
        rng.random() < 0.4,
    )
    events = plan.events
    if not calm and rng.random() < 0.25:
        lasts_s = plan.transactions / plan.rate
        events = (*events, (FREEZE_APPLIER, rng.random() * 0.7 * lasts_s))
    return replace(plan, appliers=appliers, events=events)


def _with_more_events(plan: Plan) -> Plan:
    """In a quarter of the seeds, of a source of its own; that a reader leaves in half of those
    where nothing may be lost meanwhile."""
    rng = random.Random(f"plan/{plan.seed}/more events")
    loses = plan.faults.get("store deleted") or plan.faults.get("store rolled back") or plan.gc_s
    chosen: tuple[str, ...] = () if rng.random() > 0.25 else (rng.choice(MORE_EVENTS),)
    if not loses and rng.random() < 0.5:
        chosen += (rng.choice(LEAVING),)
    lasts_s = plan.transactions / plan.rate
    begin = tuple((event, rng.random() * 0.7 * lasts_s) for event in chosen)
    return replace(plan, events=(*plan.events, *begin))


def _with_wear(plan: Plan, allowed: tuple[str, ...]) -> Plan:
    """In a third of the seeds, of a source of its own: one or two of these faults."""
    rng = random.Random(f"plan/{plan.seed}/wear")
    if rng.random() > 0.34:
        return plan
    drawn = [name for name in rng.sample(WEAR, rng.choice((1, 2))) if name in allowed]
    return replace(plan, faults=plan.faults | {name: rng.choice((1, 3)) for name in drawn})


def _with_fifth_pump(plan: Plan) -> Plan:
    """In a third of the seeds with four, of a source of its own."""
    fifth = random.Random(f"plan/{plan.seed}/pumps").random() < 0.33
    return replace(plan, pumps=5) if plan.pumps == 4 and fifth else plan


def _with_second_feed(plan: Plan) -> Plan:
    """In a quarter of the seeds, of a source of its own."""
    rng = random.Random(f"plan/{plan.seed}/second feed")
    if rng.random() > 0.25:
        return plan
    ignores = rng.choice(((), (), ("delete",), ("update",), ("insert", "update")))
    return replace(plan, second=SecondFeed(ignores, applied=not ignores and rng.random() < 0.5))


def _with_gc(plan: Plan) -> Plan:
    """In a third of the seeds, of a source of its own: segments that are old after a moment. Not
    where the store is rolled back: the Drainer pulls what its stream lost again, though every
    consumer has it, and a retention of seconds does not wait for that."""
    rng = random.Random(f"plan/{plan.seed}/gc")
    if rng.random() > 0.34 or plan.faults.get("store rolled back"):
        return plan
    return replace(
        plan,
        gc_s=rng.choice((0.2, 1.0, 3.0)),
        gc_interval_s=rng.choice((0.1, 0.5, 2.0)),
        segment_bytes=rng.choice((600, 2 << 10, 4 << 10)),
    )


def _with_status_lost(plan: Plan) -> Plan:
    weight = random.Random(f"plan/{plan.seed}/status").choice((0, 0, 0, 2))
    return replace(plan, faults=plan.faults | {"status lost": weight}) if weight else plan


def _with_slow_indexes(plan: Plan) -> Plan:
    """In half of the seeds, of a source of its own: the others stay what they were without it. A
    small buffer, so that the chaser is on where a history is short."""
    rng = random.Random(f"plan/{plan.seed}/index")
    weight = rng.choice((0, 0, 3, 15))
    if not weight:
        return plan
    return replace(
        plan,
        faults=plan.faults | {"slow index": weight},
        index_buffer=rng.choice((256, 256, 1024)),
        slow_write_s=rng.choice((0.02, 0.1, 1.0)),
    )


def _net(rng: random.Random) -> NetFaults:
    return NetFaults(
        delay_s=rng.choice((0.0002, 0.001, 0.005)),
        tail_chance=rng.choice((0.0, 0.01, 0.05)),
        tail_s=rng.choice((0.02, 0.3)),
        loss=rng.choice((0.0, 0.01, 0.05)),
        duplicate=rng.choice((0.0, 0.01, 0.05)),
        unknown=rng.choice((0.0, 0.02)),
        late=rng.choice((0.0, 0.5)),
    )
