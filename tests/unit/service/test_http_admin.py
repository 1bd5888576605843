"""The admin HTTP server on a real socket: routes of the service, real statuses, typed errors."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import aiohttp
import pytest

from tidelog import http_admin
from tidelog.config import Secret
from tidelog.errors import (
    ActorStopped,
    BadInput,
    ConfigError,
    Corrupt,
    DeadlineExceeded,
    DiskFull,
    NotFound,
    Purged,
    TidelogError,
)
from tidelog.http_admin import HttpAdmin
from tidelog.routes import Answer, Route, find

CHALLENGE = 'Bearer realm="tidelog"'


class Ask(Protocol):
    """Status, body, and what else has to be tried."""

    async def __call__(self, method: str, path: str, **headers: str) -> tuple[int, Any, str]: ...


async def _echo(given: dict[str, str]) -> dict[str, str]:
    return given


def serving(
    routes: list[Route],
    scenario: Callable[[Ask], Awaitable[None]],
    token: Secret = Secret(),  # noqa: B008 (it never changes)
) -> None:
    async def main() -> None:
        admin = HttpAdmin(lambda: {"ready": True, "why": ""}, lambda: routes, token)
        address = await admin.start("127.0.0.1:0")
        async with aiohttp.ClientSession() as session:

            async def ask(method: str, path: str, **headers: str) -> tuple[int, Any, str]:
                url = f"http://{address}{path}"
                async with session.request(method, url, headers=headers) as answer:
                    is_json = answer.content_type == "application/json" and method != "HEAD"
                    body = await answer.json() if is_json else await answer.text()
                    other = answer.headers.get("Allow") or answer.headers.get("WWW-Authenticate")
                    return answer.status, body, other or ""

            try:
                await scenario(ask)
            finally:
                await admin.stop()

    asyncio.run(main())


def failing(error: Exception) -> Callable[[dict[str, str]], Awaitable[None]]:
    async def handle(_given: dict[str, str]) -> None:
        raise error

    return handle


@pytest.mark.parametrize("addr", ["127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999"])
def test_an_address_that_is_none_is_refused(addr: str) -> None:
    """The resolver takes 99999 for 34463."""

    async def main() -> None:
        with pytest.raises(ConfigError, match="is not HOST:PORT"):
            await HttpAdmin(dict, list).start(addr)

    asyncio.run(main())


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
        assert await ask("GET", "/debug/binlog/7%0A8") == (200, {"ts": "7\n8"}, "")
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


def test_an_admin_route_is_for_whom_has_the_token() -> None:
    async def scenario(ask: Ask) -> None:
        async def put(authorization: str = "") -> tuple[int, Any, str]:
            headers = {"Authorization": authorization} if authorization else {}
            return await ask("PUT", "/state/7/pause", **headers)

        status, body, challenge = await put()
        assert (status, body["code"], challenge) == (401, "Unauthenticated", CHALLENGE)
        assert "Authorization: Bearer" in body["hint"]
        for nobody in (
            "Basic b3BlbjpzZXNhbWU=",
            "Bearer",
            "Bearer  ",
            "open sesame",
            "Bearersesam",
        ):
            assert (await put(nobody))[::2] == (401, CHALLENGE), nobody
        for wrong in ("Bearer sesame", "Bearer open sesame!", "Bearer open", "Bearer \xe9"):
            status, body, challenge = await put(wrong)
            assert (status, body["code"], challenge) == (403, "Forbidden", ""), wrong
        for right in ("Bearer open sesame", "bearer  open sesame "):
            assert (await put(right))[:2] == (200, {"node": "7"}), right
        assert (await ask("GET", "/state/7/pause"))[::2] == (405, "PUT")
        assert (await ask("GET", "/read"))[0] == 200

    routes = [Route("PUT", "/state/{node}/pause", _echo, admin=True), Route("GET", "/read", _echo)]
    serving(routes, scenario, Secret("open sesame"))


def test_without_a_configured_token_nobody_may_and_is_told_what_to_set() -> None:
    async def scenario(ask: Ask) -> None:
        for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer x"}):
            status, body, _ = await ask("PUT", "/x", **headers)
            assert (status, body["code"]) == (403, "Forbidden")
            assert "TIDELOG_ADMIN_TOKEN" in body["hint"]

    serving([Route("PUT", "/x", _echo, admin=True)], scenario)


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


def test_an_address_that_is_taken_is_named_and_nothing_is_left_behind() -> None:
    async def main() -> None:
        first = HttpAdmin(lambda: {"ready": True, "why": ""}, list)
        address = await first.start("127.0.0.1:0")
        second = HttpAdmin(lambda: {"ready": True, "why": ""}, list)
        with pytest.raises(ConfigError, match=f"{address} can't be listened on"):
            await second.start(address)
        await second.stop()
        await first.stop()
        again = await second.start(address)
        assert again == address
        await second.stop()

    asyncio.run(main())


def test_who_listens_everywhere_names_an_address_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert http_admin.reachable("::1") == "[::1]"
    assert http_admin.reachable("10.0.0.7") == "10.0.0.7"
    own = {socket.AF_INET: ("10.0.0.9", 0), socket.AF_INET6: ("fd00::9", 0, 0, 0)}
    known = own.copy()

    def looked_up(_host: str, _port: None, family: socket.AddressFamily) -> list[Any]:
        if family not in known:
            raise socket.gaierror(socket.EAI_NONAME, "a name that nobody knows")
        return [(family, socket.SOCK_STREAM, 6, "", known[family])]

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    assert http_admin.reachable("0.0.0.0") == "10.0.0.9"
    assert http_admin.reachable("::") == "[fd00::9]"
    known.clear()
    assert http_admin.reachable("0.0.0.0") == "127.0.0.1"
    assert http_admin.reachable("::") == "[::1]"
