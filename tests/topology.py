"""A whole topology as a user starts it (`tidelog up --json`), for tests on real processes."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from tests.processes import until
from tidelog.errors import TidelogError
from tidelog.node_form import node_forms
from tidelog.ports import Bus
from tidelog_cli import state_file, status, wait
from tidelog_cli.connect import connected, nodes
from tidelog_cli.state_file import TopologyState

TIDELOG = (sys.executable, "-m", "tidelog_cli")
READY_S = 60.0
ANSWER_S = 10.0
"""A process that stands still takes the question, and never answers."""
T = TypeVar("T")


class Running:
    """A topology that is up. Only processes that it started are ever signalled."""

    def __init__(self, directory: Path, process: subprocess.Popen[str], ready: dict[str, Any]):
        self.directory = directory
        self.process = process
        self.ready = ready

    @property
    def nats(self) -> str:
        return str(self.ready["nats"])

    def pid(self, service: str) -> int:
        state = json.loads((self.directory / "tidelog.json").read_text())
        return int(state["pids"][service])

    def kill(self, service: str) -> None:
        """SIGKILL, and wait until another process has taken its place."""
        old = self.pid(service)
        os.kill(old, signal.SIGKILL)
        until(lambda: self.pid(service) != old, f"{service} to be started again")

    def command(self, *arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
        return tidelog(*arguments, "--dir", str(self.directory), timeout_s=timeout_s)

    def status(self) -> dict[str, Any]:
        """What `tidelog status --json` says."""

        async def asked(bus: Bus, state: TopologyState) -> dict[str, Any]:
            found = status.report(await nodes(bus, state.cluster), state.feed)
            said: dict[str, Any] = json.loads(msgspec.json.encode(found))
            return said

        return self._ask(asked)

    def nodes(self) -> dict[str, dict[str, Any]]:
        """What `tidelog nodes --json` says, by name."""

        async def asked(bus: Bus, state: TopologyState) -> list[dict[str, Any]]:
            return node_forms(await nodes(bus, state.cluster))

        return {form["nodeId"]: form for form in self._ask(asked)}

    def said(self, actor: str, of: str = "") -> dict[str, Any]:
        """The status of an actor of a service, which is called like it if not said otherwise. An
        AssertionError if it has stopped."""
        with urllib.request.urlopen(
            f"{self._http(of or actor)}/status", timeout=ANSWER_S
        ) as answer:
            status: dict[str, Any] = json.load(answer)["actors"][actor]
        assert not status.get("stopped"), status["error"]
        return status

    def counted(self, service: str, counter: str) -> float:
        """Of this life of it, all labels together."""
        with urllib.request.urlopen(f"{self._http(service)}/metrics", timeout=ANSWER_S) as answer:
            families = text_string_to_metric_families(answer.read().decode())
            found = next(family for family in families if family.name == counter)
        return sum(one.value for one in found.samples if one.name == f"{counter}_total")

    def _http(self, service: str) -> str:
        """Where it answers now: each start takes another port. ConnectionRefusedError where it is
        being started: nobody listens."""
        state = json.loads((self.directory / "tidelog.json").read_text())
        if (address := state["http"].get(service)) is None:
            raise ConnectionRefusedError(f"{service} is not up: {sorted(state['http'])}")
        return str(address)

    def wait(self, commit_ts: int, timeout_s: float = 120) -> None:
        """As `tidelog wait` does."""

        async def waited(bus: Bus, state: TopologyState) -> int:
            at = state.cluster, state.feed, commit_ts
            return await wait.applied(bus, *at, timeout_s, lambda _: None)

        self._ask(waited)

    def _ask(self, what: Callable[[Bus, TopologyState], Awaitable[T]]) -> T:
        """What a command asks, without a process for each: tests ask often. In a thread, as one may
        have a loop of its own."""

        async def answered() -> T:
            state = state_file.find(self.directory, "", "", "")
            async with connected(state) as bus:
                return await what(bus, state)

        with ThreadPoolExecutor(1) as pool:
            try:
                return pool.submit(asyncio.run, answered()).result()
            except TidelogError as error:
                raise AssertionError(f"{error}{self.logs()}") from error

    def logs(self) -> str:
        """The last lines of every service, for a failure's message."""
        found = [
            f"--- {log.parent.name}\n" + "\n".join(log.read_text().splitlines()[-8:])
            for log in sorted(self.directory.glob("*/log"))
        ]
        return "\n" + "\n".join(found)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(timeout=90)


def beside_waiting(stderr: str) -> list[str]:
    """Its lines but for those that a slow machine gets: for whom a command or a start waits."""
    return [line for line in stderr.splitlines() if line and not line.startswith("waiting for ")]


def tidelog(*arguments: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TIDELOG, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )


def _ready_line(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], READY_S)
    line = process.stdout.readline() if readable else ""
    if not line:
        process.kill()
        _, err = process.communicate()
        raise AssertionError(f"`up` never became ready: {err}")
    ready: dict[str, Any] = json.loads(line)
    assert ready["event"] == "ready"
    return ready


@contextmanager
def up(
    directory: Path,
    downstream: str,
    *options: str,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[Running]:
    """`tidelog up` in the background; its exit code 0 at the end is part of the test.
    `environment`: configuration of the services, besides this process' own."""
    argv: Sequence[str] = (
        *TIDELOG,
        "up",
        "--dir",
        str(directory),
        "--downstream",
        downstream,
        "--json",
        *options,
    )
    err = directory.with_suffix(".err")
    with err.open("w") as sink:
        process = subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=sink, text=True, env={**os.environ, **environment}
        )
    try:
        try:
            ready = _ready_line(process)
        except AssertionError as error:
            logs = Running(directory, process, {}).logs() if directory.exists() else ""
            raise AssertionError(f"{error}{err.read_text()}{logs}") from None
        running = Running(directory, process, ready)
        yield running
        code = running.stop()
        assert code == 0, f"`up` ended with {code}: {err.read_text()}"
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()
