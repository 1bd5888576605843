"""PumpClient: how a database, or any application, hands its binlogs to Tidelog (appendix A.2)."""

from __future__ import annotations

import asyncio
from functools import partial
from types import TracebackType
from typing import Self

from tidelog.actor import first_error
from tidelog.errors import BadInput, TidelogError, UnparsablePayload
from tidelog.ports import Bus, Clock, Rng
from tidelog.pump_client.delivery.backlog import Backlog, Finish
from tidelog.pump_client.delivery.finisher import Delivery, Finisher
from tidelog.pump_client.delivery.lane import Lane
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.errors import NoPump, NotPrewritten, OutcomeUnknown
from tidelog.pump_client.metrics import RETRIES
from tidelog.pump_client.routing.directory import Directory
from tidelog.pump_client.routing.pump_list import Pump, PumpList
from tidelog.pump_client.routing.routes import Route, Routes
from tidelog.pump_client.routing.strategy import make_strategy
from tidelog.supervisor import Supervisor
from tidelog_proto.binlog_pb2 import Binlog, Prewrite, Rollback

WRITE_TIMEOUT_S = 15.0
TRY_TIMEOUT_S = 5.0
RETRY_S = 0.1
FINISH_TIMEOUT_S = 600.0
CLOSE_S = 10.0


