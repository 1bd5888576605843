"""The workload: clients and a DDL owner over the source, as actors, on ports only.

In the simulator and in production alike:

    workload = Workload(ports, WorkloadConfig(seconds=20), ledger)
    await workload.run(stop)          # until `stop` is set
    await workload.finished.wait()    # every transaction was started and decided
"""

from __future__ import annotations

import asyncio
import math

from tidelog.actor import Actor, Nothing
from tidelog.ddl_history import EmbeddedHistory
from tidelog.oracle import RegistryOracle
from tidelog.ports import Disk, Oracle, Ports
from tidelog.pump_client import PumpClient
from tidelog.supervisor import Supervisor
from tidelog.workload.config import WorkloadConfig
from tidelog.workload.counts import Counts
from tidelog.workload.ddl import DdlRunner
from tidelog.workload.dice import Dice, SeededRng
from tidelog.workload.generator import Generator
from tidelog.workload.ledger import Committed, Ledger
from tidelog.workload.outcomes import Outcomes
from tidelog.workload.resume import resume
from tidelog.workload.runs import first_of_all
from tidelog.workload.schema_change import SchemaChanges
from tidelog.workload.source import Source
from tidelog.workload.table_kinds import KINDS
from tidelog.workload.timestamps import fresh
from tidelog.workload.transaction import Upstream, run_transaction
from tidelog.workload.txn_status import TxnStatusServer

IDLE_S = 0.02


class Workload:
    """`finished` is set when the last transaction was started and decided; Commits may still be on
    their way (`client.flush`), and Pumps may still ask for dead clients' outcomes
    (`outcomes.unasked`): keep `run` going until they have."""

    def __init__(
        self,
        ports: Ports,
        config: WorkloadConfig,
        ledger: Ledger | None = None,
        state: Disk | None = None,
        oracle: Oracle | None = None,
        outcomes: Outcomes | None = None,
    ) -> None:
        """`state`: a directory of this run and earlier ones, locked (`runs.take`). `oracle`: who
        gives the timestamps; None = the registry. `outcomes`: who else tells what became of its
        transactions, as TiKV does."""
        rng = SeededRng(config.seed) if config.seed else ports.rng
        self.config = config
        self.source = Source()
        self.outcomes = outcomes or Outcomes()
        self.counts = Counts()
        self.finished = asyncio.Event()
        self._ended = False
        self.client = PumpClient(
            ports.bus,
            config.cluster,
            config.cluster_id,
            ports.clock,
            ports.rng,
            strategy=config.strategy,
            tls=config.tls,
        )
        self._ports = ports
        self._state = state
        self._dice = Dice(rng)
        self._history = EmbeddedHistory(ports.bus, config.cluster)
        self._world = Upstream(
            self.client,
            oracle or RegistryOracle(ports.bus, config.cluster),
            ports.clock,
            self.outcomes,
            self.counts,
            ledger or _nobody,
        )

    def supervisor(self) -> Supervisor:
        """The children; nothing restarts: a failed workload is a bug to be seen."""
        supervisor = Supervisor("workload", max_restarts=0)
        supervisor.actor("txn-status", self._txn_status)
        self.client.supervise(supervisor)
        supervisor.actor("driver", lambda: Driver(self))
        return supervisor

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop`. Raises the error of the first actor that failed."""
        await self.supervisor().run(stop)

    def _txn_status(self) -> TxnStatusServer:
        return TxnStatusServer(
            self._ports.bus, self._ports.clock, self.config.cluster, self.outcomes
        )

    def end(self) -> None:
        """Start no more transactions; those begun are carried to their end."""
        self._ended = True

    @property
    def is_begun(self) -> bool:
        """It has a timestamp: something may be under way."""
        return self.outcomes.first_ts > 0

    def schedule(self) -> Schedule:
        """Turns from now on, until `end`."""
        return Schedule(self.config, self._ports.clock.monotonic())

    # ---- what the driver runs

    async def prepare(self) -> None:
        """Databases, and a table of each kind."""
        clock = self._ports.clock
        self.outcomes.first_ts = first_ts = await fresh(self._world.oracle, clock, 0)
        if self._state is not None:
            self.outcomes.inherited_ts = await first_of_all(self._state, first_ts)
        await resume(self.source, self._history, clock)
        runner = self._ddl_runner()
        changes = self._changes = SchemaChanges(self._dice, self.source, self.config)
        for name in self.config.databases:
            if name not in self.source.databases:
                await runner.run(changes.create_database(name))
        for _ in range(max(KINDS, self.config.tables)):
            await runner.run(changes.create_table())

    async def run_client(self, schedule: Schedule) -> None:
        """One client: a transaction at each of the schedule's turns that it gets."""
        generator = Generator(self._dice, self.source, self.config)
        clock = self._ports.clock
        while (wait := schedule.turn(clock.monotonic())) is not None and not self._ended:
            if wait > 0:
                await clock.sleep(wait)
            start_ts = await fresh(self._world.oracle, clock, 0)
            draft = generator.draft(start_ts)
            if draft is None:
                self.counts.idle += 1
                await clock.sleep(IDLE_S)
                continue
            self.counts.started += 1
            await run_transaction(self._world, draft, generator.fate(), self.config.lock_ttl_s)

    async def run_ddls(self, clients: asyncio.Event) -> None:
        """Schema changes, as many as `ddl_share` asks for, until the clients are through."""
        if self.config.ddl_share <= 0:
            return
        runner = self._ddl_runner()
        clock = self._ports.clock
        due = 1.0
        while not clients.is_set():
            if self.counts.started * self.config.ddl_share < due:
                await clock.sleep(IDLE_S)
                continue
            due += 1
            await runner.run(self._changes.draw())

    def _ddl_runner(self) -> DdlRunner:
        return DdlRunner(
            self._world,
            self.source,
            self._history,
            self._dice,
            dead_share=self.config.dead_share,
        )


class Schedule:
    """Turns at a fixed rate, whoever takes them; a late one is taken at once."""

    def __init__(self, config: WorkloadConfig, now: float) -> None:
        self._step = 1 / config.rate if config.rate > 0 else 0.0
        self._next = now
        self._end = now + config.seconds if config.seconds > 0 else math.inf
        self._left = config.transactions or -1

    def turn(self, now: float) -> float | None:
        """Seconds to wait before the next turn; None when there are no more."""
        at = self._next if self._step else now
        if self._left == 0 or max(at, now) >= self._end:
            return None
        self._left -= 1
        self._next = at + self._step
        return max(0.0, at - now)


class Driver(Actor[Nothing]):
    """Runs the clients as tasks of its own."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload

    async def on_start(self) -> None:
        self.spawn(self._drive(), "drive")

    async def _drive(self) -> None:
        workload = self._workload
        await workload.prepare()
        schedule = workload.schedule()
        clients = [
            self.spawn(workload.run_client(schedule), f"client-{number}")
            for number in range(workload.config.clients)
        ]
        over = asyncio.Event()
        ddls = self.spawn(workload.run_ddls(over), "ddl")
        for client in clients:
            await client
        over.set()
        await ddls
        workload.finished.set()

    def status(self) -> dict[str, object]:
        return {"counts": self._workload.counts, "finished": self._workload.finished.is_set()}


def _nobody(_: Committed) -> None:
    """The ledger of a run that nobody checks."""
