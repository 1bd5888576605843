"""A service's runner in this process, at a real server: what it stops by, and what it ends with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn
from unittest.mock import Mock

import pytest
from structlog.testing import capture_logs

from tests.conditions import until
from tests.servers import NatsServer, free_port, nats_server
from tidelog import health, leftovers, logs, service
from tidelog.actor import Actor
from tidelog.config import ServiceConfig
from tidelog.errors import (
    EXIT_OK,
    EXIT_RESTART,
    ConfigError,
    IoFailed,
    Stuck,
    TidelogError,
    Unavailable,
    exit_code,
)
from tidelog.http_admin import HttpAdmin
from tidelog.offline import End, Offline
from tidelog.ports import Ports, Request
from tidelog.real.ports import no_downstream
from tidelog.service import Runner, main
from tidelog.supervisor import Supervisor


class Echo(Actor[None]):
    """Serves one subject. `begun` is called at its start, `ended` at its orderly end."""

    def __init__(self, ports: Ports, begun: Callable[[], object], ended: list[str]) -> None:
        self._ports = ports
        self._begun = begun
        self._ended = ended

    async def on_start(self) -> None:
        await self._ports.bus.serve("tidelog.c.echo", self._answer)
        self._begun()

    async def _answer(self, request: Request) -> None:
        request.respond(request.data)

    async def on_batch(self, batch: list[None]) -> None:
        raise AssertionError(batch)

    async def on_stop(self) -> None:
        self._ended.append("in order")


class Tiny:
    """One run of a service of one actor."""

    def __init__(
        self,
        directory: Path,
        url: str,
        begun: Callable[[], object] = lambda: None,
        offline: Offline[ServiceConfig] | None = None,
    ) -> None:
        self.data = directory / "tiny"
        self.ended: list[str] = []
        self._begun = begun
        config = ServiceConfig(
            cluster="c",
            node_id="t1",
            nats_url=url,
            data_dir=str(self.data),
            http_addr="127.0.0.1:0",
        )
        self.runner = Runner("tiny", config, self.build, no_downstream, offline)

    def build(self, _: ServiceConfig, ports: Ports) -> Supervisor:
        tree = Supervisor("tiny")
        tree.actor("echo", lambda: Echo(ports, self._begun, self.ended))
        return tree

    @property
    def status(self) -> Any:
        return self.runner.status()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Task[None]]:
        """Ended however the test leaves it."""
        task = asyncio.create_task(self.runner.run())
        try:
            async with asyncio.timeout(20):
                yield task
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def ready(self) -> None:
        await until(lambda: self.status["ready"])


def signalled() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("runner")) as running:
        yield running


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    """What stood for them before is there again: a loop leaves Python's defaults."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_one_signal_stops_it_in_order_and_nats_micro_knew_it(
    tmp_path: Path, server: NatsServer
) -> None:
    async def run() -> None:
        tiny = Tiny(tmp_path, server.url)
        async with tiny.running() as ending:
            await tiny.ready()
            assert (tiny.status["why"], tiny.status["bus"]["connected"]) == ("", True)
            assert (tiny.data / health.HTTP_FILE).read_text().startswith("127.0.0.1:")
            bus = tiny.runner._bus
            assert bus is not None
            await bus.request("tidelog.c.echo", b"hello", timeout_s=5)
            told = {}
            for verb in ("PING", "INFO", "STATS"):
                answer = await bus.request(f"$SRV.{verb}.tidelog-tiny", b"", timeout_s=5)
                told[verb] = json.loads(answer.data)
            assert told["PING"]["metadata"] == {"node": "t1", "cluster": "c"}
            (endpoint,) = told["INFO"]["endpoints"]
            assert (endpoint["name"], endpoint["subject"]) == ("echo", "tidelog.c.echo")
            (endpoint,) = told["STATS"]["endpoints"]
            assert (endpoint["num_requests"], endpoint["num_errors"]) == (1, 0)
            signalled()
            await ending
        assert tiny.ended == ["in order"]
        assert (tiny.status["ready"], tiny.status["why"]) == (False, "stopping")

    asyncio.run(run())