class PumpClient:
    """Writes binlogs to the Pumps of one cluster.

        async with PumpClient(bus, "default", cluster_id, clock, rng) as client:
            await client.write(Binlog(tp=Prewrite, start_ts=start, prewrite_value=rows))
            commit = await oracle.fresh(start)      # only after the Prewrite's ack
            await client.write(Binlog(tp=Commit, start_ts=start, commit_ts=commit))

    `cluster_id` is checked by the Pumps. `strategy`: "range" (in turn) or "hash" (by start_ts).
    `write_timeout_s`: how long a Prewrite may look for a Pump; `try_timeout_s`: how long one Pump
    may take to answer; `finish_timeout_s`: how long a Commit or Rollback is tried.
    Use it from one event loop. Many concurrent `write`s travel together: concurrency, not one
    caller's speed, fills the messages.
    """

    def __init__(
        self,
        bus: Bus,
        cluster: str,
        cluster_id: int,
        clock: Clock,
        rng: Rng,
        *,
        strategy: str = "range",
        write_timeout_s: float = WRITE_TIMEOUT_S,
        try_timeout_s: float = TRY_TIMEOUT_S,
        finish_timeout_s: float = FINISH_TIMEOUT_S,
    ) -> None:
        self._bus = bus
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._clock = clock
        self._rng = rng
        self._choose = make_strategy(strategy)
        self._write_timeout_s = write_timeout_s
        self._try_timeout_s = try_timeout_s
        self._pumps = PumpList()
        self._routes = Routes()
        self._backlog = Backlog()
        self._delivery = Delivery(
            self._pumps, self._backlog, clock, finish_timeout_s=finish_timeout_s
        )
        self._stop = asyncio.Event()
        self._group = asyncio.TaskGroup()

    # ---- life

    def supervise(self, supervisor: Supervisor) -> None:
        """Add the client's actors to a supervisor of yours, instead of `async with`."""
        supervisor.actor("pump-directory", self._make_directory)
        supervisor.actor(
            "pump-finisher", lambda: Finisher(self._delivery, self._backlog, self._clock)
        )

    async def __aenter__(self) -> Self:
        supervisor = Supervisor("pump-client")
        self.supervise(supervisor)
        await self._group.__aenter__()
        self._group.create_task(supervisor.run(self._stop), name="pump-client")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Waits up to CLOSE_S for Commits and Rollbacks that are still unacked, then ends."""
        try:
            if error is None:
                await self.flush(CLOSE_S)
        finally:
            self._stop.set()
            try:
                await self._group.__aexit__(kind, error, trace)
            except BaseExceptionGroup as group:
                raise first_error(group) from group

    # ---- writing

    async def write(self, binlog: bytes | Binlog, *, wait: bool = False) -> None:
        """Hand over one binlog (serialised or not).

        Prewrite: returns when one Pump has it on disk. That Pump is the transaction's Pump.
        Raises a definite error when surely no Pump holds it (`NoPump`, `BadInput`), and
        `OutcomeUnknown` when one may; either way the transaction must be rolled back, and its
        Rollback written too.

        Commit or Rollback: goes to the Pump that acked the Prewrite. Returns when it is on its
        way, as TiDB does; it is tried for `finish_timeout_s`, after which the Pump asks
        `txnstatus`. Waits while too many are unacked. With `wait=True` it returns when acked, and
        raises what it was given up for. A Commit of a transaction that this client has no acked
        Prewrite of raises NotPrewritten. A Rollback of one goes to every Pump that was tried with
        the Prewrite, which may hold it; if none was, there is nothing to roll back.
        """
        if isinstance(binlog, bytes):
            payload, parsed = binlog, _parse(binlog)
        else:
            payload, parsed = binlog.SerializeToString(), binlog
        if parsed.tp == Prewrite:
            await self._prewrite(payload, parsed.start_ts)
        elif parsed.tp == Rollback and self._undecided(parsed.start_ts):
            await self._roll_back_everywhere(payload, parsed.start_ts, wait)
        else:
            await self._finish(payload, parsed.start_ts, wait)

    def forget(self, start_ts: int) -> None:
        """Drop what is remembered of a transaction that will get neither Commit nor Rollback."""
        self._routes.close(start_ts)

    def pump_of(self, start_ts: int) -> str:
        """The Pump that acked an open transaction's Prewrite; "" = none."""
        route = self._routes.get(start_ts)
        return route.pump if route is not None else ""

    @property
    def unacked(self) -> int:
        """Commits and Rollbacks not acked yet."""
        return self._backlog.open

    async def flush(self, timeout_s: float) -> bool:
        """Wait until every Commit and Rollback is acked or given up; False when time ran out."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._backlog.drained()
        except TimeoutError:
            return False
        return True

    def status(self) -> dict[str, object]:
        return {
            "available": [pump.node for pump in self._pumps.available],
            "online": [pump.node for pump in self._pumps.online],
            "open_transactions": len(self._routes),
            "unacked": self._backlog.open,
        }

    # ---- Prewrites

    async def _prewrite(self, payload: bytes, start_ts: int) -> None:
        route = self._routes.open(start_ts)
        available = self._pumps.available
        if available:
            pump = self._choose(available, start_ts, 0, route.tried)
            error = await self._try(pump, payload, route)
            if error is None:
                return
            unknown = not error.definite
        else:
            error, unknown = None, False
        await self._prewrite_elsewhere(payload, start_ts, route, error, unknown)

    async def _try(self, pump: Pump, payload: bytes, route: Route) -> TidelogError | None:
        """One Pump, once. The Pump counts as tried from before the sending: if the caller is
        cancelled, its Rollback must find it."""
        lane = pump.lane
        assert lane is not None
        if pump.node not in route.tried:
            route.tried.append(pump.node)
        try:
            await lane.ask(lambda reply: Send(payload, reply))
        except TidelogError as error:
            return error
        route.pump = route.pump or pump.node
        return None

    async def _prewrite_elsewhere(
        self,
        payload: bytes,
        start_ts: int,
        route: Route,
        error: TidelogError | None,
        unknown: bool,
    ) -> None:
        """The slow way: other Pumps, until the write timeout is over and each was tried once."""
        started = self._clock.monotonic()
        attempt = 1
        while not isinstance(error, BadInput):
            late = self._clock.monotonic() - started >= self._write_timeout_s
            candidates = self._pumps.available or self._pumps.online
            if late:
                candidates = tuple(p for p in self._pumps.online if p.node not in route.tried)
                if not candidates:
                    break
            if not candidates or error is None or all(p.node in route.tried for p in candidates):
                await self._clock.sleep(RETRY_S)
            if candidates:
                RETRIES.inc()
                pump = self._choose(candidates, start_ts, attempt, route.tried)
                error = await self._try(pump, payload, route)
                if error is None:
                    return
                unknown = unknown or not error.definite
                attempt += 1
        if unknown:
            raise OutcomeUnknown(f"no Pump acked the Prewrite of {start_ts}: {error}") from error
        self._routes.close(start_ts)
        if isinstance(error, BadInput):
            raise error
        raise NoPump(f"no Pump took the Prewrite of {start_ts}: {error or 'none is online'}")

    # ---- Commits and Rollbacks

    def _undecided(self, start_ts: int) -> bool:
        route = self._routes.get(start_ts)
        return route is None or not route.pump

    async def _finish(self, payload: bytes, start_ts: int, wait: bool) -> None:
        route = self._routes.get(start_ts)
        if route is None or not route.pump:
            raise NotPrewritten(f"no Pump acked the Prewrite of {start_ts} to this client")
        await self._backlog.enter()
        self._routes.close(start_ts)
        acked = await self._deliver(start_ts, payload, route.pump, wait, route.others())
        if acked is not None:
            await acked

    async def _roll_back_everywhere(self, payload: bytes, start_ts: int, wait: bool) -> None:
        """No Pump acked the Prewrite: each that was tried may hold it."""
        route = self._routes.close(start_ts)
        acks = []
        for node in route.tried if route is not None else []:
            await self._backlog.enter()
            acks.append(await self._deliver(start_ts, payload, node, wait))
        for acked in acks:
            if acked is not None:
                await acked

    async def _deliver(
        self, start_ts: int, payload: bytes, node: str, wait: bool, others: list[str] | None = None
    ) -> asyncio.Future[None] | None:
        """Send it on its way, for which there is room; with `wait` the future of its ack."""
        acked = asyncio.get_running_loop().create_future() if wait else None
        item = Finish(
            start_ts,
            payload,
            node,
            self._delivery.deadline(),
            others=others,
            counted=True,
            done=None if acked is None else partial(_answer, acked),
        )
        await self._delivery.first(item)
        return acked

    # ---- parts

    def _make_directory(self) -> Directory:
        return Directory(
            self._pumps,
            self._make_lane,
            self._bus,
            self._clock,
            self._rng,
            cluster=self._cluster,
            cluster_id=self._cluster_id,
        )

    def _make_lane(self, pump: Pump) -> Lane:
        return Lane(
            pump,
            self._pumps,
            self._bus,
            self._clock,
            cluster=self._cluster,
            cluster_id=self._cluster_id,
            try_timeout_s=self._try_timeout_s,
        )


def _parse(payload: bytes) -> Binlog:
    try:
        return Binlog.FromString(payload)
    except Exception as error:
        raise UnparsablePayload(f"{len(payload)} bytes are no Binlog") from error


def _answer(acked: asyncio.Future[None], error: TidelogError | None) -> None:
    if acked.done():
        return
    if error is None:
        acked.set_result(None)
    else:
        acked.set_exception(error)
