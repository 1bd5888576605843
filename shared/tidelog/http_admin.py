"""The admin HTTP server of a service: /metrics, /livez, /readyz, /status. An edge: no state."""

from __future__ import annotations

import socket
from collections.abc import Callable

import msgspec
from aiohttp import web

from tidelog import metrics
from tidelog.errors import ConfigError

Status = Callable[[], dict[str, object]]


class HttpAdmin:
    """`status()` is what /status shows; its keys "ready" and "why" decide /readyz."""

    def __init__(self, status: Status) -> None:
        self._status = status
        self._runner: web.AppRunner | None = None

    async def start(self, addr: str) -> str:
        """Listen on `HOST:PORT`, port 0 = a free one; returns what others reach it by. Raises
        ConfigError."""
        host, colon, port = addr.rpartition(":")
        if not colon or not port.isdigit():
            raise ConfigError(f"http-addr {addr!r} is not HOST:PORT")
        app = web.Application()
        app.add_routes(
            [
                web.get("/metrics", self._metrics),
                web.get("/livez", self._livez),
                web.get("/readyz", self._readyz),
                web.get("/status", self._show),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, host.strip("[]") or None, int(port)).start()
        except OSError as error:
            await self.stop()
            raise ConfigError(f"http-addr {addr} can't be listened on: {error}") from error
        bound = self._runner.addresses[0]
        return f"{reachable(str(bound[0]))}:{bound[1]}"

    async def stop(self) -> None:
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()

    async def _metrics(self, _request: web.Request) -> web.Response:
        self._status()  # sets the gauges of the service itself
        return web.Response(
            body=metrics.exposition(), headers={"Content-Type": metrics.CONTENT_TYPE}
        )

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        status = self._status()
        if status["ready"]:
            return web.Response(text="ok\n")
        return web.Response(text=f"not ready: {status.get('why', '')}\n", status=503)

    async def _show(self, _request: web.Request) -> web.Response:
        body = msgspec.json.encode(self._status(), enc_hook=str)
        return web.Response(body=msgspec.json.format(body), content_type="application/json")


def reachable(host: str) -> str:
    """The host that others use for one bound: a container's own address for "all interfaces"."""
    if host not in ("0.0.0.0", "::"):  # noqa: S104 (compared, not bound)
        return f"[{host}]" if ":" in host else host
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
