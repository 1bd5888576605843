"""The writers' API: transactions and schema changes for applications that have no TiDB."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import Final, Self

from tidelog.ddl_history import EmbeddedHistory
from tidelog.errors import ActorStopped, Stuck
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus, Clock, Disk, Lock, Rng
from tidelog.pump_client.client import CLOSE_S, PumpClient
from tidelog.pump_client.decisions.coordinator import Coordinator, Drain, Keeper
from tidelog.pump_client.decisions.decisions import Decisions
from tidelog.pump_client.decisions.journal import Journal, Memory
from tidelog.pump_client.running import running
from tidelog.pump_client.schema_changer import DdlResult, SchemaChanger
from tidelog.pump_client.schema_reader import SchemaReader
from tidelog.pump_client.transaction import Transaction
from tidelog.pump_client.two_phase import Upstream
from tidelog.supervisor import Supervisor

LOCK_PATH: Final = "lock"
COMMIT_TIMEOUT_S: Final = 10.0
HURRY_S: Final = 2.0
MAX_COMMITS: Final = 4096
"""On their way to Pumps at once; further transactions wait before they are decided."""


class Writer:
    """What `tidelog.connect` gives; here on ports, for the simulator. Use it from one event loop.

    `client` writes the binlogs; it must not be entered by itself, and not go on without Pumps
    (`ignore_error`): what it skips would look committed. `disk` is the state directory,
    in which decisions survive this process; None: they don't. `commit_timeout_s`: how long a
    transaction whose Prewrite is acked may wait for the registry, and for room, before it is rolled
    back.
    """

    def __init__(
        self,
        client: PumpClient,
        bus: Bus,
        clock: Clock,
        rng: Rng,
        disk: Disk | None = None,
        *,
        cluster: str = "default",
        commit_timeout_s: float = COMMIT_TIMEOUT_S,
    ) -> None:
        self.client = client
        self._disk = disk
        self._life = AsyncExitStack()
        self._ready = asyncio.Event()
        self._supervisor = Supervisor("writer")
        keeper: Keeper = Memory(rng.token()) if disk is None else Journal(disk, rng.token())
        room = asyncio.Semaphore(MAX_COMMITS)
        decisions = Decisions(lambda: self._changer.pinned)
        history = EmbeddedHistory(bus, cluster)
        self._upstream = Upstream(
            client=client,
            clock=clock,
            oracle=RegistryOracle(bus, cluster),
            schema=self._supervisor.actor("schema", lambda: SchemaReader(history)),
            coordinator=self._supervisor.actor(
                "coordinator",
                lambda: Coordinator(
                    client,
                    bus,
                    clock,
                    keeper,
                    decisions,
                    cluster=cluster,
                    room=room,
                    ready=self._ready,
                ),
            ),
            decisions=decisions,
            room=room,
            keeper=keeper,
            commit_timeout_s=commit_timeout_s,
        )
        self._changer = SchemaChanger(self._upstream, history, disk)
        client.supervise(self._supervisor)

    async def __aenter__(self) -> Self:
        """A schema change that an earlier life left half done is finished first, for which registry
        and Pumps are waited for.

        Raises ForeignDirectory when another process uses the state directory, Corrupt when what
        is in it can't be read, Refused while the registry takes no schema change."""
        async with AsyncExitStack() as life:
            if self._disk is not None:
                life.push(partial(_let_go, self._disk.lock(LOCK_PATH)))
            self._changer.load()
            await life.enter_async_context(running(self._supervisor))
            await self._ready.wait()
            await self._changer.resume()
            self._life = life.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits for Commits and Rollbacks that no Pump acked yet, then ends: up to CLOSE_S, and
        HURRY_S when the application fails or is cancelled. A Pump that still holds one open would
        ask a client that is gone, and the stream would stand until its next life."""
        try:
            await self.flush(CLOSE_S if error is None else HURRY_S)
        finally:
            await self._life.__aexit__(kind, error, trace)

    def transaction(self) -> Transaction:
        """`async with client.transaction() as txn:` …"""
        return Transaction(self._upstream)

    async def ddl(self, query: str) -> DdlResult:
        """Change the schema: one statement, tables as db.table. `docs/writing.md` lists what is
        supported. Returns when the change has its place in the stream; waits for registry and
        Pumps, however long. Cancelled, or with its process dead, it may be half done: then it is
        finished by the next `ddl`, or by the next life with the same state directory. Without
        one, a process that dies between job and binlog leaves a schema that no reader hears of.

        Raises DdlNotSupported, DdlRefused (the schema doesn't allow it); Refused when others
        change the schema all the time; DiskFull when the state directory has no room to note it
        first: it never happens; Unavailable when the registry doesn't answer at its start;
        CommitUnknown.
        """
        return await self._changer.run(query)

    async def flush(self, timeout_s: float) -> bool:
        """Wait until every Commit is acked or given up; False when time ran out. Nothing is lost
        without it: what is committed is committed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._upstream.coordinator.ask(Drain)
                return await self.client.flush(timeout_s)
        except (TimeoutError, ActorStopped):
            return False

    def status(self) -> dict[str, object]:
        """What each part says of itself, and the binlog client."""
        return {"client": self.client.status(), "actors": self._supervisor.status()}


def _let_go(
    lock: Lock,
    kind: type[BaseException] | None,
    error: BaseException | None,
    trace: TracebackType | None,
) -> None:
    """Where a call may still write into the directory, the lock goes with the process."""
    if not isinstance(error, Stuck):
        lock.release()
