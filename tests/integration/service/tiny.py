"""A service of one actor, run by the runner's tests as a process of its own."""

from __future__ import annotations

import os
import threading

from tidelog.actor import Actor, off_loop
from tidelog.config import Secret, ServiceConfig
from tidelog.errors import IoFailed
from tidelog.failpoints import hit
from tidelog.health import is_answered
from tidelog.ports import Ports, Request
from tidelog.service import main
from tidelog.supervisor import Supervisor


class TinyConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    token: Secret = Secret("hunter2")
    hang_at_stop: bool = False
    fail_at_start: bool = False
    hang_in_a_thread: bool = False


class Echo(Actor[None]):
    tick_s = 0.02

    def __init__(self, config: TinyConfig, ports: Ports) -> None:
        self._config = config
        self._ports = ports
        self._ticks = 0
        self.progress_limit_s = 0.5 if config.hang_in_a_thread else 60.0

    async def on_start(self) -> None:
        if self._config.fail_at_start:
            raise IoFailed("the disk is broken")
        subject = f"tidelog.{self._config.cluster}.tiny.echo"
        await self._ports.bus.serve(subject, self._echo)

    async def _echo(self, request: Request) -> None:
        request.respond(request.data)

    async def on_batch(self, batch: list[None]) -> None:
        raise AssertionError("nobody tells it anything")

    async def on_tick(self) -> None:
        hit("tiny.tick")
        self._ticks += 1
        if self._config.hang_in_a_thread:
            await off_loop(threading.Event().wait)

    async def on_stop(self) -> None:
        if self._config.hang_at_stop:
            await self._ports.clock.sleep(60)
        await self._ports.disk.write_file("stopped", f"{os.getpid()}".encode())

    def status(self) -> dict[str, object]:
        return {"ticks": self._ticks}


def build(config: TinyConfig, ports: Ports) -> Supervisor:
    supervisor = Supervisor("tiny")
    supervisor.actor("echo", lambda: Echo(config, ports))
    return supervisor


if __name__ == "__main__":
    if not is_answered("tiny", f"{__name__}:TinyConfig"):
        main("tiny", TinyConfig, build)
