"""A whole cluster as processes of their own, and what an operator or a crash does to them."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.integration.pump_client.cluster import Service
from tests.servers import NatsServer
from tests.simulation.created import created
from tests.wrong import Wrong
from tidelog.errors import TidelogError
from tidelog.messages import (
    DRAINER,
    PUMP,
    Empty,
    Nodes,
    NodeStatus,
    StateReply,
    StateRequest,
    decode_reply,
    encode,
)
from tidelog.ports import Bus
from tidelog.real.bus import NatsBus
from tidelog.subjects import registry

CLUSTER, FEED = "default", "main"
ASK_S = 2.0


def pump_name(number: int) -> str:
    return f"pump-{number}"


class Processes:
    """Only what was started here is ever signalled. One that ends by itself is found by `check`."""

    def __init__(self, nats: NatsServer, directory: Path, pumps: int) -> None:
        self.nats = nats
        common = ["--nats-url", nats.url]
        asks = ["--resolve-after-s", "0.2", "--txn-timeout-s", "1"]
        room = ["--storage-stop-write-at-available-space", "1 MiB"]
        self.registry = Service("tidelog_registry", directory / "registry", common)
        self.drainer = Service("tidelog_drainer", directory / "drainer", common)
        self.pumps = {
            name: Service(
                "tidelog_pump",
                directory / name,
                [*common, "--node-id", name, "--grpc-addr", "127.0.0.1:0", *asks, *room],
            )
            for name in map(pump_name, range(1, pumps + 1))
        }
        self._frozen = False

    @property
    def all(self) -> tuple[Service, ...]:
        return (*self.pumps.values(), self.drainer, self.registry)

    def check(self) -> None:
        """Raises Wrong."""
        for service in self.all:
            if service.process is not None and service.process.poll() is not None:
                code = service.process.returncode
                raise Wrong(f"{service.directory.name} ended with {code}:\n{service.log()}")

    def freeze_drainer(self) -> None:
        assert self.drainer.process is not None
        os.kill(self.drainer.process.pid, signal.SIGSTOP)
        self._frozen = True

    def thaw_drainer(self) -> None:
        if self._frozen and self.drainer.process is not None:
            os.kill(self.drainer.process.pid, signal.SIGCONT)
            self._frozen = False

    def restart_nats(self) -> None:
        """With its store."""
        self.nats.kill()
        self.nats.start()

    def end(self, service: Service) -> None:
        """In order. Raises Wrong."""
        process = service.process
        service.kill(signal.SIGTERM)
        if process is not None and process.returncode != 0:
            what = f"{service.directory.name} was stopped and ended with {process.returncode}"
            raise Wrong(f"{what}:\n{service.log()}")

    def kill(self) -> None:
        self.thaw_drainer()
        for service in self.all:
            service.kill()

    def logs(self) -> str:
        told = [s for s in self.all if (s.directory / "log").exists()]
        return "\n".join(f"--- {s.directory.name}\n{s.log()[-800:]}" for s in told)


async def create_feed(nats_url: str) -> None:
    """Before its Drainer starts, which is not ready without."""
    bus = await NatsBus.connect(nats_url, timeout_s=10)
    try:
        await created(bus, CLUSTER, FEED)
    finally:
        await bus.close()


async def nodes(bus: Bus) -> list[NodeStatus]:
    """As the registry knows them; none if it can't be asked."""
    try:
        answer = await bus.request(registry(CLUSTER, "nodes"), encode(Empty()), timeout_s=ASK_S)
        return decode_reply(answer.data, Nodes).nodes
    except TidelogError:
        return []


async def node(bus: Bus, name: str, kind: str = PUMP) -> NodeStatus | None:
    return next((n for n in await nodes(bus) if (n.nodeId, n.kind) == (name, kind)), None)


async def drainer(bus: Bus) -> NodeStatus | None:
    return await node(bus, f"drainer-{FEED}", DRAINER)


async def order(bus: Bus, name: str, action: str) -> bool:
    """Pause, resume, offline, as an operator asks it; False: ask again."""
    body = encode(StateRequest(name, action))
    try:
        answer = await bus.request(registry(CLUSTER, "state"), body, timeout_s=ASK_S)
        decode_reply(answer.data, StateReply)
    except TidelogError:
        return False
    return True
