"""Keeps the list of Pumps true: asks the registry every few seconds and at each of its events, and
probes Pumps that failed. While the registry is away the last list stays in force."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from tidelog.actor import Actor
from tidelog.errors import TidelogError
from tidelog.messages import Empty, Nodes, decode_reply, encode
from tidelog.ports import Bus, Clock, Request, Rng
from tidelog.pump_client.delivery.lane import Lane
from tidelog.pump_client.routing.pump_list import Pump, PumpList
from tidelog.subjects import registry

log = structlog.get_logger()

REFRESH_S = 5.0
ASK_S = 2.0
PROBE_S = 2.0


class Changed:
    """The registry announced a change of some node."""

    __slots__ = ()


class Directory(Actor[Changed]):
    tick_s = 0.1

    def __init__(
        self,
        pumps: PumpList,
        make_lane: Callable[[Pump], Lane],
        bus: Bus,
        clock: Clock,
        rng: Rng,
        *,
        cluster: str,
    ) -> None:
        self._pumps = pumps
        self._make_lane = make_lane
        self._bus = bus
        self._clock = clock
        self._rng = rng
        self._cluster = cluster
        self._lanes: dict[str, asyncio.Task[None]] = {}
        self._probing: set[str] = set()
        self._ask_at = 0.0
        self._error = ""

    async def on_start(self) -> None:
        for pump in self._pumps.pumps.values():
            pump.lane = None
            self._open_lane(pump)
        self._pumps.refresh()
        self.spawn(self._listen(), "events")

    async def on_batch(self, batch: list[Changed]) -> None:
        await self._ask()

    async def on_tick(self) -> None:
        now = self._clock.monotonic()
        if now >= self._ask_at:
            await self._ask()
        for pump in self._pumps.due(now):
            if pump.node not in self._probing:
                self._probing.add(pump.node)
                self.spawn(self._probe(pump), "probe")

    async def _listen(self) -> None:
        while True:
            try:
                events = await self._bus.serve(registry(self._cluster, "event.>"), self._heard)
            except TidelogError:
                await self._clock.sleep(1.0)
                continue
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await events.close()

    async def _heard(self, event: Request) -> None:
        if self.self_ref.alive:
            self.self_ref.try_tell(Changed())

    async def _ask(self) -> None:
        """One question; without an answer the last list stays in force."""
        try:
            answer = await self._bus.request(
                registry(self._cluster, "nodes"), encode(Empty()), timeout_s=ASK_S
            )
            nodes = decode_reply(answer.data, Nodes)
        except TidelogError as error:
            if str(error) != self._error:
                log.info("the registry did not list its nodes", error=str(error))
            self._error = str(error)
            self._ask_at = self._clock.monotonic() + 0.2 + 0.6 * self._rng.random()
            return
        self._error = ""
        self._ask_at = self._clock.monotonic() + REFRESH_S * (0.8 + 0.4 * self._rng.random())
        came, gone = self._pumps.learn(nodes.nodes, settled=nodes.settled)
        for pump in came:
            self._open_lane(pump)
        for pump in gone:
            self._lanes.pop(pump.node).cancel()

    def _open_lane(self, pump: Pump) -> None:
        _, self._lanes[pump.node] = self.spawn_actor(f"lane-{pump.node}", self._make_lane(pump))

    async def _probe(self, pump: Pump) -> None:
        """An empty binlog: is it there, and would it take a Prewrite?"""
        assert pump.way is not None
        try:
            refused = any(await pump.way.write([b""], PROBE_S))
        except TidelogError:
            refused = True
        finally:
            self._probing.discard(pump.node)
        if refused:
            self._pumps.probe_failed(pump, self._clock.monotonic())
        else:
            self._pumps.probed(pump)

    def status(self) -> dict[str, object]:
        return {
            "available": [p.node for p in self._pumps.available],
            "unavailable": sorted(
                p.node for p in self._pumps.pumps.values() if p not in self._pumps.available
            ),
            "registry_error": self._error,
        }
