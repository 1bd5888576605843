"""Tells the readers of every feed what was skipped: a transaction whose prewrite_key says it.

It is the client's own two-phase commit, so its timestamps come from the cluster's oracle. One that
a crash cut between its phases is rolled back by the next life, if that has the same disk; else the
Pump asks `txnstatus` as for any other transaction of a writer that died, and nobody knows. So a
life that goes on, or ends in good order, leaves none between its phases.
"""

from __future__ import annotations

import asyncio

import structlog

from tidelog.actor import Actor, Nothing
from tidelog.errors import BadInput, InvariantBroken, TidelogError
from tidelog.ports import Clock, Oracle
from tidelog.pump_client.delivery.backlog import Finish
from tidelog.pump_client.delivery.finisher import Delivery
from tidelog.pump_client.delivery.prewrites import Prewrites
from tidelog.pump_client.routing.pump_list import PumpList
from tidelog.pump_client.routing.routes import Routes
from tidelog.pump_client.skipping import Ending, Skipping
from tidelog.skipped import Skipped, to_key
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, Rollback

log = structlog.get_logger()

TELL_S = 10.0
"""While skipping goes on, what was skipped since is told this often at most."""
RETRY_S = 1.0
WRITE_S = 5.0
END_S = 12.0
"""How long an orderly end waits for a record that is between its phases."""
ROLLBACK_S = 86_400.0
"""A Pump that may hold the Prewrite of a record that was given up is told for so long: it may be
away. A record is tried each RETRY_S + WRITE_S at most, so they are thousands, of a few bytes."""


class SkipRecorder(Actor[Nothing]):
    tick_s = 0.5

    def __init__(
        self,
        skipping: Skipping,
        pumps: PumpList,
        routes: Routes,
        prewrites: Prewrites,
        delivery: Delivery,
        oracle: Oracle,
        clock: Clock,
    ) -> None:
        self._skipping = skipping
        self._pumps = pumps
        self._routes = routes
        self._prewrites = prewrites
        self._delivery = delivery
        self._oracle = oracle
        self._clock = clock
        self._next = 0.0
        self._telling: asyncio.Task[None] | None = None

    async def on_tick(self) -> None:
        skipping = self._skipping
        await skipping.save()
        due = not skipping.on or self._clock.monotonic() >= self._next
        self._begin(due=due)

    async def on_stop(self) -> None:
        end = self._clock.monotonic() + END_S
        while (left_s := end - self._clock.monotonic()) > 0:
            if not self._skipping.outlives_us:
                self._begin(due=True)
            if self._telling is None:
                break
            await asyncio.wait([self._telling], timeout=left_s)
        await self._skipping.save()

    def _begin(self, *, due: bool) -> None:
        if self._telling is not None or not self._pumps.available:
            return
        if self._skipping.telling_at or (due and self._skipping.untold is not None):
            self._telling = self.spawn(self._tell(), "tell")

    async def _tell(self) -> None:
        try:
            if self._skipping.ending is not None:
                await self._commit(self._skipping.ending)
            elif self._skipping.telling_at and not self._pumps.settled:
                await self._clock.sleep(RETRY_S)
            elif self._skipping.telling_at:
                await self._roll_back_last_life()
            elif await self._told():
                self._next = self._clock.monotonic() + TELL_S
        except TidelogError as error:
            log.info("what was skipped could not be told yet", error=str(error))
            await self._clock.sleep(RETRY_S)
        finally:
            self._telling = None

    async def _roll_back_last_life(self) -> None:
        """Of this process, or of this actor: whoever holds the Prewrite learns that it is over."""
        start_ts = self._skipping.telling_at
        self._routes.close(start_ts)
        for node in self._pumps.pumps:
            self._delivery.follow_up(self._finish(start_ts, node))
        await self._skipping.end_telling(told=False)

    async def _told(self) -> bool:
        """Raises the error for which it has to be told again."""
        start_ts = await self._oracle.fresh(0)
        skipped = await self._skipping.begin_telling(start_ts)
        if skipped is None:
            return False
        try:
            ending = await self._write(start_ts, skipped)
        except TidelogError:
            left = self._routes.close(start_ts)
            for node in left.tried if left is not None else ():
                self._delivery.follow_up(self._finish(start_ts, node))
            await self._skipping.end_telling(told=False)
            raise
        await self._commit(ending)
        return True

    async def _write(self, start_ts: int, skipped: Skipped) -> Ending:
        """The first phase. Returns what the second one is to do."""
        binlog = Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=to_key(skipped))
        await self._prewrites.write_within(binlog.SerializeToString(), start_ts, WRITE_S)
        commit_ts = await self._oracle.fresh(start_ts)
        route = self._routes.close(start_ts)
        assert route is not None
        return Ending(route.pump, commit_ts, route.others())

    async def _commit(self, ending: Ending) -> None:
        """From now on there is no other end. An instance that is started again sends the Commit
        again: a Rollback might come before it, or reach a copy while it is not acked."""
        skipping = self._skipping
        skipping.ending = ending
        try:
            await self._delivery.acked(self._finish(skipping.telling_at, *ending))
        except TidelogError as error:
            # Else it is sent again, for as long as that Pump is a member: nobody else would end it.
            if isinstance(error, BadInput | InvariantBroken) or self._has_left(ending.pump):
                await skipping.end_telling(told=False)
            raise
        log.warning(
            "told what was skipped", skipped=str(skipping.telling), commit_ts=ending.commit_ts
        )
        await skipping.end_telling(told=True)

    def _has_left(self, node: str) -> bool:
        pumps = self._pumps
        return (pumps.settled and node not in pumps.pumps) or pumps.has_tombstone(node)

    def _finish(
        self, start_ts: int, node: str, commit_ts: int = 0, others: list[str] | None = None
    ) -> Finish:
        kind = Commit if commit_ts else Rollback
        binlog = Binlog(tp=kind, start_ts=start_ts, commit_ts=commit_ts or None)
        rollback_by = self._clock.monotonic() + ROLLBACK_S
        deadline = self._delivery.deadline() if commit_ts else rollback_by
        return Finish(start_ts, binlog.SerializeToString(), node, deadline, others=others)

    def status(self) -> dict[str, object]:
        return self._skipping.status()
