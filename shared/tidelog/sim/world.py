"""One simulated run: the loop, the server, the nodes, the trace; `run(main, seed)` starts it.

async def main(world: World) -> None:
    pump = world.node("pump-1")
    pump.start(build, config)
    await world.sleep(3)
    pump.kill()

run(main, seed=7)
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.ports import DdlHistory, Ports
from tidelog.sim.bus import SimBus
from tidelog.sim.clock import SimClock
from tidelog.sim.disk import DiskFaults
from tidelog.sim.faults import NetFaults
from tidelog.sim.life import Life
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.sim.nats import SimNats
from tidelog.sim.node import Node
from tidelog.sim.trace import Trace

if TYPE_CHECKING:
    from tidelog.downstream import Downstream, DownstreamOptions
    from tidelog.security.tls import TlsFiles
    from tidelog.upstream.rpc import Rpc

T = TypeVar("T")


class World:
    """`open_downstream`, `open_ddl_history`, `open_rpc` make those ports for each process of each
    node."""

    def __init__(self, loop: SimLoop, seed: int | str, *, keep_trace: bool = False) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = Trace(loop.time, keep=keep_trace)
        self.net = NetFaults()
        self.nats = SimNats(loop, self.random("nats"), self.trace, self.net)
        self.nodes: dict[str, Node] = {}
        self.open_downstream: Callable[[DownstreamOptions, Life], Downstream] = _nothing(
            "downstream"
        )
        self.open_ddl_history: Callable[[str, SimBus], DdlHistory] = _nothing("DDL history")
        self.open_rpc: Callable[[Life, TlsFiles], Rpc] = _nothing("TiDB cluster")

    def random(self, name: str) -> random.Random:
        """A stream of randomness of its own for each purpose."""
        return random.Random(f"{self.seed}/{name}")

    def node(self, name: str, *, disk: DiskFaults | None = None, skew_ms: int = 0) -> Node:
        """The node of this name, made at the first call: disk and index outlive its processes."""
        if name not in self.nodes:
            self.nodes[name] = Node(self, name, disk or DiskFaults(), skew_ms)
        return self.nodes[name]

    def ports(self, name: str = "main") -> Ports:
        """The ports of a process that never dies: a test, a workload, a reader."""
        return self.node(name).ports()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(
        self, condition: Callable[[], bool], within_s: float, what: str = "the condition"
    ) -> None:
        """Wait for a condition; TimeoutError says what did not come and where all tasks hang."""
        deadline = self.loop.time() + within_s
        while not condition():
            if self.loop.time() > deadline:
                raise TimeoutError(f"{what} within {within_s} s\n{self.loop.where()}")
            await asyncio.sleep(0.01)

    def clock(self, skew_ms: int = 0) -> SimClock:
        return SimClock(self.loop, skew_ms=skew_ms)


def _nothing(what: str) -> Callable[[Any, Any], Any]:
    def refuse(asked: Any, _: Any) -> Any:
        raise LookupError(f"this world has no {what} for {asked!r}")

    return refuse


def run(
    main: Callable[[World], Awaitable[T]],
    seed: int | str = 0,
    *,
    keep_trace: bool = False,
    max_steps: int = 20_000_000,
    max_virtual_s: float = 36_000.0,
) -> T:
    """Run `main(world)` to its end on a fresh world. Raises what it raises, or SimulationError."""
    loop = SimLoop(seed, max_steps=max_steps, max_virtual_s=max_virtual_s)
    world = World(loop, seed, keep_trace=keep_trace)

    async def live() -> T:
        try:
            return await main(world)
        finally:
            for node in world.nodes.values():
                node.end()

    return run_loop(loop, live())
