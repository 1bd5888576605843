"""A topology whose services are started one by one, as processes, with `tidelog up`'s own plan.

async with Stage(directory, downstream, pumps=2) as stage:
    await stage.start("registry", "pump-1", "pump-2")
    ...
    await stage.start("drainer")
"""

from __future__ import annotations

import asyncio
import os
import sys
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from bench.figure import Usage
from bench.profile import Profiler
from tidelog.messages import ONLINE
from tidelog.real.bus import NatsBus
from tidelog.real.nats_server import EmbeddedNats, free_port
from tidelog.real.processes import RealProcesses
from tidelog_cli import feed
from tidelog_cli.child import Child, Service
from tidelog_cli.state_file import PumpAt
from tidelog_cli.topology import Options, plan

OUT = Path(__file__).parent / "out"
READY_S = 60.0
CLUSTER = "bench"
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def queued_seconds(pid: int) -> float:
    """Time that the main thread was ready and had no core; 0 where the kernel doesn't tell."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


class Stage:
    """Ends everything it started when left. Raises if a service died on the way: a figure that a
    crash is part of is none."""

    def __init__(
        self,
        directory: Path,
        downstream: str = "",
        *,
        pumps: int = 1,
        oracle: str = "embedded",
        profile: str = "",
    ) -> None:
        """`profile`: services whose name begins so are watched by py-spy."""
        self._directory = directory
        self._processes = RealProcesses()
        self._nats = EmbeddedNats(directory / "nats", processes=self._processes)
        self._pumps = [PumpAt(f"pump-{n + 1}", f"127.0.0.1:{free_port()}") for n in range(pumps)]
        self._options = Options(
            directory=directory,
            downstream=downstream,
            pumps=pumps,
            oracle=oracle,
            cluster=CLUSTER,
        )
        self._children: dict[str, Child] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._killed: dict[str, int] = {}
        """How often each was killed on purpose."""
        self._others: dict[str, int] = {"bench": os.getpid()}
        self._profile = profile
        self._profilers: dict[str, Profiler] = {}
        self.bus: NatsBus

    @property
    def url(self) -> str:
        return self._nats.url

    @property
    def pumps(self) -> list[str]:
        return [pump.node for pump in self._pumps]

    def grpc(self, pump: int) -> str:
        return self._pumps[pump].grpc

    async def __aenter__(self) -> Self:
        self._directory.mkdir(parents=True)
        await self._nats.start()
        self.bus = await NatsBus.connect(self.url, name="bench", timeout_s=10)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            for name in reversed(list(self._tasks)):
                await self.stop(name)
        finally:
            await self.bus.close()
            await self._nats.stop()

    def _service(self, name: str, changes: Mapping[str, Any]) -> Service:
        """A service of the plan; a name like `drainer-2` is another one of its kind."""
        services = {s.name: s for s in plan(self._options, self.url, self._pumps)}
        service = services.get(name) or services[name.partition("-")[0]]
        here = {"node-id": name, "data-dir": str(self._directory / name)}
        return msgspec.structs.replace(
            service, name=name, config=dict(service.config) | here | dict(changes)
        )

    async def start(self, *names: str, **changes: Any) -> None:
        """Start and wait until each is ready; `changes` are configuration keys."""
        keys = {key.replace("_", "-"): value for key, value in changes.items()}
        for name in names:
            service = self._service(name, keys)
            if service.module == "tidelog_drainer":
                await feed.ensure(self.bus, CLUSTER, service.config["feed"], 0)
            child = Child(service, self._directory, self._processes, _say)
            self._children[name] = child
            self._tasks[name] = asyncio.get_running_loop().create_task(child.keep(lambda: None))
            await self._ready(child, self._tasks[name])
            if self._profile and name.startswith(self._profile):
                target = OUT / f"profile-{self._directory.name}-{name}.txt"
                self._profilers[name] = Profiler(self.pid(name), target)

    async def _ready(self, child: Child, task: asyncio.Task[None]) -> None:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(READY_S):
                while not await loop.run_in_executor(None, is_ready, child.http()):
                    if task.done() or child.restarts > self._killed.get(child.service.name, 0):
                        raise RuntimeError(f"{child.service.name} ended: {child.last_words()}")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise RuntimeError(
                f"{child.service.name} does not get ready: {child.last_words()}"
            ) from None
        child.was_ready = True

    async def stop(self, name: str) -> None:
        """In order. Raises if it had died meanwhile."""
        child, task = self._children.pop(name), self._tasks.pop(name)
        if name in self._profilers:
            lines = self._profilers.pop(name).stop()
            sys.stderr.write("\n".join([f"{name}: processor time", *lines, ""]))
        await child.stop()
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        if child.restarts > self._killed.get(name, 0):
            raise RuntimeError(f"{name} died during the measurement: {child.last_words()}")

    def check(self) -> None:
        """Raises if any service died."""
        for name, child in self._children.items():
            if child.restarts > self._killed.get(name, 0):
                raise RuntimeError(f"{name} died: {child.last_words()}")

    async def kill(self, name: str) -> None:
        """SIGKILL, and wait until another process has taken its place."""
        child = self._children[name]
        before = child.process
        assert before is not None
        self._killed[name] = self._killed.get(name, 0) + 1
        before.kill()
        while child.process is before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def lose(self, name: str) -> None:
        """SIGKILL, and nothing takes its place; its profile is lost with it."""
        self._profilers.pop(name, None)
        child, task = self._children.pop(name), self._tasks.pop(name)
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert child.process is not None
        child.process.kill()
        await child.process.wait()

    async def stop_nats(self) -> None:
        await self._nats.stop()

    async def start_nats(self) -> None:
        """Until it answers."""
        await self._nats.start()

    async def kill_nats(self) -> None:
        """SIGKILL, and wait until another process of it answers."""
        self._nats.kill()
        await self._nats.start()

    def http(self, name: str) -> str:
        """Its admin address; empty while it starts."""
        return self._children[name].http()

    async def ready(self, name: str) -> None:
        """Until it says so. Raises RuntimeError."""
        await self._ready(self._children[name], self._tasks[name])

    def pid(self, name: str) -> int:
        process = self._children[name].process
        assert process is not None
        return process.pid

    def status_url(self, name: str) -> str:
        return f"{self._children[name].http()}/status"

    def watch(self, name: str, pid: int) -> None:
        """Count the processor time of a process of somebody else's, too."""
        self._others[name] = pid

    def cpu(self) -> Cpu:
        """Begin to count processor time."""
        running = {name: self.pid(name) for name in self._children}
        return Cpu(running | {"nats": self._nats.pid} | self._others)


