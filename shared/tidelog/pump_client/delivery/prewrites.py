"""Writes Prewrites: to one Pump, then to others, until one acks (appendix A.2).

Each try takes a Pump that was not tried yet; when all were, they are tried again each RETRY_S. It
ends when the write timeout is over and every Pump that is online was tried, the unavailable ones
once more at the very end. A Pump that says BadInput (a foreign cluster, a payload nobody can
take) ends it at once: no other Pump would say anything else.
"""

from __future__ import annotations

import asyncio

from tidelog.errors import BadInput, TidelogError
from tidelog.failpoints import hit
from tidelog.ports import Clock
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.errors import NoPump, OutcomeUnknown
from tidelog.pump_client.metrics import RETRIES
from tidelog.pump_client.routing.pump_list import Pump, PumpList
from tidelog.pump_client.routing.routes import Route, Routes
from tidelog.pump_client.routing.strategy import Strategy

RETRY_S = 0.1


class Prewrites:
    def __init__(
        self,
        pumps: PumpList,
        routes: Routes,
        choose: Strategy,
        clock: Clock,
        *,
        write_timeout_s: float,
    ) -> None:
        self._pumps = pumps
        self._routes = routes
        self._choose = choose
        self._clock = clock
        self._write_timeout_s = write_timeout_s

    async def write(self, payload: bytes, start_ts: int) -> None:
        """Returns when a Pump acked. Raises NoPump, OutcomeUnknown, BadInput."""
        route = self._routes.open(start_ts)
        pumps = self._pumps.near
        error: TidelogError | None = None
        if pumps:
            error = await self._try(self._choose(pumps, start_ts, 0, route.tried), payload, route)
            if error is None:
                return
        await self._elsewhere(payload, start_ts, route, error)

    async def write_within(self, payload: bytes, start_ts: int, seconds: float) -> None:
        """The same, with an end of the caller's own."""
        try:
            async with asyncio.timeout(seconds):
                await self.write(payload, start_ts)
        except TimeoutError:
            raise self._given_up(start_ts, self._routes.open(start_ts)) from None

    async def _try(self, pump: Pump, payload: bytes, route: Route) -> TidelogError | None:
        """One Pump, once. It counts as tried, and as one that may hold it, from before the sending:
        if the caller is cancelled, its Rollback must find it."""
        lane = pump.lane
        assert lane is not None
        if pump.node not in route.tried:
            route.tried.append(pump.node)
        before, route.in_doubt = route.in_doubt, True
        try:
            hit("client.prewrite.before_try")
            await lane.ask(lambda reply: Send(payload, reply))
            hit("client.prewrite.acked")
        except TidelogError as error:
            if error.definite:
                route.in_doubt = before
            route.failed(pump.node, error)
            return error
        route.pump = route.pump or pump.node
        return None

    async def _elsewhere(
        self, payload: bytes, start_ts: int, route: Route, error: TidelogError | None
    ) -> None:
        """The slow way."""
        end = self._clock.monotonic() + self._write_timeout_s
        attempt = 1
        while not isinstance(error, BadInput):
            late = self._clock.monotonic() >= end
            candidates = self._untried(route) if late else self._candidates(route)
            if late and not candidates:
                error = await self._last_chance(payload, route, error)
                break
            if not candidates or error is None or all(p.node in route.tried for p in candidates):
                await self._clock.sleep(RETRY_S)
            if candidates:
                RETRIES.inc()
                pump = self._choose(candidates, start_ts, attempt, route.tried)
                error = await self._try(pump, payload, route)
                if error is None:
                    return
                attempt += 1
        if route.pump:
            return
        if isinstance(error, BadInput) and not route.in_doubt:
            self._routes.close(start_ts)
            raise error
        raise self._given_up(start_ts, route) from error

    def _candidates(self, route: Route) -> tuple[Pump, ...]:
        """The near ones while one of them was not tried; then all."""
        near = self._pumps.near
        if any(pump.node not in route.tried for pump in near):
            return near
        return self._pumps.available or self._pumps.online

    def _untried(self, route: Route) -> tuple[Pump, ...]:
        return tuple(p for p in self._pumps.online if p.node not in route.tried)

    async def _last_chance(
        self, payload: bytes, route: Route, error: TidelogError | None
    ) -> TidelogError | None:
        """The original's last loop: those that we hold for unavailable may be back."""
        for pump in [p for p in self._pumps.online if p not in self._pumps.available]:
            error = await self._try(pump, payload, route)
            if error is None or isinstance(error, BadInput):
                break
        return error

    def _given_up(self, start_ts: int, route: Route) -> TidelogError:
        """Either way its Rollback may still be written, which does no harm; where a Pump may hold
        the Prewrite it must be."""
        said = route.said or {}
        each = "; ".join(f"{node}: {type(e).__name__}: {e}" for node, e in said.items())
        if route.in_doubt:
            return OutcomeUnknown(f"no Pump acked the Prewrite of {start_ts}: {each or 'in time'}")
        self._routes.close(start_ts)
        return NoPump(
            f"no Pump took the Prewrite of {start_ts}: {each or 'none is online'}", refusals=said
        )
