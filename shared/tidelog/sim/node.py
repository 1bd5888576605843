"""A simulated machine with at most one service process: started, killed, restarted (brief 5).

`kill` is a power loss: from that instant every port of the process is dead, its tasks end, and the
disk and the index lose what was not synced. A process that fails is started again after a delay,
as an orchestrator does, and counted; a typed `Stopped` is kept as a failure of the run instead.
"""

from __future__ import annotations

import asyncio
import inspect
import posixpath
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Protocol

from tidelog.errors import Stopped
from tidelog.ports import IndexStore, Ports
from tidelog.sim.bus import SimBus
from tidelog.sim.clock import SimClock
from tidelog.sim.disk import DiskFaults, SimDisk
from tidelog.sim.faults import Injected
from tidelog.sim.index import SimIndex, SimIndexFile
from tidelog.sim.life import Life, current_life
from tidelog.sim.loop import SimulationError
from tidelog.sim.rng import SimRng

if TYPE_CHECKING:
    from tidelog.downstream import Downstream, DownstreamOptions
    from tidelog.sim.world import World

RESTART_S = 0.5
KILL_ROUNDS = 200


class Service(Protocol):
    """What a service's `build` returns: a Supervisor, or a test's stand-in."""

    async def run(self, stop: asyncio.Event) -> None: ...


Build = Callable[[Any, Ports], Service | Awaitable[Service]]


