"""The admin HTTP server of a service: /metrics, /livez, /readyz, /status, and what the service adds
(`tidelog.routes`). An edge: no state; statuses are real ones, an error's body is an ErrorReply."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Callable

import msgspec
import structlog
from aiohttp import web

from tidelog import metrics
from tidelog.config import Secret
from tidelog.errors import (
    ConfigError,
    DeadlineExceeded,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    TidelogError,
    Unauthenticated,
)
from tidelog.messages import encode_error
from tidelog.routes import Answer, Route, find, status_of

log = structlog.get_logger()

Status = Callable[[], dict[str, object]]
DEADLINE_S = 30.0
BODY_BYTES = 64 << 10
EVERYWHERE = {
    "0.0.0.0": (socket.AF_INET, "127.0.0.1"),  # noqa: S104 (compared, not bound)
    "::": (socket.AF_INET6, "::1"),
}
"""What is bound -> its family (asyncio's `::` takes no IPv4), and where this machine finds itself
if its name leads nowhere."""


class HttpAdmin:
    """`status()` is what /status shows; its keys "ready" and "why" decide /readyz. `routes()` are
    those of the service, once it is built; its admin ones are served to whom sends `token`."""

    def __init__(
        self,
        status: Status,
        routes: Callable[[], list[Route]] = list,
        token: Secret = Secret(),  # noqa: B008 (it never changes)
    ) -> None:
        self._status = status
        self._routes = routes
        self._token = token
        self._own: frozenset[str] = frozenset()
        self._runner: web.AppRunner | None = None

    async def start(self, addr: str) -> str:
        """Listen on `HOST:PORT`, port 0 = a free one; returns what others reach it by. Raises
        ConfigError."""
        host, colon, port = addr.rpartition(":")
        if not (colon and port.isdecimal() and int(port) < 65536):
            raise ConfigError(f"http-addr {addr!r} is not HOST:PORT")
        app = web.Application(client_max_size=BODY_BYTES)
        own = {
            "/metrics": self._metrics,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/status": self._show,
        }
        app.add_routes([web.get(path, handler) for path, handler in own.items()])
        app.router.add_route("*", r"/{path:[\s\S]*}", self._other)
        self._own = frozenset(own)
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
        actors: metrics.Actors = self._status().get("actors", {})  # type: ignore[assignment]
        return web.Response(
            body=metrics.exposition(actors), headers={"Content-Type": metrics.CONTENT_TYPE}
        )

    async def _livez(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        status = self._status()
        if status["ready"]:
            return web.Response(text="ok\n")
        return web.Response(text=f"not ready: {status.get('why', '')}\n", status=503)

    async def _show(self, _request: web.Request) -> web.Response:
        return _json(self._status())

    async def _other(self, request: web.Request) -> web.Response:
        found = find(self._routes(), request.method, request.rel_url.raw_path)
        methods = ("GET", "HEAD") if request.path in self._own else found.methods
        if found.route is None:
            asked = f"{request.method} {request.path}"
            if not methods:
                return _error(NotFound(f"{asked} is nothing that is served here"), 404)
            allowed = ", ".join(methods)
            refusal = MethodNotAllowed(f"{asked} is not served, only {allowed}")
            return _error(refusal, 405, {"Allow": allowed})
        try:
            if found.route.admin:
                check_token(self._token, request.headers.get("Authorization", ""))
            async with asyncio.timeout(DEADLINE_S):
                answer = await found.route.handler(found.given)
        except TimeoutError:
            return _error(DeadlineExceeded(f"no answer within {DEADLINE_S:.0f} s"), 504)
        except Unauthenticated as error:
            return _error(error, status_of(error), {"WWW-Authenticate": 'Bearer realm="tidelog"'})
        except TidelogError as error:
            return _error(error, status_of(error))
        except Exception as raised:
            log.error("a request failed unforeseen", path=request.path, exc_info=raised)
            return _error(TidelogError(f"{type(raised).__name__}: {raised}"), 500)
        if isinstance(answer, Answer):
            return _json(answer.body, answer.status)
        return _json(answer)


def check_token(token: Secret, authorization: str) -> None:
    """Raises Unauthenticated (none was sent), Forbidden (another one, or none is configured)."""
    if not token:
        raise Forbidden(
            "no admin-token is configured: what changes something is refused over HTTP",
            hint="set admin-token (or TIDELOG_ADMIN_TOKEN) and start it again",
        )
    scheme, _, sent = authorization.strip().partition(" ")
    if scheme.lower() != "bearer" or not sent.strip():
        raise Unauthenticated(
            "this needs the admin token", hint="send the header `Authorization: Bearer TOKEN`"
        )
    wanted = token.reveal().encode()
    if not hmac.compare_digest(sent.strip().encode("utf-8", "surrogateescape"), wanted):
        raise Forbidden("this is not the admin token")


def _json(body: object, status: int = 200) -> web.Response:
    text = msgspec.json.format(msgspec.json.encode(body, enc_hook=str))
    return web.Response(body=text, status=status, content_type="application/json")


def _error(error: TidelogError, status: int, headers: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        body=encode_error(error), status=status, headers=headers, content_type="application/json"
    )


def reachable(host: str) -> str:
    """The host that others use for one bound: a container's own address for "all interfaces"."""
    if host in EVERYWHERE:
        family, host = EVERYWHERE[host]
        with contextlib.suppress(OSError):
            host = str(socket.getaddrinfo(socket.gethostname(), None, family)[0][4][0])
    return f"[{host}]" if ":" in host else host
