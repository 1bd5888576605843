"""The topology of docker-compose.yml, under a project name and ports of a test's own.

with stack("demo") as topology: topology.up(); topology.kill("nats"); topology.start("nats")
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests import processes
from tests.servers import free_port
from tidelog.security.access import NatsAccess

ROOT = Path(__file__).parents[2]
LOOK_S = 0.5
UP_S = 600
HEALTHY_S = 120
ONE_SHOTS = ("keys", "feed")


class Container(msgspec.Struct, frozen=True):
    """`health`: healthy, starting, unhealthy, or empty where nobody looks."""

    id: str
    name: str
    service: str
    state: str
    health: str

    @property
    def well(self) -> bool:
        return self.state == "running" and self.health in ("healthy", "")


class Stack:
    def __init__(self, project: str, profiles: tuple[str, ...], files: tuple[Path, ...]) -> None:
        self._nats_port = free_port()
        self.access = NatsAccess()
        self.profiles = profiles
        self._command = ["docker", "compose", "--project-name", project, "--progress", "plain"]
        for file in files:
            self._command += ["--file", str(file)]
        ports = {name: str(free_port()) for name in ("CONSOLE", "PROMETHEUS")}
        self.prometheus = f"http://127.0.0.1:{ports['PROMETHEUS']}"
        self._environ = os.environ | {
            "TIDELOG_NATS_PORT": str(self._nats_port),
            **{f"TIDELOG_{name}_PORT": port for name, port in ports.items()},
        }

    @property
    def nats(self) -> str:
        return f"nats://127.0.0.1:{self._nats_port}"

    def take_key(self, directory: Path, name: str = "subscriber") -> NatsAccess:
        """What an application beside the containers is given."""
        seed = self.run("cli", "cat", f"/keys/{name}/nkey")
        path = directory / f"{name}.nkey"
        path.touch(0o600)
        path.write_text(seed)
        return NatsAccess(nats_nkey_file=str(path))

    def keys(self, *arguments: str) -> None:
        """`tidelog keys` with these, and the server reads what it wrote."""
        self.compose("run", "--rm", "--no-TTY", "keys", *arguments)
        self.run("nats", "nats-server", "--signal", "reload=1")

    def compose(self, *arguments: str, timeout_s: float = 180, check: bool = True) -> str:
        """Standard output. A failure shows what was said."""
        profiles = [word for name in self.profiles for word in ("--profile", name)]
        done = subprocess.run(
            [*self._command, *profiles, *arguments],
            cwd=ROOT,
            env=self._environ,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode:
            said = f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
            raise AssertionError(f"compose {' '.join(arguments)}: exit {done.returncode}\n{said}")
        return done.stdout

    def up(self, *arguments: str) -> float:
        """Seconds until all are healthy."""
        began = time.monotonic()
        try:
            self.compose("up", "--detach", "--wait", *arguments, timeout_s=UP_S)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.trouble()}") from None
        return time.monotonic() - began

    def containers(self, *services: str) -> list[Container]:
        told = self.compose("ps", "--all", "--format", "json", *services)
        rows = [json.loads(line) for line in told.splitlines()]
        found = [Container(r["ID"], r["Name"], r["Service"], r["State"], r["Health"]) for r in rows]
        return [one for one in found if one.service not in ONE_SHOTS]

    def one(self, service: str) -> Container:
        return self.containers(service)[0]

    def trouble(self) -> str:
        """What those that are not well said last."""
        ill = [one for one in self.containers() if not one.well]
        said = [f"{one.name}: {one.state} {one.health}\n{logs(one.id)}" for one in ill]
        return "\n".join(said)

    def well(self, *services: str) -> None:
        """Wait until they are healthy."""

        def all_well() -> bool:
            return all(one.well for one in self.containers(*services))

        until(all_well, lambda: f"health of {services or 'all'}\n{self.trouble()}", HEALTHY_S)

    def run(self, service: str, *command: str, timeout_s: float = 120) -> str:
        """Standard output of a command in a running container."""
        return self.compose("exec", "--no-TTY", service, *command, timeout_s=timeout_s)

    def tidelog(self, *arguments: str, timeout_s: float = 120) -> Any:
        """A command's JSON, from the operator's seat."""
        said = self.run("cli", "tidelog", *arguments, "--json", timeout_s=timeout_s)
        return json.loads(said)


def until(condition: Callable[[], bool], what: str | Callable[[], str], timeout_s: float) -> None:
    """As `processes.until`, with a pause between two looks: each of these costs a process."""

    def looked() -> bool:
        time.sleep(LOOK_S)  # what containers do can't be awaited, and each look costs a process
        return condition()

    processes.until(looked, what, timeout_s)


def docker(*arguments: str, timeout_s: float = 120) -> str:
    done = subprocess.run(
        ["docker", *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr[-2000:]}"
    return done.stdout


def logs(container: str) -> str:
    done = subprocess.run(
        ["docker", "logs", "--tail", "15", container], capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


@contextlib.contextmanager
def stack(project: str, *profiles: str, override: Path | None = None) -> Iterator[Stack]:
    """Volumes of an earlier test of that name are gone before, and these after it."""
    files = [ROOT / "docker-compose.yml", *([override] if override else [])]
    made = Stack(project, profiles, tuple(files))
    made.compose("--profile", "*", "down", "--volumes", "--timeout", "0")
    try:
        yield made
    finally:
        made.compose("--profile", "*", "down", "--volumes", "--timeout", "0")
