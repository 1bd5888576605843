"""The admin HTTP server on a real socket: routes of the service, real statuses, typed errors."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
import pytest

from tidelog import http_admin
from tidelog.errors import (
    ActorStopped,
    BadInput,
    Corrupt,
    DeadlineExceeded,
    DiskFull,
    NotFound,
    Purged,
    TidelogError,
)
from tidelog.http_admin import HttpAdmin
from tidelog.routes import Answer, Route, find

Ask = Callable[[str, str], Awaitable[tuple[int, Any, str]]]


async def _echo(given: dict[str, str]) -> dict[str, str]:
    return given


def serving(routes: list[Route], scenario: Callable[[Ask], Awaitable[None]]) -> None:
    async def main() -> None:
        admin = HttpAdmin(lambda: {"ready": True, "why": ""}, lambda: routes)
        address = await admin.start("127.0.0.1:0")
        async with aiohttp.ClientSession() as session:

            async def ask(method: str, path: str) -> tuple[int, Any, str]:
                async with session.request(method, f"http://{address}{path}") as answer:
                    is_json = answer.content_type == "application/json" and method != "HEAD"
                    body = await answer.json() if is_json else await answer.text()
                    return answer.status, body, answer.headers.get("Allow", "")

            try:
                await scenario(ask)
            finally:
                await admin.stop()

    asyncio.run(main())


def failing(error: Exception) -> Callable[[dict[str, str]], Awaitable[None]]:
    async def handle(_given: dict[str, str]) -> None:
        raise error

    return handle


def test_routes_are_found_by_method_and_whole_segments() -> None:
    routes = [Route("GET", "/a/{x}/b/{y}", _echo), Route("POST", "/a/{x}/b/c", _echo)]
    assert find(routes, "GET", "/a/1/b/2").given == {"x": "1", "y": "2"}
    assert find(routes, "GET", "/a/1/b/c").route is routes[0]
    assert find(routes, "POST", "/a/1/b/c").route is routes[1]
    assert find(routes, "PUT", "/a/1/b/c") == find(routes, "DELETE", "/a/1/b/c")
    assert find(routes, "PUT", "/a/1/b/c").methods == ("GET", "POST")
    for other in ("/a", "/a//b/2", "/a/1/b/2/", "/a/1/b/2/c", "", "/", "a/1/b/2"):
        assert find(routes, "GET", other).methods == ()


def test_a_route_answers_and_what_is_not_there_is_told() -> None:
    async def accepted(_given: dict[str, str]) -> Answer:
        return Answer(202, {"deleted": [2**63]})

    async def scenario(ask: Ask) -> None:
        assert await ask("GET", "/debug/binlog/7%2F8") == (200, {"ts": "7/8"}, "")
        assert await ask("POST", "/debug/gc/trigger") == (202, {"deleted": [2**63]}, "")
        status, body, allow = await ask("GET", "/debug/gc/trigger")
        assert (status, allow) == (405, "POST")
        assert body["code"] == "MethodNotAllowed"
        assert (await ask("POST", "/status"))[::2] == (405, "GET, HEAD")
        assert (await ask("GET", "/status"))[0] == (await ask("HEAD", "/status"))[0] == 200
        for nowhere in ("/debug/binlog", "/debug/binlog/", "/x", "/"):
            assert (await ask("GET", nowhere))[0] == 404

    routes = [
        Route("GET", "/debug/binlog/{ts}", _echo),
        Route("POST", "/debug/gc/trigger", accepted),
    ]
    serving(routes, scenario)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput("no number", hint="a number"), 400),
        (NotFound("nothing"), 404),
        (Purged("gone"), 410),
        (DiskFull("full"), 503),
        (ActorStopped("between two lives"), 503),
        (DeadlineExceeded("late"), 504),
        (Corrupt("damaged"), 500),
        (KeyError("a bug"), 500),
    ],
)
def test_errors_have_their_status_and_are_typed(error: Exception, status: int) -> None:
    async def scenario(ask: Ask) -> None:
        got, body, _ = await ask("GET", "/x")
        assert got == status
        kind = type(error).__name__ if isinstance(error, TidelogError) else "TidelogError"
        assert body["code"] == kind
        assert (await ask("GET", "/livez"))[0] == 200

    serving([Route("GET", "/x", failing(error))], scenario)


def test_an_answer_that_never_comes_is_a_504(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_admin, "DEADLINE_S", 0.05)

    async def never(_given: dict[str, str]) -> None:
        await asyncio.Event().wait()

    async def scenario(ask: Ask) -> None:
        assert (await ask("GET", "/x"))[0] == 504

    serving([Route("GET", "/x", never)], scenario)


def test_before_the_service_is_built_its_routes_are_not_there() -> None:
    async def scenario(ask: Ask) -> None:
        assert (await ask("GET", "/drainers"))[0] == 404

    serving([], scenario)
