"""The console's edge on real sockets: headers, viewers, and what happens to slow and many ones."""

from __future__ import annotations

import asyncio
import builtins
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path

import msgspec
import pytest
from starlette.types import Message

from tests.conditions import until
from tidelog.actor import Actor, Ref
from tidelog.errors import ConfigError
from tidelog.real.disk import RealDisk
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor
from tidelog_registry.config import RegistryConfig
from tidelog_registry.console import asking, web
from tidelog_registry.console.gatherer import First
from tidelog_registry.console.server import BESIDE, ConsoleServer
from tidelog_registry.console.viewers import BEHIND, MOST, Viewers
from tidelog_registry.service import build

LARGE = b"data: " + b"x" * 300_000 + b"\n\n"


def in_loop(test: Callable[..., Coroutine[None, None, None]]) -> Callable[..., None]:
    @wraps(test)
    def run_it(*args: object, **given: object) -> None:
        asyncio.run(test(*args, **given))

    return run_it


class Stub(Actor[First]):
    async def on_batch(self, batch: list[First]) -> None:
        for first in batch:
            first.reply.set(b"data: first\n\n")


class Served(msgspec.Struct):
    port: int
    viewers: Viewers
    opened: list[asyncio.StreamWriter] = []

    async def ask(
        self, path: str, *headers: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 12)
        if not any(header.startswith("Host:") for header in headers):
            headers = ("Host: localhost", *headers)
        lines = [f"GET {path} HTTP/1.1", *headers, "", ""]
        writer.write("\r\n".join(lines).encode())
        self.opened.append(writer)
        return reader, writer

    async def get(self, path: str, *headers: str) -> tuple[str, bytes]:
        """Head and body of the answer."""
        reader, _ = await self.ask(path, "Connection: close", *headers)
        async with asyncio.timeout(10):
            head, _, body = (await reader.read(1 << 20)).partition(b"\r\n\r\n")
            body += await reader.read()
        return head.decode().lower(), body


@asynccontextmanager
async def served(path: Path, addr: str = "127.0.0.1:0", most: int = MOST) -> AsyncIterator[Served]:
    disk, viewers, stop = RealDisk(str(path)), Viewers(most), asyncio.Event()
    tree = Supervisor("test")
    stub = tree.actor("stub", Stub)
    tree.actor("server", lambda: ConsoleServer(addr, ("Tide.example",), disk, stub, viewers))
    async with asyncio.TaskGroup() as group:
        running = group.create_task(tree.run(stop))
        await until(lambda: tree.ready or running.done())
        if not running.done():
            here = Served(int((path / "console").read_text().rpartition(":")[2]), viewers)
            yield here
            stop.set()
            await running
            for writer in here.opened:
                writer.transport.abort()


