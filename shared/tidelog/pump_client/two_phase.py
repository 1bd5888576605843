"""Two-phase commit in TiDB's order: Prewrite acked, commit_ts fetched, decision recorded, Commit.

What transactions and schema changes have in common.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from tidelog.actor import Ref, Reply
from tidelog.errors import ActorStopped, InvariantBroken, Overloaded, TidelogError, Unavailable
from tidelog.ports import Clock, Oracle, Verdict
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.coordinator import CoordinatorMessage, Decide, Keeper, LookUp
from tidelog.pump_client.decisions.decisions import COMMITTED, ROLLED_BACK, Decisions
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
    decisions: Decisions
    schema: Ref[Refresh]
    room: asyncio.Semaphore
    keeper: Keeper
    commit_timeout_s: float

    async def catalog(self) -> Catalog:
        """The schema as of now. Raises Unavailable."""
        return await self.schema.ask(Refresh)

    async def begin(self) -> int:
        """A start_ts, known to be open from now on. Raises Unavailable, Overloaded."""
        start_ts = await self.oracle.fresh(0)
        self.decisions.begin(start_ts)
        return start_ts

    def end(self, start_ts: int) -> None:
        """Without a decision to commit."""
        self.decisions.end(start_ts)

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

        Raises RolledBack, Overloaded, or what a Pump, the oracle or `may_commit` said: rolled back
        for good. Raises CommitUnknown, which alone isn't. Cancelled, it is rolled back unless the
        coordinator had been asked for the decision.
        """
        prewrite.tp = Prewrite
        prewrite.prewrite_key = prewrite_key(self.keeper.owner)
        try:
            await self.client.write(prewrite)
            deadline = self.clock.monotonic() + self.commit_timeout_s
            ask = partial(self.oracle.fresh, prewrite.start_ts)
            commit_ts = await self._patiently(ask, deadline)
            if commit_ts <= prewrite.start_ts:
                raise InvariantBroken(f"the oracle gave {commit_ts} after {prewrite.start_ts}")
            if may_commit is not None:
                await self._patiently(may_commit, deadline)
            decision = await self._ask_for_decision(_commit(prewrite, commit_ts), deadline)
        except TidelogError:
            await self._roll_back(prewrite)
            raise
        except BaseException:
            # Cancelled: nobody may wait now.
            self.end(prewrite.start_ts)
            self.client.abandon(prewrite.start_ts)
            raise
        try:
            decided = await decision
        except ActorStopped as error:
            raise CommitUnknown(
                f"the decision on {prewrite.start_ts} may be recorded and may not: {error}"
            ) from error
        if not decided:
            await self._roll_back(prewrite)
            raise RolledBack(f"a Pump had the transaction {prewrite.start_ts} rolled back")
        return commit_ts

    async def _ask_for_decision(self, commit: Binlog, deadline: float) -> asyncio.Future[bool]:
        """Returns once the coordinator has the question, and a place of `room` with it. Whatever
        becomes of that, and of the asker, the place is free again with any answer but True.

        Raises Overloaded or ActorStopped, or is cancelled: it was not asked."""
        await self._enter(deadline)
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def settle(decided: bool | None, error: Exception | None) -> None:
            if not decided:
                self.room.release()
                self.end(commit.start_ts)
            if answer.done():
                return
            if error is None:
                answer.set_result(bool(decided))
            else:
                answer.set_exception(error)

        try:
            reply: Reply[bool] = self.coordinator.reply(settle)
        except ActorStopped:
            self.room.release()
            raise
        try:
            await self.coordinator.tell(Decide(commit, reply))
        except BaseException:
            if not answer.cancel():
                answer.exception()  # it stopped meanwhile, as is raised here
            reply.fail(ActorStopped("it was not asked"))
            raise
        return answer

    async def _enter(self, deadline: float) -> None:
        """Take a place of `room`. Raises Overloaded."""
        try:
            async with asyncio.timeout(deadline - self.clock.monotonic()):
                await self.room.acquire()
        except TimeoutError:
            raise Overloaded(
                "no room for another Commit: those before it wait for their Pumps",
                hint="it was rolled back; run it again when `tidelog status` shows the Pumps well",
            ) from None

    async def _roll_back(self, prewrite: Binlog) -> None:
        """First for good, then told: a Pump that isn't reached, or that no way is free to, asks."""
        self.end(prewrite.start_ts)
        binlog = _finish(prewrite)
        binlog.tp = Rollback
        try:
            await self.client.write(binlog, deadline_s=self.commit_timeout_s)
        except Overloaded:
            self.client.abandon(prewrite.start_ts)

    async def _patiently(self, ask: Callable[[], Awaitable[T]], deadline: float) -> T:
        """Ask again while nobody can be asked."""
        while True:
            try:
                return await ask()
            except Unavailable:
                if self.clock.monotonic() >= deadline:
                    raise
            await self.clock.sleep(RETRY_S)


def _commit(prewrite: Binlog, commit_ts: int) -> Binlog:
    binlog = _finish(prewrite)
    binlog.tp, binlog.commit_ts = Commit, commit_ts
    binlog.ddl_query = prewrite.ddl_query
    binlog.ddl_job_id = prewrite.ddl_job_id
    binlog.ddl_schema_state = prewrite.ddl_schema_state
    return binlog


def _finish(prewrite: Binlog) -> Binlog:
    return Binlog(start_ts=prewrite.start_ts, prewrite_key=prewrite.prewrite_key)
