"""One history: a whole cluster built by the services' own `build`, its load, faults, and verdict.

Safety phase: transactions while faults come as the seed's plan says. Liveness phase: everything
heals, and all that was committed has to arrive within `liveness_s` virtual seconds of the plan.
Then the checker.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, pairwise
from typing import Any

from tests.simulation import reach
from tests.simulation.auditor import AuditorConfig, build_auditor
from tests.simulation.chaos import Chaos
from tests.simulation.contents import name_differences
from tests.simulation.copy_watch import CopyWatch
from tests.simulation.created import created
from tests.simulation.operator import Operator
from tests.simulation.plan import TAKEOVER, Plan, draw
from tests.simulation.resolved_watch import ResolvedWatch
from tests.simulation.second_feed import SECOND, URL, Second, started
from tests.simulation.stored import check_stored
from tests.simulation.tidb import TidbCluster
from tests.simulation.tidb_faults import TidbFaults
from tidelog import subjects
from tidelog.ddl_history import open_history
from tidelog.downstream import Downstream, DownstreamOptions
from tidelog.errors import TidelogError
from tidelog.node_statuses import STATUS_TTL_S, read_statuses
from tidelog.ports import Ports
from tidelog.sim import Node, SimulationError, World, run
from tidelog.sim.checker import Findings, Ledger, StreamChecker
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.tables import Doubled
from tidelog.workload import Workload, WorkloadConfig
from tidelog.workload.outcomes import Outcomes
from tidelog_applier.apply import pipeline
from tidelog_applier.config import ApplierConfig, RelayConfig
from tidelog_applier.service import build as build_applier
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.beginning import FEED_FILE
from tidelog_drainer.publish.position import parse_epoch
from tidelog_drainer.service import build as build_drainer
from tidelog_pump.config import PumpConfig, StorageConfig
from tidelog_pump.service import build as build_pump
from tidelog_registry.config import RegistryConfig
from tidelog_registry.members import COPY as MEMBERS_COPY
from tidelog_registry.service import build as build_registry

FEED = "main"
CLUSTER = "default"

SAFETY_S = 60.0
MAX_STEPS = 3_000_000
pipeline.CUT_LEAST = 1
"""Batches of a history are small, and shall be cut all the same."""


@dataclass
class History:
    """The outcome of one seed."""

    seed: int
    findings: Findings = field(default_factory=Findings)
    transactions: int = 0
    faults: int = 0
    reached: Counter[str] = field(default_factory=Counter)
    """How often what `reach.wanted` names came about."""
    restarts: int = 0
    virtual_s: float = 0.0
    steps: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    """What ended processes, by node and error."""
    digest: str = ""
    events: int = 0
    lines: list[str] = field(default_factory=list)


class Cluster:
    def __init__(self, world: World, plan: Plan) -> None:
        self.world = world
        self.plan = plan
        self.findings = Findings()
        self.ledger = Ledger()
        self.feed = FEED
        self.second = Second(world, plan.second, self._node, plan.database) if plan.second else None
        self.checker = StreamChecker(self.findings, self.second.left_out if self.second else ())
        self.arrived = True
        """All that was committed has arrived, or the history is judged without what did not."""
        self.database = SimDatabase(world.random("database"), world.trace, plan.database)
        world.open_downstream = self._open_downstream
        world.open_ddl_history = lambda url, bus: open_history(url, bus, CLUSTER)
        for name, value in vars(plan.net).items():
            setattr(world.net, name, value)
        world.loop.hold_chance = plan.hold
        self.registry = self._node("registry")
        count = plan.pumps + len(plan.late_s)
        self.pumps = [self._node(f"pump-{n}") for n in range(1, count + 1)]
        self.late = self.pumps[plan.pumps :]
        self.given_up: set[str] = set()
        """Pumps whose loss an operator accepted: they have no place in the cluster any more."""
        self.copies_lost = 0
        """How often the registry lost its copy of the members."""
        self.drainer = self._node("drainer")
        self.drainers = [self.drainer, *([self._node("drainer-2")] if plan.standby else [])]
        """Of the first feed."""
        self.all_drainers = [*self.drainers, *([self.second.drainer] if self.second else [])]
        self.applier = self._node("applier")
        self.appliers = [
            self.applier,
            *([self._node("applier-2")] if plan.appliers.standby else []),
        ]
        self.auditor = self._node("auditor")
        self.services = [self.registry, *self.pumps, *self.drainers, *self.appliers, self.auditor]
        if self.second is not None:
            self.services += self.second.nodes
        outcomes = Outcomes()
        self.tidb = TidbCluster(world, plan.tidb, outcomes) if plan.tidb is not None else None
        self.workload = Workload(
            world.ports("workload"),
            WorkloadConfig(
                seed=plan.seed + 1,
                seconds=SAFETY_S,
                transactions=plan.transactions,
                clients=plan.clients,
                rate=plan.rate,
                ddl_share=plan.ddl_share,
                strategy=plan.strategy,
                rows_per_table=20,
                dead_share=plan.dead_share,
                rollback_share=plan.rollback_share,
            ),
            self.ledger.add,
            oracle=self.tidb.oracle() if self.tidb else None,
            outcomes=outcomes,
        )
        self.chaos = Chaos(self)
        self.tidb_faults = self._of_tidb(outcomes)
        self.operator = Operator(self, CLUSTER)
        world.trace.watchers.append(CopyWatch("workload", self.findings).watch)

    def lose_copy(self) -> None:
        """The registry's of the members; the bucket is lost with it."""
        self.registry.disk.lose(MEMBERS_COPY)
        self.copies_lost += 1

    def _of_tidb(self, outcomes: Outcomes) -> TidbFaults | None:
        if self.tidb is None or self.plan.tidb is None:
            return None
        resolved = ResolvedWatch(self.tidb, outcomes, self.findings)
        self.world.trace.watchers.append(resolved.watch)
        return TidbFaults(self.world, self.plan.tidb, self.tidb)

    def _node(self, name: str) -> Node:
        skew = self.world.random(f"skew/{name}").randint(-self.plan.skew_ms, self.plan.skew_ms)
        return self.world.node(name, disk=self.plan.disk, skew_ms=skew)

    def of_kind(self, kind: str) -> list[Node]:
        return [node for node in self.services if node.name.split("-")[0] == kind]

    def start(self) -> None:
        """Everybody at once, as an orchestrator starts a fresh deployment."""
        config = partial(_config, data_dir="")
        oracle = "pd" if self.tidb else "embedded"
        self.registry.start(build_registry, config(RegistryConfig, "registry", oracle=oracle))
        for pump in self.pumps[: self.plan.pumps]:
            self.start_pump(pump)
        for node in self.drainers:
            self.start_drainer(node, FEED)
        for node in self.appliers:
            self.start_applier(node)
        self.start_auditor(self.auditor, FEED, self.checker)
        if self.second is not None:
            started(self, self.second)

    def start_drainer(self, node: Node, feed: str, **filters: Any) -> None:
        settings = filters | {"feed": feed, "pull_bytes": self.plan.pull_bytes}
        node.start(build_drainer, _config(DrainerConfig, node.name, data_dir="", **settings))

    def start_auditor(self, node: Node, feed: str, checker: StreamChecker) -> None:
        auditor: Callable[[Any, Ports], Any] = partial(build_auditor, checker=checker)
        node.start(auditor, _config(AuditorConfig, node.name, data_dir="", feed=feed))

    def start_applier(self, node: Node, feed: str = FEED, url: str = "sim:") -> None:
        drawn = self.plan.appliers
        relay = RelayConfig(
            log_dir="relay" if drawn.relay_bytes else "", max_file_size=drawn.relay_bytes or 1
        )
        settings = {
            "mode": drawn.mode,
            "worker_count": drawn.lanes,
            "txn_batch": drawn.txn_batch,
            "relay": relay,
            "checkpoint_s": 0.5,
            "standby_of": self.applier.name if node in self.appliers[1:] else "",
            "feed": feed,
            "downstream": url,
        }
        node.start(build_applier, _config(ApplierConfig, node.name, data_dir="", **settings))

    def _open_downstream(self, options: DownstreamOptions, life: Life) -> Downstream:
        second = self.second is not None and options.url == URL
        database = self.second.database if self.second and second else self.database
        return database.open(options, life)

    async def create_feed(self, initial_commit_ts: int = 0) -> None:
        """Until its Drainer has begun: a store that is deleted before takes the record along."""
        bus = self.world.ports("creator").bus
        await created(bus, CLUSTER, FEED, initial_commit_ts, until=self._begun)

    async def _create_second(self, second: Second) -> None:
        await created(self.world.ports("creator").bus, CLUSTER, SECOND, until=second.begun)

    def _begun(self) -> bool:
        return any(node.disk.holds(FEED_FILE) for node in self.drainers)

    def start_pump(self, pump: Node) -> None:
        oracle = "follow" if self.plan.follow else "embedded"
        settings = {
            "segment_bytes": self.plan.segment_bytes,
            "oracle": oracle,
            "index_buffer_bytes": self.plan.index_buffer,
            "storage": StorageConfig(slow_write_threshold=self.plan.slow_write_s),
        }
        if self.tidb is not None and self.plan.tidb is not None:
            timeout_s = self.plan.tidb.txn_timeout_s
            settings |= {"oracle": "pd", "upstream": self.tidb.config, "txn_timeout_s": timeout_s}
        if self.plan.gc_s:
            settings |= {
                "gc": f"{self.plan.gc_s}s",
                "gc_interval": f"{self.plan.gc_interval_s}s",
                "gc_hard_cap": "1h",
            }
        pump.start(build_pump, _config(PumpConfig, pump.name, data_dir="", **settings))

    async def live(self) -> None:
        """Both phases and the verdict."""
        world, workload = self.world, self.workload
        stop = asyncio.Event()
        self.start()
        running = world.loop.create_task(self._load(stop), name="workload")
        chaos = world.loop.create_task(self.chaos.run(), name="chaos")
        joins = world.loop.create_task(self.chaos.join_late(), name="late joins")
        wrong = [chaos, joins]
        if self.tidb_faults is not None:
            wrong.append(world.loop.create_task(self.tidb_faults.run(), name="faults of TiDB"))
        operating = world.loop.create_task(self.operator.run(), name="operator")
        creating = [world.loop.create_task(self.create_feed(), name="feed create")]
        if self.second is not None:
            work = self._create_second(self.second)
            creating.append(world.loop.create_task(work, name="second feed create"))
        try:
            await self._safety(running)
            self.operator.no_more = True
            for task in wrong:
                task.cancel()
            await asyncio.wait(wrong)
            for task in wrong:
                with contextlib.suppress(asyncio.CancelledError):
                    task.result()  # a chaos that broke off proves nothing
            self.chaos.heal()
            if self.tidb_faults is not None:
                self.tidb_faults.heal()
            workload.end()
            await self._liveness(running, operating)
        finally:
            for task in (*wrong, operating, *creating):
                task.cancel()
            stop.set()
        if not self.findings.other:
            await asyncio.wait([running])
            await self._statuses()
        self._verdict()

    async def _load(self, stop: asyncio.Event) -> None:
        if self.plan.settled:
            await self.world.until(self._emits, SAFETY_S, "a Drainer that emits")
        await self.workload.run(stop)

    def _emits(self) -> bool:
        status = self.leader.status()
        return isinstance(status, dict) and bool(status.get("collector", {}).get("trusted"))

    @property
    def leader(self) -> Node:
        """The Drainer that leads."""
        return self.leading(self.drainers)

    def leading(self, nodes: list[Node]) -> Node:
        """Who says that it leads; the first where none does."""

        def leads(node: Node) -> bool:
            status = node.status()
            return isinstance(status, dict) and bool(status.get("lease", {}).get("leads"))

        return next(filter(leads, nodes), nodes[0])

    def takeovers(self) -> int:
        """How often another Drainer than the one before wrote to the stream that is there."""
        stream = self.world.nats.streams.get(subjects.changes_stream(FEED))
        slots = stream.slots if stream is not None else []
        found = [parse_epoch(slot.message).node for slot in slots if slot is not None]
        return sum(one != other for one, other in pairwise(found))

    def reached(self) -> Counter[str]:
        """All that came about, by the names of `reach.wanted`."""
        counts = Counter(reach.reached)
        counts.update(self.operator.counts)
        counts.update(self.chaos.counts)
        counts.update({str(fault): times for fault, times in self.world.trace.injected.items()})
        counts[TAKEOVER] += self.takeovers()
        if self.tidb is not None and self.tidb_faults is not None:
            counts.update(self.tidb.counts())
            counts.update(self.tidb_faults.counts)
        return counts

    async def _safety(self, running: asyncio.Task[None]) -> None:
        """Until the load is through, at most SAFETY_S."""
        deadline = self.world.loop.time() + SAFETY_S
        finished = self.workload.finished
        while not (finished.is_set() or running.done() or self.world.loop.time() > deadline):
            await self.world.sleep(0.05)

    async def _liveness(self, running: asyncio.Task[None], *others: asyncio.Task[None]) -> None:
        """All that was committed is in the stream and downstream within `liveness_s`, and every
        order is obeyed."""

        def over() -> bool:
            return all(task.done() for task in others) and self._all_arrived()

        try:
            await self.world.until(
                lambda: running.done() or over(), self.plan.liveness_s, "everything"
            )
        except TimeoutError as error:
            self.arrived = False
            self.findings.other.append(f"no liveness: {self._progress()}\n{error}")
        for task in (running, *others):
            if task.done():
                task.result()

    async def _statuses(self) -> None:
        """The status bucket tells of every node, whatever became of it before."""
        nodes = [node for node in self.services if node not in (self.registry, self.auditor)]
        wanted = {node.name for node in nodes if node not in self.operator.gone} - self.given_up
        told: set[str] = set()
        bus, until_s = self.world.ports("reader").bus, self.world.loop.time() + STATUS_TTL_S
        while not wanted <= told and self.world.loop.time() < until_s:
            await self.world.sleep(0.1)
            with suppress(TidelogError):
                told = {s.nodeId for s in await read_statuses(bus, CLUSTER) if s.isAlive}
        if not wanted <= told:
            self.findings.other.append(f"no status of {', '.join(sorted(wanted - told))}")

    def read_ts(self) -> int:
        """Up to where every reader of the stream has it for good."""
        checkpoint = self.database.checkpoint
        applied = checkpoint.commit_ts if checkpoint is not None else 0
        second = self.second.read_ts() if self.second is not None else applied
        return min(self.checker.position, applied, second)

    def _all_arrived(self) -> bool:
        finished, last = self.workload.finished.is_set(), self.ledger.last_commit_ts
        return finished and self.read_ts() >= last and not self._unacked()

    def _unacked(self) -> int:
        """Not what a Pump that is gone for good would have to ack: its client tries for minutes."""
        backlog, gone = self.workload.client._backlog, {node.name for node in self.operator.gone}
        return backlog.open - sum(item.node in gone for _, _, item in backlog._waiting)

    def _progress(self) -> str:
        checkpoint = self.database.checkpoint
        return (
            f"committed up to {self.ledger.last_commit_ts}, stream {self.checker.position},"
            f" checkpoint {checkpoint}, load {self.workload.counts},"
            f" client {self.workload.client.status()}, under way {self.operator.status()}\n"
            + "\n".join(f"  {node.name}: {node.status()}" for node in self.services)
        )

    def _verdict(self) -> None:
        findings = self.findings
        # Where the stream stands still, only what it has passed is lost.
        self.checker.finish(self.ledger, whole=self.arrived)
        self.check_stored(FEED, findings)
        source = self.workload.source.contents()
        violations = list(self.database.violations)
        if self.second is not None:
            self.second.judge(self.checker, source, whole=self.arrived)
            self.check_stored(SECOND, self.second.findings)
            self.second.report(findings)
            violations += self.second.database.violations
        for violation in violations:
            kind = findings.duplicates if isinstance(violation, Doubled) else findings.other
            kind.append(str(violation))
        for node in self.services:
            for error in node.stopped:
                findings.other.append(f"{node.name} stopped: {type(error).__name__}: {error}")
            for failure in node.failures:
                if isinstance(failure, AssertionError):
                    findings.other.append(f"{node.name} failed an assertion: {failure!r}")

        differences = findings if self.arrived else Findings()
        name_differences(differences, source, self.database.tables, self._held)
        if not self.arrived:  # it holds what it held when the stream stood still
            findings.other += chain.from_iterable(differences.kinds().values())

    def check_stored(self, feed: str, findings: Findings) -> None:
        """See there."""
        check_stored(self.world, feed, findings)

    def _held(self, db: str, table: str) -> list[dict[str, object]] | None:
        return self.database.rows(db, table) if (db, table) in self.database.tables else None


