"""Two-phase commit in TiDB's order: Prewrite acked, commit_ts fetched, decision recorded, Commit.

What transactions and schema changes have in common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from tidelog.actor import Ref
from tidelog.errors import ActorStopped, InvariantBroken, TidelogError, Unavailable
from tidelog.ports import Clock, Oracle, Verdict
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.coordinator import (
    Begin,
    CoordinatorMessage,
    Decide,
    End,
    Keeper,
    LookUp,
)
from tidelog.pump_client.decisions.decisions import COMMITTED, ROLLED_BACK
from tidelog.pump_client.decisions.owner import prewrite_key
from tidelog.pump_client.errors import CommitUnknown, RolledBack
from tidelog.pump_client.schema_reader import Refresh
from tidelog.pump_client.tables.catalog import Catalog
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, Rollback

T = TypeVar("T")
RETRY_S = 0.2


@dataclass(frozen=True)
class Upstream:
    """What stands where a TiDB would stand. `room`: so many Commits may be on their way."""

    client: PumpClient
    clock: Clock
    oracle: Oracle
    coordinator: Ref[CoordinatorMessage]
    schema: Ref[Refresh]
    room: asyncio.Semaphore
    keeper: Keeper
    commit_timeout_s: float

    async def catalog(self) -> Catalog:
        """The schema as of now. Raises Unavailable."""
        return await self.schema.ask(Refresh)

    async def begin(self) -> int:
        """A start_ts, which the coordinator knows to be open. Raises Unavailable."""
        start_ts = await self.oracle.fresh(0)
        await self.coordinator.tell(Begin(start_ts))
        return start_ts

    async def end(self, start_ts: int) -> None:
        """Without a decision to commit. A coordinator that is started again knows of none."""
        with suppress(ActorStopped):
            await self.coordinator.tell(End(start_ts))

    async def became_of(self, start_ts: int) -> int:
        """The commit_ts of a transaction of this client, or 0: then it was rolled back, for good
        and at the latest now."""
        while True:
            verdict: Verdict = await self.coordinator.ask(lambda reply: LookUp(start_ts, reply))
            if verdict.state == COMMITTED:
                return verdict.commit_ts
            if verdict.state == ROLLED_BACK:
                return 0
            await self.clock.sleep(RETRY_S)

    async def commit(
        self, prewrite: Binlog, may_commit: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Carry a begun transaction to its commit_ts, which is returned once the decision is
        durable and the Commit on its way. `may_commit` is asked after commit_ts is known, and
        raises to refuse.

        Raises RolledBack or what a Pump, the oracle or `may_commit` said: rolled back for good.
        Raises CommitUnknown, which alone isn't.
        """
        prewrite.tp = Prewrite
        prewrite.prewrite_key = prewrite_key(self.keeper.owner)
        try:
            await self.client.write(prewrite)
            commit_ts = await self._patiently(lambda: self.oracle.fresh(prewrite.start_ts))
            if commit_ts <= prewrite.start_ts:
                raise InvariantBroken(f"the oracle gave {commit_ts} after {prewrite.start_ts}")
            if may_commit is not None:
                await self._patiently(may_commit)
            await self.room.acquire()
        except TidelogError:
            await self._roll_back(prewrite)
            raise
        except BaseException:
            # Cancelled: nobody may wait now. The Pump asks, and is told of a rollback.
            with suppress(ActorStopped):
                self.coordinator.try_tell(End(prewrite.start_ts))
            self.client.forget(prewrite.start_ts)
            raise
        if not await self._decide(prewrite, commit_ts):
            await self._roll_back(prewrite)
            raise RolledBack(f"a Pump had the transaction {prewrite.start_ts} rolled back")
        return commit_ts

    async def _decide(self, prewrite: Binlog, commit_ts: int) -> bool:
        binlog = _finish(prewrite)
        binlog.tp, binlog.commit_ts = Commit, commit_ts
        binlog.ddl_query = prewrite.ddl_query
        binlog.ddl_job_id = prewrite.ddl_job_id
        binlog.ddl_schema_state = prewrite.ddl_schema_state
        try:
            return await self.coordinator.ask(lambda reply: Decide(binlog, reply))
        except ActorStopped as error:
            self.room.release()  # no Commit is on its way
            raise CommitUnknown(
                f"the decision on {prewrite.start_ts} may be recorded and may not: {error}"
            ) from error

    async def _roll_back(self, prewrite: Binlog) -> None:
        """First for good, then told: a Pump that isn't reached asks."""
        await self.end(prewrite.start_ts)
        binlog = _finish(prewrite)
        binlog.tp = Rollback
        await self.client.write(binlog)

    async def _patiently(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask again while nobody can be asked, for `commit_timeout_s`."""
        deadline = self.clock.monotonic() + self.commit_timeout_s
        while True:
            try:
                return await ask()
            except Unavailable:
                if self.clock.monotonic() >= deadline:
                    raise
            await self.clock.sleep(RETRY_S)


def _finish(prewrite: Binlog) -> Binlog:
    return Binlog(start_ts=prewrite.start_ts, prewrite_key=prewrite.prewrite_key)
