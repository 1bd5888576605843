"""Serves the console by uvicorn, in the registry's event loop.

Memory is bounded by connections: so many, each with a small buffer in the kernel and here. One that
takes nothing is closed by the kernel in the end, whatever its peer does; one that asks nothing, by
us.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Sequence

import structlog
import uvicorn

from tidelog.actor import Actor, Nothing, Ref
from tidelog.errors import ConfigError
from tidelog.ports import Disk
from tidelog_registry.console.asking import AskingProtocol
from tidelog_registry.console.gatherer import First
from tidelog_registry.console.own_names import OwnNames
from tidelog_registry.console.viewers import MOST, Viewers
from tidelog_registry.console.web import app

log = structlog.get_logger()

ADDRESS_FILE = "console"
"""In the data directory: where the page is."""
BESIDE = 64
"""Connections besides the viewers', for the page's files."""
SEND_BYTES = 128 << 10
DEAD_MS = 20_000
STOP_S = 2.0


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """They are the service's, which stops its actors in order."""
        yield


class ConsoleServer(Actor[Nothing]):
    def __init__(
        self,
        addr: str,
        hosts: Sequence[str],
        disk: Disk,
        gatherer: Ref[First],
        viewers: Viewers,
    ) -> None:
        self._wanted = addr
        self._disk = disk
        self._viewers = viewers
        self._server = _Server(
            uvicorn.Config(
                OwnNames(app(gatherer, viewers), hosts),
                lifespan="off",
                log_config=None,
                log_level=logging.ERROR,
                access_log=False,
                http=AskingProtocol,
                server_header=False,
                limit_concurrency=MOST + BESIDE,
                timeout_graceful_shutdown=1,
                ws="none",
            )
        )
        self._addr = ""

    async def on_start(self) -> None:
        listening = self._listen()
        self._addr = "{}:{}".format(*listening.getsockname()[:2])
        await self._disk.write_file(ADDRESS_FILE, f"{self._addr}\n".encode())
        self._serving = self.spawn(self._serve(listening), "serve")
        log.info("the console is served", url=f"http://{self._addr}/")

    async def on_stop(self) -> None:
        self._viewers.end()
        self._server.should_exit = True
        await asyncio.wait([self._serving], timeout=STOP_S)

    def status(self) -> dict[str, object]:
        return {"addr": self._addr}

    def _listen(self) -> socket.socket:
        """Raises ConfigError."""
        host, colon, port = self._wanted.rpartition(":")
        if not (colon and port.isdecimal() and int(port) < 65536):
            raise ConfigError(f"console-addr {self._wanted!r} is not HOST:PORT")
        host = host.strip("[]")
        if port == "0" and (last := self._last_port(host)):
            with contextlib.suppress(OSError):
                return _listening(host, last)
        try:
            return _listening(host, int(port))
        except OSError as error:
            raise ConfigError(
                f"console-addr {self._wanted} can't be listened on: {error}",
                hint="choose another port, or 0 for a free one",
            ) from error

    def _last_port(self, host: str) -> int:
        """A page that is open finds the registry again after a restart. 0: there is none."""
        if not self._disk.exists(ADDRESS_FILE):
            return 0
        last, _, port = self._disk.read_file(ADDRESS_FILE).decode().strip().rpartition(":")
        return int(port) if last == host and port.isdecimal() else 0

    async def _serve(self, listening: socket.socket) -> None:
        try:
            await self._server.serve(sockets=[listening])
        finally:
            self._viewers.end()
            for server in getattr(self._server, "servers", ()):
                server.close()
            listening.close()
            for connection in list(self._server.server_state.connections):
                connection.transport.abort()


def _listening(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, DEAD_MS)
        made.bind((host, port))
        made.setblocking(False)
    except BaseException:
        made.close()
        raise
    return made