def _config(kind: Callable[..., Any], node_id: str, **settings: Any) -> Any:
    return kind(node_id=node_id, cluster=CLUSTER, **settings)


def play(
    seed: int,
    *,
    keep_trace: bool = False,
    plan: Plan | None = None,
    prepare: Callable[[Cluster], object] | None = None,
) -> History:
    """Run the history of a seed. What goes wrong is in `findings`, never raised. `prepare` is
    given the cluster before anything runs in it."""
    reach.wanted()
    reach.reached.clear()
    ResolvedWatch.present = None
    history = History(seed)
    worlds: list[tuple[World, Cluster]] = []

    async def main(world: World) -> None:
        cluster = Cluster(world, plan or draw(seed))
        worlds.append((world, cluster))
        history.findings = cluster.findings
        if prepare is not None:
            prepare(cluster)
        await cluster.live()

    try:
        run(main, seed, keep_trace=keep_trace, max_steps=MAX_STEPS)
    except SimulationError as error:
        history.findings.other.append(f"{type(error).__name__}: {error}")
    except Exception as error:  # noqa: BLE001 (a history ends in a finding)
        history.findings.other.append(f"{type(error).__name__}: {error}")
    for world, cluster in worlds:
        history.transactions = len(cluster.ledger.committed)
        history.faults = cluster.chaos.faults
        history.reached = cluster.reached()
        history.restarts = sum(node.starts for node in cluster.services)
        for node in cluster.services:
            for failure in node.failures:
                what = f"{node.name} {type(failure).__name__}: {failure}"[:200]
                history.failures[what] = history.failures.get(what, 0) + 1
        history.virtual_s = world.loop.time()
        history.steps = world.loop.steps
        history.digest = world.trace.digest
        history.events = world.trace.count
        history.lines = world.trace.lines or []
    return history