class Cpu:
    """What processes had of the machine since this was made."""

    def __init__(self, pids: Mapping[str, int]) -> None:
        self._pids = pids
        self._began = asyncio.get_running_loop().time()
        self._used = {name: cpu_seconds(pid) for name, pid in pids.items()}
        self._queued = {name: queued_seconds(pid) for name, pid in pids.items()}

    def usage(self) -> Usage:
        """Averages until now."""
        seconds = asyncio.get_running_loop().time() - self._began
        return Usage(
            {n: (cpu_seconds(pid) - self._used[n]) / seconds for n, pid in self._pids.items()},
            {n: (queued_seconds(pid) - self._queued[n]) / seconds for n, pid in self._pids.items()},
        )


def _say(trouble: str) -> None:
    sys.stderr.write(f"{trouble}\n")


def actors_of(url: str) -> dict[str, Any]:
    """What a service's actors say; `url`: of its status."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        found: dict[str, Any] = msgspec.json.decode(answer.read())["actors"]
    return found


def is_ready(url: str) -> bool:
    """Whether the service at this admin address says that it is ready; a Pump also that it is
    online, as it takes no Prewrites before."""
    if not url:
        return False
    try:
        with urllib.request.urlopen(f"{url}/status", timeout=3) as answer:
            status = msgspec.json.decode(answer.read())
    except (OSError, msgspec.DecodeError):
        return False
    writer = status["actors"].get("writer", {})
    return bool(status["ready"]) and writer.get("state", ONLINE) == ONLINE
