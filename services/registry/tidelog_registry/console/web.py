"""The console's paths: the page, its files, its events. An edge: it calls actors, and has no state.

Nothing here changes anything, and nothing is secret: whoever reaches the address may read it. The
page can load nothing from elsewhere, and no other page can put it into a frame.
"""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from tidelog.actor import Ref
from tidelog.errors import Overloaded, TidelogError
from tidelog_registry.console.files import File, page_files
from tidelog_registry.console.gatherer import First
from tidelog_registry.console.viewers import Viewer, Viewers

SLOW_S = 10.0
"""Who takes nothing for so long is let go."""
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
FULL = b"event: full\ndata: {}\n\n"


def app(gatherer: Ref[First], viewers: Viewers) -> Starlette:
    async def events(_request: Request) -> Response:
        return Events(gatherer, viewers)

    routes = [Route("/events", events)]
    for name, file in page_files().items():
        routes.append(_file(f"/{name}", file))
        if name == "index.html":
            routes.append(_file("/", file))
    return Starlette(routes=routes)


def _file(path: str, file: File) -> Route:
    headers = HEADERS | {"ETag": file.etag, "Cache-Control": "no-cache"}

    async def serve(request: Request) -> Response:
        if request.headers.get("if-none-match") == file.etag:
            return Response(status_code=304, headers=headers)
        return Response(file.body, media_type=file.kind, headers=headers)

    return Route(path, serve)


class Events(Response):
    """Server-sent events until the viewer goes, is slow, or the registry stops."""

    media_type = "text/event-stream"

    def __init__(self, gatherer: Ref[First], viewers: Viewers) -> None:
        super().__init__(headers=HEADERS | {"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._gatherer = gatherer
        self._viewers = viewers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        try:
            viewer = self._viewers.join()
        except Overloaded:
            await send({"type": "http.response.body", "body": FULL})
            return
        try:
            await self._tell(viewer, Request(scope, receive), send)
        finally:
            self._viewers.leave(viewer)

    async def _tell(self, viewer: Viewer, request: Request, send: Send) -> None:
        try:
            data: bytes | None = await self._gatherer.ask(First)
        except TidelogError:
            data = None  # it is stopping
        while data is not None:
            try:
                async with asyncio.timeout(SLOW_S):
                    await send({"type": "http.response.body", "body": data, "more_body": True})
            except TimeoutError:
                return
            if await request.is_disconnected():
                return
            data = await viewer.next()
        await send({"type": "http.response.body", "body": b""})