class Node:
    def __init__(self, world: World, name: str, disk: DiskFaults, skew_ms: int) -> None:
        self.name = name
        self.disk = SimDisk(name, world.random(f"disk/{name}"), world.trace, disk)
        self.indexes: dict[str, SimIndexFile] = {}
        self.failures: list[Exception] = []
        """Errors that ended a process, oldest first; `Stopped` ones are also in `stopped`."""
        self.stopped: list[Stopped] = []
        self.starts = 0
        self.kills = 0
        self.service: Any = None
        self.skew_ms = skew_ms
        """What its clock is off by, until it jumps."""
        self.clock = SimClock(world.loop, skew_ms=skew_ms)
        self._world = world
        self._rng = world.random(f"node/{name}")
        self._life: Life | None = None
        self._bus: SimBus | None = None
        self._build: Build | None = None
        self._config: Any = None
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._revival: asyncio.TimerHandle | None = None
        self._back_after_s: float | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def status(self) -> object:
        """What the service says of itself, if it runs and says anything."""
        status = getattr(self.service, "status", None)
        return status() if self.running and callable(status) else "not running"

    @property
    def bus(self) -> SimBus:
        if self._bus is None:
            raise LookupError(f"{self.name} has no process")
        return self._bus

    def ports(self) -> Ports:
        """The ports of the present life; a node that runs no service gets one life for good."""
        if self._life is None or not self._life.alive:
            self._life = Life(self.name, self.starts)
            self._bus = SimBus(self._world.nats, self._life)
        return self._ports(self._life, self.bus, "")

    def _ports(self, life: Life, bus: SimBus, at: str) -> Ports:
        """On the directory `at` of the disk."""
        world = self._world

        def open_downstream(options: DownstreamOptions) -> Downstream:
            return world.open_downstream(options, life)

        return Ports(
            clock=self.clock,
            rng=SimRng(world.seed, f"rng/{self.name}/{self.starts}{at and '/' + at}"),
            disk=self.disk.mount(life, at),
            bus=bus,
            open_index=lambda path: self._open_index(posixpath.join(at, path), life),
            drop_index=lambda path: self._drop_index(posixpath.join(at, path), life),
            open_downstream=open_downstream,
            open_ddl_history=lambda url, _: world.open_ddl_history(url, bus),
            open_rpc=lambda tls: world.open_rpc(life, tls),
            within=lambda path: self._ports(life, bus, posixpath.join(at, path)),
        )

    def start(self, build: Build, config: Any) -> None:
        """Start a process that runs `build(config, ports)`."""
        if self.running:
            raise SimulationError(f"{self.name} runs already")
        self._build, self._config = build, config
        self._begin()

    def restart(self) -> None:
        """Start the process anew now, with the same build and config."""
        if self._revival is not None:
            self._revival.cancel()
            self._revival = None
        if not self.running:
            self._begin()

    def kill(self, *, restart_after_s: float | None = None) -> None:
        """Power loss. With `restart_after_s` the machine comes back by itself."""
        self.kills += 1
        trace = self._world.trace
        trace.event(self.name, "kill")
        trace.inject(self.name, Injected.POWER_LOSS)
        self.end()
        self.disk.crash()
        for path in sorted(self.indexes):
            lost = self.indexes[path].crash(self._rng)
            trace.event(self.name, "index.crash", f"{path} {lost}")
            if lost:
                trace.inject(self.name, Injected.LOST_INDEX, f"{lost} of {path}")
        if restart_after_s is not None:
            self._revive_in(restart_after_s)

    async def stop(self) -> None:
        """Graceful end, as by SIGTERM; nothing is lost."""
        task = self._task
        if task is not None and not task.done():
            self._terminate()
            await asyncio.wait([task])

    def restart_gracefully(self, after_s: float) -> None:
        """SIGTERM now, and a new process some time after the old one ended."""
        if self.running and not self._stop.is_set():
            self._back_after_s = after_s
            self._terminate()

    def _terminate(self) -> None:
        self._world.trace.event(self.name, "stop")
        self._stop.set()

    def jump(self, to_ms: int) -> None:
        """Its wall clock is so far off from now on, ms."""
        self._world.trace.inject(self.name, Injected.CLOCK_JUMP, f"{self.clock.skew_ms} to {to_ms}")
        self.clock.skew_ms = to_ms

    def partition(self, cut: bool) -> None:
        """Cut this machine off from the server, or let it back."""
        if self._bus is not None:
            self._bus.partition(cut)

    @property
    def is_cut(self) -> bool:
        """Nobody reaches it, and it reaches nobody."""
        return self._bus is not None and self._bus.partitioned

    def end(self) -> None:
        """The process is no more: its ports are dead from now on and its tasks are cancelled."""
        if self._revival is not None:
            self._revival.cancel()
            self._revival = None
        life, bus = self._life, self._bus
        self._life = self._bus = self._task = None
        if life is None:
            return
        life.alive = False
        if bus is not None:
            bus.kill()
        self._reap(life, 0)

    def _reap(self, life: Life, rounds: int) -> None:
        """Cancel the tasks of a dead process until none is left."""
        self._world.loop.release(life)
        tasks = self._world.loop.tasks_of(life)
        if not tasks:
            return
        if rounds > KILL_ROUNDS:
            raise SimulationError(f"{self.name} survives its end\n{self._world.loop.where()}")
        for task in tasks:
            task.cancel()
        self._world.loop.call_soon(self._reap, life, rounds + 1)

    def _begin(self) -> None:
        self.starts += 1
        self._world.trace.event(self.name, "start", self.starts)
        self._life = Life(self.name, self.starts)
        self._bus = SimBus(self._world.nats, self._life)
        self._stop = asyncio.Event()
        self._back_after_s = None
        token = current_life.set(self._life)
        try:
            self._task = self._world.loop.create_task(
                self._live(self.ports(), self._stop, self._life), name=self.name
            )
        finally:
            current_life.reset(token)

    async def _live(self, ports: Ports, stop: asyncio.Event, life: Life) -> None:
        assert self._build is not None
        try:
            built = self._build(self._config, ports)
            self.service = await built if inspect.isawaitable(built) else built
            await self.service.run(stop)
        except Exception as error:  # noqa: BLE001 (any error ends a process)
            if not life.alive:
                return
            self._world.trace.event(self.name, "failed", type(error).__name__)
            self._world.trace.note(self.name, "failed", error)
            self.failures.append(error)
            if isinstance(error, Stopped):
                self.stopped.append(error)
            self._back_after_s = RESTART_S * (0.5 + self._rng.random())
        # Not from inside this task: the end of the process cancels it.
        self._world.loop.call_soon(self._ended, life)

    def _ended(self, life: Life) -> None:
        if self._life is not life:
            return
        self.end()
        if self._back_after_s is not None:
            self._revive_in(self._back_after_s)

    def _revive_in(self, seconds: float) -> None:
        self._revival = self._world.loop.call_later(seconds, self.restart)

    def _open_index(self, path: str, life: Life) -> IndexStore:
        return SimIndex(self.indexes.setdefault(path, SimIndexFile()), life, self._world.trace)

    def _drop_index(self, path: str, life: Life) -> None:
        life.check()
        self.indexes.pop(path, None)