def test_the_second_signal_ends_the_process(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    async def run() -> None:
        tiny = Tiny(tmp_path, server.url)
        async with tiny.running():
            await tiny.ready()
            tiny.runner._on_signal(signal.SIGTERM)
            assert codes == []
            tiny.runner._on_signal(signal.SIGINT)
            assert codes == [128 + signal.SIGINT]

    asyncio.run(run())


def test_a_bus_that_is_lost_for_good_ends_it_by_that_error(
    tmp_path: Path, server: NatsServer
) -> None:
    async def run() -> None:
        tiny = Tiny(tmp_path, server.url)
        async with tiny.running() as ending:
            await tiny.ready()
            tiny.runner._on_bus_lost(Unavailable("NATS wants us no more"))
            tiny.runner._on_bus_lost(Unavailable("and one more time"))
            with pytest.raises(Unavailable, match="wants us no more"):
                await ending

    asyncio.run(run())


@pytest.mark.parametrize("how", ["signal", "bus"])
def test_the_end_is_not_cut_short_by_another_reason_to_end(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """The connection would stay, and the reason be lost."""

    async def run() -> None:
        tiny = Tiny(tmp_path, server.url, Mock(side_effect=IoFailed("no disk")))
        stopping, real = asyncio.Event(), HttpAdmin.stop

        async def stop(admin: HttpAdmin) -> None:
            stopping.set()
            await asyncio.sleep(0.05)
            await real(admin)

        monkeypatch.setattr(HttpAdmin, "stop", stop)
        async with tiny.running() as ending:
            await stopping.wait()
            tiny.runner._supervisor = None  # as of a service whose start failed before it had one
            if how == "signal":
                signalled()
            else:
                tiny.runner._on_bus_lost(Unavailable("NATS wants us no more"))
            with pytest.raises(IoFailed, match="no disk"):
                await ending
            assert tiny.runner._bus is not None
            assert not tiny.runner._bus.connected

    asyncio.run(run())


def test_it_waits_for_a_server_says_so_once_and_can_be_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "QUIET_S", 0.01)

    async def run() -> None:
        tiny = Tiny(tmp_path, f"nats://me:hunter2@127.0.0.1:{free_port()}")
        with capture_logs() as said:
            async with tiny.running() as ending:
                await until(lambda: any("answers yet" in one["event"] for one in said))
                assert tiny.status["why"] == "waiting for NATS"
                signalled()
                await ending
        assert [one["event"] for one in said][-1] == "stopped before everything ran"
        assert "hunter2" not in str(said)

    asyncio.run(run())


def test_who_cancels_it_hears_of_it(tmp_path: Path, server: NatsServer) -> None:
    async def run() -> None:
        tiny = Tiny(tmp_path, server.url)
        async with tiny.running() as ending:
            await tiny.ready()
            ending.cancel()
            with pytest.raises(asyncio.CancelledError):
                await ending

    asyncio.run(run())


# -- without a server ------------------------------------------------------------------------------


class Worker(Actor[None]):
    """What needs no server: ends as it is told, or waits for the end."""

    def __init__(self, end: End, how: bool | TidelogError | None) -> None:
        self._end = end
        self._how = how

    async def on_start(self) -> None:
        if self._how is not None:
            self._end(self._how)

    async def on_batch(self, batch: list[None]) -> None:
        raise AssertionError(batch)


def offline(
    how: bool | TidelogError | None, done: list[str], after_s: float = 0.05
) -> Offline[ServiceConfig]:
    def build(_: ServiceConfig, ports: Ports, end: End) -> Supervisor:
        tree = Supervisor("offline")
        tree.actor("worker", lambda: Worker(end, how))
        done.append(type(ports.bus).__name__)
        return tree

    return Offline(after_s, build)


@pytest.mark.parametrize("after_s", [0.05, 0.0])
def test_what_is_done_offline_is_the_end(tmp_path: Path, after_s: float) -> None:
    async def run() -> None:
        done: list[str] = []
        url = f"nats://127.0.0.1:{free_port()}"
        tiny = Tiny(tmp_path, url, offline=offline(True, done, after_s))
        async with tiny.running() as ending:
            await ending
        assert (len(done), tiny.ended, tiny.runner._bus) == (1, [], None)

    asyncio.run(run())


def test_an_error_of_the_offline_work_is_the_runs(tmp_path: Path) -> None:
    async def run() -> None:
        url = f"nats://127.0.0.1:{free_port()}"
        tiny = Tiny(tmp_path, url, offline=offline(IoFailed("no disk"), []))
        async with tiny.running() as ending:
            with pytest.raises(IoFailed, match="no disk"):
                await ending

    asyncio.run(run())


def test_a_signal_ends_the_offline_work_without_a_verdict(tmp_path: Path) -> None:
    async def run() -> None:
        done: list[str] = []
        url = f"nats://127.0.0.1:{free_port()}"
        tiny = Tiny(tmp_path, url, offline=offline(None, done))
        async with tiny.running() as ending:
            await tiny.ready()
            signalled()
            await ending
        assert (len(done), tiny.ended) == (1, [])

    asyncio.run(run())


def test_offline_work_that_leaves_something_to_do_goes_on_with_a_server(tmp_path: Path) -> None:
    async def run() -> None:
        done: list[str] = []
        server = NatsServer(tmp_path / "nats")
        tiny = Tiny(tmp_path, server.url, offline=offline(False, done))
        async with tiny.running() as ending:
            await until(lambda: done != [] and tiny.status["why"] == "waiting for NATS")
            await asyncio.to_thread(server.start)
            try:
                await tiny.ready()
                signalled()
                await ending
            finally:
                server.kill()
        assert tiny.ended == ["in order"]

    asyncio.run(run())


def test_with_a_server_nothing_is_done_offline(tmp_path: Path, server: NatsServer) -> None:
    async def run() -> None:
        done: list[str] = []
        tiny = Tiny(tmp_path, server.url, offline=offline(True, done, 20.0))
        async with tiny.running() as ending:
            await tiny.ready()
            signalled()
            await ending
        assert (done, tiny.ended) == ([], ["in order"])

    asyncio.run(run())


# -- the whole of it -------------------------------------------------------------------------------


@pytest.fixture
def nobodys_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs and the collector of the tests' process stay as they are."""
    monkeypatch.setattr(logs, "configure", lambda *_, **__: None)
    monkeypatch.setattr(leftovers, "settle", lambda: None)


def exits(tmp_path: Path, url: str, begun: Callable[[], object]) -> tuple[object, list[str]]:
    tiny = Tiny(tmp_path, url, begun)
    flags = ["--nats-url", url, "--data-dir", str(tiny.data), "--http-addr", "127.0.0.1:0"]
    with pytest.raises(SystemExit) as end:
        main("tiny", ServiceConfig, tiny.build, argv=flags, environ={})
    return end.value.code, tiny.ended


@pytest.mark.usefixtures("nobodys_settings")
def test_an_orderly_stop_exits_0(tmp_path: Path, server: NatsServer) -> None:
    assert exits(tmp_path, server.url, signalled) == (EXIT_OK, ["in order"])


@pytest.mark.usefixtures("nobodys_settings")
@pytest.mark.parametrize("error", [IoFailed("the disk is broken"), ZeroDivisionError("unforeseen")])
def test_what_crashes_too_often_exits_for_a_restart_with_one_line(
    tmp_path: Path, server: NatsServer, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    assert exits(tmp_path, server.url, fails) == (EXIT_RESTART, [])
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tidelog-tiny: ")
    assert str(error.args[0]) in line


@pytest.mark.usefixtures("nobodys_settings")
def test_what_is_stuck_does_not_keep_the_process(
    tmp_path: Path, server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a loop waits for its threads."""
    woken = threading.Event()

    def ended(code: int) -> NoReturn:
        woken.set()
        raise SystemExit(code)

    async def meets(*_: object) -> None:
        asyncio.get_running_loop().run_in_executor(None, woken.wait, 20)
        try:
            raise ConfigError("it was to end by this")
        finally:
            raise Stuck("a call runs on")

    async def fails(_: object) -> None:
        raise OSError("nor does this end in order")

    monkeypatch.setattr(Runner, "_run", meets)
    monkeypatch.setattr(HttpAdmin, "stop", fails)
    monkeypatch.setattr(os, "_exit", ended)
    with capture_logs() as said:
        assert exits(tmp_path, server.url, Mock()) == (exit_code(Stuck("")), [])
    assert [one["error"] for one in said if one["log_level"] == "error"][-2:] == [
        "it was to end by this",
        "a call runs on",
    ]
