"""Routes a service adds to its admin HTTP server: what is asked and answered, without HTTP. Pure.

    tree.route("GET", "/debug/binlog/{ts}", handler)

The handler gets what stands in the path's braces by name, calls actors, and returns what is shown
as JSON, an `Answer` if that is not 200, or raises one of our errors.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import unquote

import msgspec

from tidelog.errors import (
    BadInput,
    DeadlineExceeded,
    Forbidden,
    MethodNotAllowed,
    NotFound,
    Purged,
    Refused,
    TidelogError,
    Unauthenticated,
    Unavailable,
)

Handler = Callable[[dict[str, str]], Awaitable[Any]]


class Answer(msgspec.Struct, frozen=True):
    status: int
    body: Any


class Route(msgspec.Struct, frozen=True):
    """`path` is literal but for whole segments in braces. `admin`: only with the admin token."""

    method: str
    path: str
    handler: Handler
    admin: bool = False


class Found(msgspec.Struct, frozen=True):
    """What a request leads to: `route` is None if the path has none of that method; `methods` are
    those it has, none if nobody knows the path."""

    route: Route | None
    given: dict[str, str]
    methods: tuple[str, ...]


_STATUS: tuple[tuple[type[TidelogError], int], ...] = (
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (MethodNotAllowed, 405),
    (BadInput, 400),
    (Purged, 410),
    (DeadlineExceeded, 504),
    (Refused, 503),
    (Unavailable, 503),
)


def status_of(error: TidelogError) -> int:
    """The first row whose class fits; 500 if none does."""
    return next((status for cls, status in _STATUS if isinstance(error, cls)), 500)


def find(routes: Iterable[Route], method: str, path: str) -> Found:
    """`path` as it came, its segments still quoted."""
    here = [(r, given) for r in routes if (given := _given(r.path, path)) is not None]
    methods = tuple(sorted({route.method for route, _ in here}))
    for route, given in here:
        if route.method == method:
            return Found(route, given, methods)
    return Found(None, {}, methods)


def _given(template: str, path: str) -> dict[str, str] | None:
    """What stands in the braces; None if the path is another."""
    wanted, there = template.split("/"), [unquote(segment) for segment in path.split("/")]
    if len(wanted) != len(there):
        return None
    given: dict[str, str] = {}
    for want, is_there in zip(wanted, there, strict=True):
        if want.startswith("{") and is_there:
            given[want.strip("{}")] = is_there
        elif want != is_there:
            return None
    return given