@in_loop
async def test_page_and_files_have_the_policy_and_are_asked_for_again(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        for path, kind in (("/", "text/html"), ("/main.js", "text/javascript")):
            head, body = await here.get(path)
            assert head.startswith("http/1.1 200")
            assert f"content-type: {kind}" in head
            assert "default-src 'none'; script-src 'self'; style-src 'self'" in head
            assert "x-content-type-options: nosniff" in head
            assert body
            etag = next(line for line in head.split("\r\n") if line.startswith("etag"))
            again, nothing = await here.get(path, f"If-None-Match: {etag[6:]}")
            assert again.startswith("http/1.1 304")
            assert not nothing
        assert (await here.get("/../server.py"))[0].startswith("http/1.1 404")
        assert (await here.get("/page/main.js"))[0].startswith("http/1.1 404")


@in_loop
async def test_a_name_that_somebody_led_to_us_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        ours = ("127.0.0.1", f"127.0.0.1:{here.port}", "localhost:1", "LOCALHOST", "[::1]:8080")
        for host in (*ours, "10.0.0.7:8080", "tide.example", "tide.example.:8080"):
            for path in ("/", "/main.js"):
                head, _ = await here.get(path, f"Host: {host}")
                assert head.startswith("http/1.1 200"), host
        for host in (
            "evil.example",
            f"evil.example:{here.port}",
            "localhost.evil.example",
            "[",
            "",
        ):
            for path in ("/", "/main.js", "/events"):
                head, body = await here.get(path, f"Host: {host}")
                assert head.startswith("http/1.1 421"), host
                assert b"console-hosts" in body
        twice = await here.get("/", "Host: localhost", "Host: evil.example")
        assert not twice[0].startswith("http/1.1 200")


@in_loop
async def test_every_viewer_gets_the_first_and_each_that_follows(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        reader, writer = await here.ask("/events")
        await reader.readuntil(b"first\n\n")
        here.viewers.tell(b"data: second\n\n")
        await reader.readuntil(b"second\n\n")
        writer.close()

        def has_left() -> bool:
            here.viewers.tell(b"data: third\n\n")
            return not len(here.viewers)

        await until(has_left)
        assert not here.viewers.dropped


@in_loop
async def test_one_viewer_too_many_is_told_so(tmp_path: Path) -> None:
    async with served(tmp_path, most=2) as here:
        for _ in range(2):
            reader, _writer = await here.ask("/events")
            await reader.readuntil(b"first\n\n")
        _, body = await here.get("/events")
        assert b"event: full" in body
        assert len(here.viewers) == 2


@in_loop
async def test_a_slow_viewer_is_let_go_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(web, "SLOW_S", 3.0)
    async with served(tmp_path) as here:
        slow, _ = await here.ask("/events")
        await slow.readuntil(b"first\n\n")
        quick, _ = await here.ask("/events")
        await quick.readuntil(b"first\n\n")
        for _ in range(40):  # far beyond every buffer on the way
            here.viewers.tell(LARGE)
            await quick.readuntil(b"data: ")
            await quick.readexactly(len(LARGE) - 6)
        await until(lambda: len(here.viewers) == 1)
        here.viewers.tell(b"data: last\n\n")
        await quick.readuntil(b"last\n\n")


def test_who_takes_not_even_the_first_is_let_go_after_a_while() -> None:
    """Of a viewer whose machine is gone no kernel says anything for minutes."""

    async def main(world: World) -> None:
        viewers, tree = Viewers(), Supervisor("test")
        gatherer = tree.actor("stub", Stub)
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                await asyncio.Event().wait()

        async def receive() -> Message:
            raise AssertionError("it is not asked whether it is there")

        world.node("n").start(lambda *_: tree, None)
        await world.until(lambda: gatherer.alive, 5)
        began = world.loop.time()
        telling = asyncio.ensure_future(
            web.Events(gatherer, viewers)({"type": "http"}, receive, send)
        )
        await world.until(lambda: len(sent) == 2, 5)
        assert len(viewers) == 1
        await telling
        assert web.SLOW_S <= world.loop.time() - began < web.SLOW_S + 1
        assert sent[-1]["body"] == b"data: first\n\n"
        assert len(viewers) == 0

    run(main)


def test_who_takes_nothing_is_told_nothing_more() -> None:
    async def main(world: World) -> None:
        viewers = Viewers()
        viewer = viewers.join()
        for _ in range(3 * BEHIND):
            viewers.tell(b"x")
        assert viewer.is_slow
        assert await viewer.next() is None
        assert (len(viewers), viewers.dropped) == (0, 1)

    run(main)


@in_loop
async def test_who_never_ends_a_request_leaves_room_for_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "ASK_S", 0.5)
    async with served(tmp_path) as here:
        viewer, _ = await here.ask("/events")
        await viewer.readuntil(b"first\n\n")
        again, writer = await here.ask("/icon.svg")
        await again.readuntil(b"</svg>")
        silent = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(MOST)]
        slow = [await asyncio.open_connection("127.0.0.1", here.port) for _ in range(MOST + BESIDE)]
        for _, one in (*slow, (again, writer)):
            one.write(b"GET / HT")
        for reader, one in (*silent, *slow, (again, writer)):
            async with asyncio.timeout(10):
                await reader.read()
            one.close()
        head, _ = await here.get("/")
        assert head.startswith("http/1.1 200")
        here.viewers.tell(b"data: still here\n\n")
        await viewer.readuntil(b"still here\n\n")


@in_loop
async def test_it_stops_while_people_look_and_is_found_again_where_it_was(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        reader, _ = await here.ask("/events")
        await reader.readuntil(b"first\n\n")
        before = here.port
    assert (await reader.read()).strip() in (b"", b"0")
    async with served(tmp_path) as here:
        assert here.port == before


@pytest.mark.parametrize("addr", ["127.0.0.1", "127.0.0.1:99999", "nowhere:x"])
@in_loop
async def test_an_address_that_is_none_is_refused(tmp_path: Path, addr: str) -> None:
    with pytest.raises(ExceptionGroup) as refused:
        async with served(tmp_path, addr):
            pass
    assert isinstance(refused.value.exceptions[0], ConfigError)


@in_loop
async def test_an_address_that_is_taken_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path) as here:
        with pytest.raises(ExceptionGroup) as refused:
            async with served(tmp_path / "other", f"127.0.0.1:{here.port}"):
                pass
        assert "can't be listened on" in str(refused.value.exceptions[0])


def test_without_its_packages_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'", name="uvicorn")
        return real(name, *rest)  # type: ignore[arg-type]

    async def main(world: World) -> None:
        with pytest.raises(ConfigError, match="uvicorn is not installed") as refused:
            build(RegistryConfig(console_addr="127.0.0.1:0"), world.ports())
        assert "pip install" in str(refused.value)

    monkeypatch.delitem(sys.modules, "tidelog_registry.console.server", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    run(main)


@in_loop
async def test_who_comes_while_nobody_gathers_any_more_is_told_the_end() -> None:
    sent, viewers = list[Message](), Viewers()

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nobody waits for more")

    events = web.Events(Ref("gatherer"), viewers)
    async with asyncio.timeout(10):
        await events({"type": "http"}, receive, send)
    assert sent[0]["status"] == 200
    assert sent[1:] == [{"type": "http.response.body", "body": b""}]
    assert len(viewers) == 0
