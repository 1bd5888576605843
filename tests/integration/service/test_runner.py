"""The runner: signals, exit codes, the admin server, NATS micro; a real process, a real server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import until
from tests.servers import NatsServer, nats_server
from tidelog.errors import EXIT_CONFIG, EXIT_RESTART
from tidelog.real.bus import NatsBus

TINY = Path(__file__).with_name("tiny.py")
DEADLINE_S = 20.0


class Tiny:
    """The tiny service in a process of its own."""

    def __init__(self, directory: Path, url: str, *flags: str, **environ: str) -> None:
        self.data = directory / "tiny"
        self.log = directory / "tiny.log"
        self.argv = [sys.executable, str(TINY), "--data-dir", str(self.data), "--nats-url", url]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*self.argv, *flags], stdout=log, stderr=log, env=os.environ | environ
            )

    def get(self, path: str) -> tuple[int, str]:
        try:
            addr = (self.data / "http").read_text().strip()
            with urllib.request.urlopen(f"http://{addr}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except (OSError, urllib.error.URLError):
            return 0, ""

    def until(self, path: str, status: int) -> str:
        body = ""

        def answers() -> bool:
            nonlocal body
            got, body = self.get(path)
            assert got == status or self.process.poll() is None, self.log.read_text()
            return got == status

        until(answers, self.log.read_text, DEADLINE_S)
        return body

    def until_logged(self, text: str) -> None:
        def logged() -> bool:
            found = text in self.log.read_text()
            assert found or self.process.poll() is None, self.log.read_text()
            return found

        until(logged, self.log.read_text, DEADLINE_S)

    def end(self) -> int:
        return self.process.wait(DEADLINE_S)

    def health(self) -> tuple[int, str]:
        """Its exit code, and what it says."""
        argv = [*self.argv[:2], "health", *self.argv[2:]]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
        assert done.stdout == ""
        return done.returncode, done.stderr


@contextmanager
def tiny(directory: Path, url: str, *flags: str, **environ: str) -> Iterator[Tiny]:
    service = Tiny(directory, url, *flags, **environ)
    try:
        yield service
    finally:
        service.process.kill()
        service.process.wait(DEADLINE_S)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("runner")) as server:
        yield server


def test_the_first_signal_stops_in_order(tmp_path: Path, server: NatsServer) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with tiny(tmp_path, server.url) as service:
            service.until("/readyz", 200)
            service.process.send_signal(number)
            assert service.end() == 0
            assert (service.data / "stopped").read_text() == str(service.process.pid)


def test_the_second_signal_ends_at_once(tmp_path: Path, server: NatsServer) -> None:
    with tiny(tmp_path, server.url, "--hang-at-stop") as service:
        service.until("/readyz", 200)
        service.process.send_signal(signal.SIGTERM)
        assert "stopping" in service.until("/readyz", 503)
        service.process.send_signal(signal.SIGTERM)
        assert service.end() == 128 + signal.SIGTERM
        assert not (service.data / "stopped").exists()


def test_a_fatal_error_exits_70_with_one_line(tmp_path: Path, server: NatsServer) -> None:
    with tiny(tmp_path, server.url, "--fail-at-start") as service:
        assert service.end() == EXIT_RESTART
        assert "tidelog-tiny: the disk is broken (check the disk" in service.log.read_text()


def test_a_call_that_never_ends_ends_the_process(tmp_path: Path, server: NatsServer) -> None:
    with tiny(tmp_path, server.url, "--hang-in-a-thread") as service:
        assert service.end() == EXIT_RESTART
        said = service.log.read_text()
        assert "hangs in a call that can't be ended" in said
        assert "left a call running in a thread" in said.splitlines()[-1]


def test_failpoints_reach_the_process(tmp_path: Path, server: NatsServer) -> None:
    with tiny(tmp_path, server.url, TIDELOG_FAILPOINTS="tiny.tick=raise@3") as service:
        assert service.end() == EXIT_RESTART
    with tiny(tmp_path, server.url, TIDELOG_FAILPOINTS="tiny.tick=kill@3") as service:
        assert service.end() == -signal.SIGKILL


def test_a_wrong_configuration_exits_78(tmp_path: Path) -> None:
    with tiny(tmp_path, "nats://127.0.0.1:1", "--cluser", "x") as service:
        assert service.end() == EXIT_CONFIG
        assert "the nearest known one is --cluster" in service.log.read_text()


def test_the_admin_server_tells_the_state(tmp_path: Path, server: NatsServer) -> None:
    with tiny(tmp_path, server.url, "--node-id", "t1") as service:
        service.until("/readyz", 200)
        assert service.until("/livez", 200) == "ok\n"
        status = json.loads(service.until("/status", 200))
        assert (status["service"], status["node"], status["ready"]) == ("tiny", "t1", True)
        assert status["bus"]["connected"] is True
        assert "ticks" in status["actors"]["echo"]
        assert status["config"]["token"] == "***"
        metrics = service.until("/metrics", 200)
        assert "tidelog_ready 1.0" in metrics
        assert "tidelog_loop_stall_seconds_bucket" in metrics
        assert service.health() == (0, "")
        service.process.send_signal(signal.SIGTERM)
        assert service.end() == 0
        code, why = service.health()
        assert (code, "nobody answers at 127.0.0.1:" in why) == (1, True), why
        (service.data / "http").unlink()
        code, why = service.health()
        assert (code, f"not ready: nothing runs in {service.data}" in why) == (1, True), why
        assert "hunter2" not in service.log.read_text()


def test_without_a_server_it_waits_and_can_be_stopped(tmp_path: Path) -> None:
    with tiny(tmp_path, "nats://me:hunter2@127.0.0.1:1") as service:
        service.until("/livez", 200)
        assert "waiting for NATS" in service.until("/readyz", 503)
        assert service.health() == (1, "not ready: waiting for NATS\n")
        service.until_logged("no NATS server answers yet")
        assert "hunter2" not in service.log.read_text()
        service.process.send_signal(signal.SIGTERM)
        assert service.end() == 0


def test_nats_micro_finds_it(tmp_path: Path, server: NatsServer) -> None:
    async def ask() -> None:
        bus = await NatsBus.connect(server.url)
        try:
            for verb in ("PING", "INFO", "STATS"):
                answer = await bus.request(f"$SRV.{verb}.tidelog-tiny", b"", timeout_s=5)
                body = json.loads(answer.data)
                assert body["type"] == f"io.nats.micro.v1.{verb.lower()}_response"
                assert (body["name"], body["metadata"]["node"]) == ("tidelog-tiny", "t2")
            echo = await bus.request("tidelog.c.tiny.echo", b"hello", timeout_s=5)
            assert echo.data == b"hello"
            stats = await bus.request(f"$SRV.STATS.tidelog-tiny.{body['id']}", b"", timeout_s=5)
            (endpoint,) = json.loads(stats.data)["endpoints"]
            assert endpoint["subject"] == "tidelog.c.tiny.echo"
            assert endpoint["num_requests"] == 1
        finally:
            await bus.close()

    with tiny(tmp_path, server.url, "--node-id", "t2", "--cluster", "c") as service:
        service.until("/readyz", 200)
        asyncio.run(ask())
