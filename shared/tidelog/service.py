"""Run a service: what is the same for all of them (design section 3).

    if __name__ == "__main__":
        main("pump", PumpConfig, build)

`build(config, ports)` is the service's one screen, used unchanged by the simulator. The first
SIGTERM or SIGINT stops the actors in order, the second ends the process at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import NoReturn, TypeVar

import msgspec
import structlog
import uvloop

from tidelog import failpoints, frozen, leftovers, logs, metrics
from tidelog.config import HelpRequested, ServiceConfig, load, redacted, redacted_url
from tidelog.errors import EXIT_FAILED, EXIT_OK, EXIT_RESTART, Stuck, TidelogError, exit_code
from tidelog.health import HTTP_FILE
from tidelog.http_admin import HttpAdmin
from tidelog.micro import MicroService
from tidelog.offline import Offline
from tidelog.ports import Ports
from tidelog.real.bus import NatsBus
from tidelog.real.connection import Connection
from tidelog.real.disk import RealDisk
from tidelog.real.ports import OpenDownstream, no_downstream, real_ports
from tidelog.routes import Route
from tidelog.supervisor import Supervisor

C = TypeVar("C", bound=ServiceConfig)
Build = Callable[[C, Ports], Supervisor | Awaitable[Supervisor]]
log = structlog.get_logger()

QUIET_S = 2.0
"""A start waits for NATS that long before it says so."""
LOCK_FILE = "process.lock"
"""In the data directory, held until the process is no more: `http` beside it is the address of one
process, and a lease goes by the directory (`lease_store`)."""


def main(
    name: str,
    config_class: type[C],
    build: Build[C],
    *,
    open_downstream: OpenDownstream = no_downstream,
    offline: Callable[[C], Offline[C] | None] = lambda _: None,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> NoReturn:
    """Run the service `name` to its end, and exit with the code of the error table."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    variables = os.environ if environ is None else environ
    logs.configure(service=name)
    try:
        config = load(config_class, name, arguments, variables)
        config = msgspec.structs.replace(config, data_dir=config.data_dir or f"data/{name}")
        logs.configure(config.log_format, config.log_level, service=name, node=config.node_id)
        failpoints.arm_from_text(variables.get("TIDELOG_FAILPOINTS", ""))
        leftovers.settle()
        uvloop.run(_to_the_end(Runner(name, config, build, open_downstream, offline(config))))
    except HelpRequested as help_text:
        sys.stdout.write(f"{help_text.message}\n")
    except Exception as error:  # noqa: BLE001 (the last line of defence: it becomes the exit code)
        sys.exit(report(name, error))
    sys.exit(EXIT_OK)


async def _to_the_end(runner: Runner) -> None:
    """A loop that is closed waits for its tasks and threads: for what is stuck, for ever."""
    try:
        await runner.run()
    except Stuck as error:
        code = exit_code(error)
        try:
            for why in (runner.failure, error.__context__):
                if isinstance(why, TidelogError):
                    log.error("the service was to end", error=why.message)
            report(runner.name, error)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def report(name: str, error: Exception) -> int:
    """One clear line (a traceback for what nobody foresaw), and the exit code. What has none of its
    own crashed too often: another process may do better."""
    if isinstance(error, TidelogError):
        log.error("the service ends", error=error.message, kind=type(error).__name__)
        sys.stderr.write(f"tidelog-{name}: {error}\n")
        code = exit_code(error)
        return EXIT_RESTART if code == EXIT_FAILED else code
    log.error("the service ends by an unforeseen error", exc_info=error)
    sys.stderr.write(f"tidelog-{name}: {type(error).__name__}: {error}\n")
    return EXIT_RESTART


