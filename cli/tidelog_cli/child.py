"""One service as a child process, kept alive as an orchestrator would: a process that ends is
started again after a delay that grows to 5 s."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from tidelog.errors import EXIT_CONFIG, EXIT_USAGE, ConfigError
from tidelog.ports import Process, Processes
from tidelog.real.disk import put

BACKOFF_S = (0.1, 0.5, 1.0, 2.0, 5.0)
STABLE_S = 10.0
STOP_S = 40.0
HTTP_FILE = "http"
CONSOLE_FILE = "console"


class Service(msgspec.Struct, frozen=True):
    """One child: its name, the package that it runs, its configuration."""

    name: str
    module: str
    config: dict[str, Any]


def to_toml(config: dict[str, Any]) -> str:
    """Flat TOML with dotted keys; JSON's strings, numbers and booleans are TOML's."""
    return "".join(f"{key} = {json.dumps(value)}\n" for key, value in config.items())


class Child:
    """Keeps one service's process alive."""

    def __init__(
        self,
        service: Service,
        directory: Path,
        processes: Processes,
        on_trouble: Callable[[str], None],
    ) -> None:
        self.service = service
        self.home = directory / service.name
        self.process: Process | None = None
        self.restarts = 0
        self.was_ready = False
        self._processes = processes
        self._on_trouble = on_trouble
        self._stopping = False

    @property
    def log_path(self) -> Path:
        return self.home / "log"

    def http(self) -> str:
        """The admin address it is bound to now; empty before."""
        path = self.home / HTTP_FILE
        return f"http://{path.read_text().strip()}" if path.exists() else ""

    def console(self) -> str:
        """The page that it serves, or did before it was started again; empty if there is none."""
        path = self.home / CONSOLE_FILE
        return f"http://{path.read_text().strip()}/" if path.exists() else ""

    def last_words(self) -> str:
        """The line it ended with, without its own name."""
        lines = self.log_path.read_text(errors="replace").strip().splitlines()
        name = self.service.module.replace("_", "-")
        return lines[-1].removeprefix(f"{name}: ") if lines else ""

    async def keep(self, changed: Callable[[], None]) -> None:
        """Run until `stop`. Raises ConfigError if the first start is refused, DiskFull if there is
        no room for its configuration."""
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        config = self.home / f"{self.service.module.removeprefix('tidelog_')}.toml"
        put(config, to_toml(self.service.config).encode())
        argv = [sys.executable, "-m", self.service.module, "--config", str(config)]
        loop = asyncio.get_running_loop()
        failures = 0
        while not self._was_stopped():
            (self.home / HTTP_FILE).unlink(missing_ok=True)
            began = loop.time()
            self.process = await self._processes.start(argv, log_path=str(self.log_path))
            if self._was_stopped():  # while it was being started
                self.process.terminate()
            changed()
            code = await self.process.wait()
            if self._was_stopped():
                return
            if code in (EXIT_CONFIG, EXIT_USAGE) and not self.was_ready:
                raise ConfigError(f"{self.service.name} refuses to start: {self.last_words()}")
            self._on_trouble(self._obituary(code))
            failures = 0 if loop.time() - began > STABLE_S else failures + 1
            self.restarts += 1
            await asyncio.sleep(BACKOFF_S[min(failures, len(BACKOFF_S)) - 1] if failures else 0)

    def _obituary(self, code: int) -> str:
        if code < 0:
            return f"{self.service.name} was ended by signal {-code}; it is started again"
        return f"{self.service.name} ended with {code}; it is started again: {self.last_words()}"

    def _was_stopped(self) -> bool:
        return self._stopping

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL for one that does not end in time."""
        self._stopping = True
        if self.process is None or self.process.returncode is not None:
            return
        self.process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self.process.wait()
        except TimeoutError:
            self.process.kill()
            await self.process.wait()
