"""A Pump that was given up, and comes back with what nobody had read: as processes, to the end."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from tests.integration.pump.test_ready import readiness
from tests.integration.pump_client.cluster import Service
from tests.processes import until
from tests.servers import nats_server
from tests.topology import tidelog
from tests.unit.pump.rig import CLUSTER, Client, commit, prewrite
from tidelog import messages, subjects
from tidelog.errors import TidelogError
from tidelog.messages import Consumer, Empty, Nodes, SafePointRequest, StateRequest
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose

FLAGS = ["--oracle", "follow", "--cluster", CLUSTER, "--cluster-id", "7"]


async def write(url: str, base: int) -> None:
    """Ten transactions; the only reader has the first five."""
    bus = await NatsBus.connect(url, timeout_s=10)
    try:
        client = Client(bus, "p")
        for n in range(0, 20, 2):
            await client.done(prewrite(base + n), commit(base + n, base + n + 1))
        body = messages.encode(SafePointRequest(Consumer("reader", "f", base + 9)))
        await bus.request(subjects.registry(CLUSTER, "safepoint"), body, timeout_s=10)
        await announced(bus, base + 19)
    finally:
        await bus.close()


async def announced(bus: NatsBus, commit_ts: int) -> None:
    """The registry has heard of it: what it never heard of counts as read by nobody."""
    subject = subjects.registry(CLUSTER, "nodes")
    async with asyncio.timeout(30):
        while True:
            answer = await bus.request(subject, b"{}", timeout_s=10)
            nodes = messages.decode_reply(answer.data, Nodes).nodes
            if any(node.maxCommitTS >= commit_ts for node in nodes):
                return
            await asyncio.sleep(0.1)


async def give_up(url: str) -> None:
    """`tidelog offline p --accept-loss`, once its lease is over."""
    bus = await NatsBus.connect(url, timeout_s=10)
    body = messages.encode(StateRequest("p", "offline", accept_loss=True))
    try:
        async with asyncio.timeout(60):
            while True:
                answer = await bus.request(subjects.registry(CLUSTER, "state"), body, timeout_s=10)
                try:
                    messages.decode_reply(answer.data, Empty)
                except TidelogError:
                    await asyncio.sleep(0.2)
                else:
                    return
    finally:
        await bus.close()


def test_what_a_given_up_pump_holds_is_named_exported_and_kept_out(tmp_path: Path) -> None:
    with nats_server(tmp_path / "nats") as nats:
        flags = ["--nats-url", nats.url, *FLAGS]
        registry = Service("tidelog_registry", tmp_path / "registry", flags)
        pump = Service("tidelog_pump", tmp_path / "pump", [*flags, "--node-id", "p"])
        try:
            for service in (registry, pump):
                service.start()
                service.wait()
            asyncio.run(write(nats.url, compose(RealClock().wall_ms())))
            pump.kill()
            asyncio.run(give_up(nats.url))
            pump.start()
            says = "stranded: 5 transactions committed"
            until(lambda: says in readiness(pump)[1], "a Pump that says it is stranded")
            assert readiness(pump)[0] == 503
            (export,) = (pump.directory / "stranded").glob("*")
            until((export / "export.json").exists, "the export")
            told = json.loads((export / "export.json").read_text())
            assert (told["committed"], told["open"], told["unreadable"]) == (5, 0, 0)
            shown = tidelog("inspect", str(export), "--json")
            assert shown.returncode == 0, shown.stderr
            (file,) = json.loads(shown.stdout)["files"]
            assert (file["kinds"]["prewrite"], file["kinds"]["commit"], file["bad"]) == (5, 5, "")
            (export / "accepted").touch()
            pump.wait()
        finally:
            pump.kill()
            registry.kill()