class Runner:
    """One run of one service: edges around its supervisor."""

    def __init__(
        self,
        name: str,
        config: C,
        build: Build[C],
        open_downstream: OpenDownstream,
        offline: Offline[C] | None,
    ) -> None:
        self.name = name
        self._config: ServiceConfig = config
        self._shown_config = redacted(config)
        self._build: Build[ServiceConfig] = build  # type: ignore[assignment]
        self._open_downstream = open_downstream
        self._offline: Offline[ServiceConfig] | None = offline  # type: ignore[assignment]
        self._supervisor: Supervisor | None = None
        self._bus: NatsBus | None = None
        self._stop = asyncio.Event()
        self._signals = 0
        self._main: asyncio.Task[None] | None = None
        self.failure: TidelogError | None = None
        self._started = datetime.now(UTC)
        self._stall: metrics.StallWatch | None = None

    async def run(self) -> None:
        """Returns after an orderly stop; raises what ended the service otherwise."""
        self._main = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        self._stall, sweep, watchdog = metrics.StallWatch(), leftovers.Sweep(), frozen.Watchdog()
        self._stall.start()
        sweep.start()
        watchdog.start()
        node, cluster = self._config.node_id, self._config.cluster
        metrics.build_info.labels(self.name, node, cluster, version("tidelog")).set(1)
        admin = HttpAdmin(self.status, self.routes, self._config.admin_token)
        try:
            await self._run(admin)
        except asyncio.CancelledError:
            if self.failure is not None:
                raise self.failure from None
            if not self._stop.is_set():
                raise
            log.info("stopped before everything ran")
        finally:
            self._main = None  # nothing is left that could be cut short
            sweep.stop()
            self._stall.stop()
            watchdog.stop()
            await self._close(admin.stop)
            if self._bus is not None:
                await self._close(self._bus.close)

    async def _close(self, close: Callable[[], Awaitable[None]]) -> None:
        """What goes wrong here must not hide what ended the service."""
        try:
            await close()
        except Exception as error:  # noqa: BLE001 (nothing is left that it could cost)
            log.warning("not ended in order", error=str(error), kind=type(error).__name__)

    async def _run(self, admin: HttpAdmin) -> None:
        own = RealDisk(self._config.data_dir)
        own.lock(LOCK_FILE)
        addr = await admin.start(self._config.http_addr)
        self._config = msgspec.structs.replace(self._config, http_addr=addr)
        self._shown_config = redacted(self._config)
        await own.write_file(HTTP_FILE, f"{addr}\n".encode())
        log.info("starting", version=version("tidelog"), http=addr, data_dir=str(own.root))
        disk = RealDisk(self._config.storage_dir)
        if self._offline is not None and await self._is_done_offline(self._offline, disk):
            return
        if self._bus is None:
            self._bus = await self._connect(self._config.nats_url)
        ports = real_ports(self._config, disk, self._bus, open_downstream=self._open_downstream)
        built = self._build(self._config, ports)
        self._supervisor = await built if inspect.isawaitable(built) else built
        await self._register_micro(ports)
        await self._supervisor.run(self._stop)
        log.info("stopped")

    async def _is_done_offline(self, offline: Offline[ServiceConfig], disk: RealDisk) -> bool:
        """Wait for NATS that long; then do what can be done without. Raises what that ended by."""
        if offline.after_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(offline.after_s):
                    self._bus = await self._connect(self._config.nats_url)
                return False
        log.warning("no NATS server answers: doing what needs none", after_s=offline.after_s)
        nobody = NatsBus(Connection(self._node()))
        ports = real_ports(self._config, disk, nobody, open_downstream=self._open_downstream)
        ended: list[bool | TidelogError] = []

        def end(how: bool | TidelogError) -> None:
            ended.append(how)
            self._stop.set()

        self._supervisor = offline.build(self._config, ports, end)
        await self._supervisor.run(self._stop)
        self._supervisor = None
        if self._signals:
            return True
        self._stop.clear()
        if isinstance(ended[0], TidelogError):
            raise ended[0]
        return ended[0] or not offline.after_s

    async def _connect(self, url: str) -> NatsBus:
        """For ever if need be, and says so once."""
        said = redacted_url(url)
        telling = asyncio.get_running_loop().call_later(
            QUIET_S, lambda: log.warning("no NATS server answers yet: it is waited for", url=said)
        )
        try:
            return await NatsBus.connect(
                url, name=self._node(), on_lost=self._on_bus_lost, access=self._config.access
            )
        finally:
            telling.cancel()

    def _node(self) -> str:
        return f"tidelog-{self.name}" + (f"/{self._config.node_id}" if self._config.node_id else "")

    async def _register_micro(self, ports: Ports) -> None:
        assert self._bus is not None
        bus = self._bus
        micro = MicroService(
            f"tidelog-{self.name}",
            ports.rng.token(),
            version("tidelog"),
            self._started.isoformat(),
            {"node": self._config.node_id, "cluster": self._config.cluster},
            lambda: [
                {"subject": s.subject, "num_requests": s.requests, "num_errors": s.errors}
                for s in bus.served
                if not s.subject.startswith("$")
            ],
        )
        await micro.serve(bus)

    def _on_signal(self, number: int) -> None:
        self._signals += 1
        if self._signals > 1:
            log.warning("the second signal: ending at once", signal=number)
            os._exit(128 + number)
        log.info("stopping in order; a second signal ends at once", signal=number)
        self._stop.set()
        if self._supervisor is None and self._main is not None:
            self._main.cancel()

    def _on_bus_lost(self, error: TidelogError) -> None:
        if self.failure is not None:
            return
        self.failure = error
        if self._main is not None:
            self._main.cancel()

    def routes(self) -> list[Route]:
        return [] if self._supervisor is None else self._supervisor.routes

    def status(self) -> dict[str, object]:
        supervisor, bus = self._supervisor, self._bus
        actors = {} if supervisor is None else supervisor.status()
        held = "; ".join(str(a["not_ready"]) for a in actors.values() if a.get("not_ready"))
        is_ready = supervisor is not None and supervisor.ready and not held
        metrics.ready.set(1 if is_ready else 0)
        metrics.restarts.set(0 if supervisor is None else supervisor.restarts_total)
        why = ""
        if not is_ready:
            why = "waiting for NATS" if bus is None else "stopping" if self._signals else "starting"
            why = held if supervisor is not None and supervisor.ready else why
        return {
            "service": self.name,
            "node": self._config.node_id,
            "version": version("tidelog"),
            "pid": os.getpid(),
            "ready": is_ready,
            "why": why,
            "started": self._started.isoformat(),
            "restarts": 0 if supervisor is None else supervisor.restarts_total,
            "bus": {
                "connected": bus is not None and bus.connected,
                "reconnects": 0 if bus is None else bus.reconnects,
            },
            "worst_stall_s": 0.0 if self._stall is None else round(self._stall.worst_s, 4),
            "config": self._shown_config,
            "actors": actors,
        }
