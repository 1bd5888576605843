"""Pumps as processes on one slots directory: identities over restarts, and scaling down."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pump_client.cluster import Service
from tests.processes import until
from tests.servers import NatsServer, nats_server
from tests.unit.pump.rig import Client, commit, prewrite
from tidelog import messages, subjects
from tidelog.errors import TidelogError
from tidelog.messages import OFFLINE, Consumer, Nodes, SafePointRequest
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.timestamps import compose

CLUSTER = "c"
FLAGS = ["--oracle", "follow", "--cluster", CLUSTER, "--cluster-id", "7"]


class Deployment:
    """A registry, and as many Pumps as `scale` says; none has a name of its own."""

    def __init__(self, directory: Path, nats: NatsServer) -> None:
        self.directory = directory
        self.nats = nats
        common = ["--nats-url", nats.url, *FLAGS]
        self.registry = Service("tidelog_registry", directory / "registry", common)
        self.flags = [*common, "--slots-dir", str(directory / "shared"), "--adopt-after-s", "2"]
        self.pumps: list[Service] = []
        self.made = 0

    def scale(self, count: int) -> None:
        """Down in order (the last ones go), or up; returns once all are ready."""
        for pump in self.pumps[count:]:
            pump.kill(signal.SIGTERM)
        del self.pumps[count:]
        while len(self.pumps) < count:
            self.made += 1
            pump = Service("tidelog_pump", self.directory / f"container-{self.made}", self.flags)
            pump.start()
            self.pumps.append(pump)
        for pump in self.pumps:
            pump.wait()

    def slots(self) -> dict[str, tuple[str, int]]:
        """Slot -> node id, epoch, of the running Pumps."""
        found = [self.actors(pump)["identity"] for pump in self.pumps]
        return {one["slot"]: (one["node"], one["epoch"]) for one in found}

    def actors(self, pump: Service) -> Any:
        address = (pump.directory / "http").read_text().strip()
        with urllib.request.urlopen(f"http://{address}/status", timeout=10) as answer:
            return json.loads(answer.read())["actors"]

    def end(self) -> None:
        for service in (*self.pumps, self.registry):
            service.kill()


@contextmanager
def deployment(directory: Path) -> Iterator[Deployment]:
    with nats_server(directory / "nats") as nats:
        made = Deployment(directory, nats)
        made.registry.start()
        try:
            made.registry.wait()
            yield made
        finally:
            made.end()


def test_three_pumps_on_one_directory_keep_their_identities_over_restarts(tmp_path: Path) -> None:
    with deployment(tmp_path) as made:
        made.scale(3)
        before = made.slots()
        assert sorted(before) == ["slot-0", "slot-1", "slot-2"]
        assert len({node for node, _ in before.values()}) == 3
        made.scale(0)
        made.scale(3)
        assert made.slots() == {slot: (node, 2) for slot, (node, _) in before.items()}
        made.pumps.pop(1).kill()
        made.scale(3)
        assert {slot: node for slot, (node, _) in made.slots().items()} == {
            slot: node for slot, (node, _) in before.items()
        }


def test_slots_that_cannot_be_used_are_told_and_stop_nobody(tmp_path: Path) -> None:
    """A file in a slot's place is passed over; one whose `.node` is cut off is named."""
    with deployment(tmp_path) as made:
        shared = tmp_path / "shared"
        (shared / "slot-1").mkdir(parents=True)
        (shared / "slot-0").write_text("no directory")
        (shared / "slot-1" / ".node").write_text('{"node":"p')
        with pytest.raises(AssertionError, match=r"slot-1/\.node can't be read"):
            made.scale(1)
        made.pumps.clear()
        broken = (shared / "slot-1").rename(tmp_path / "broken")
        made.scale(1)
        assert list(made.slots()) == ["slot-1"]

        def failures() -> dict[str, str]:
            found: dict[str, str] = made.actors(made.pumps[0])["adopter"]["failures"]
            return found

        broken.rename(shared / "slot-9")
        until(lambda: sorted(failures()) == ["slot-0", "slot-9"], "both told")
        assert failures()["slot-0"] == "IoFailed: slot-0/.lock: Not a directory"
        assert failures()["slot-9"].startswith("Corrupt: slot-9/.node can't be read")
        (shared / "slot-9").rename(tmp_path / "broken")
        until(lambda: sorted(failures()) == ["slot-0"], "the one that is gone to be forgotten")
        made.scale(2)
        assert sorted(made.slots()) == ["slot-1", "slot-2"]


def test_scaled_down_to_one_pump_nothing_is_lost(tmp_path: Path) -> None:
    with deployment(tmp_path) as made:
        made.scale(3)
        names = {slot: node for slot, (node, _) in made.slots().items()}
        kept = made.actors(made.pumps[0])["identity"]["node"]
        gone = sorted(set(names.values()) - {kept})
        asyncio.run(_written_drained_and_offline(made, names, gone))
        adopter = made.actors(made.pumps[0])["adopter"]
        assert adopter["failures"] == {}
        for slot in names:
            assert list((tmp_path / "shared" / slot / "value").glob("*.vlog"))


async def _written_drained_and_offline(
    made: Deployment, names: dict[str, str], gone: list[str]
) -> None:
    """Each Pump has committed transactions, and one that is open when it goes."""
    bus = await NatsBus.connect(made.nats.url, timeout_s=10)
    loop = asyncio.get_running_loop()
    try:
        base, written, opened = compose(RealClock().wall_ms()), {}, {}
        await _consumer(bus, 1)
        for number, node in enumerate(sorted(names.values())):
            client, at = Client(bus, node), base + 1000 * number
            for n in range(0, 100, 2):
                await client.done(prewrite(at + n), commit(at + n, at + n + 1))
            await client.done(prewrite(at + 500))
            written[node] = [at + n + 1 for n in range(0, 100, 2)]
            opened[node] = at + 500
        await loop.run_in_executor(None, made.scale, 1)
        waiting = list(gone)
        while waiting:
            # One slot at a time: the next is adopted once this one is offline.
            node = await _adopted(bus, waiting)
            waiting.remove(node)
            client = Client(bus, node)
            await client.done(commit(opened[node], base + 10_000 + len(written)))
            written[node].append(base + 10_000 + len(written))
            found = await client.pull_up_to(written[node][-1])
            assert [txn.commit_ts for txn in found] == written[node]
            await _consumer(bus, written[node][-1])
            await _until_offline(bus, node)
        await loop.run_in_executor(None, until, lambda: not _adopting(made), "all slots drained")
    finally:
        await bus.close()


def _adopting(made: Deployment) -> str:
    return str(made.actors(made.pumps[0])["adopter"]["adopted"])


async def _consumer(bus: NatsBus, commit_ts: int) -> None:
    body = messages.encode(SafePointRequest(Consumer("reader", "f", commit_ts)))
    await bus.request(subjects.registry(CLUSTER, "safepoint"), body, timeout_s=10)


async def _adopted(bus: NatsBus, nodes: list[str]) -> str:
    """The first of them that answers again."""
    async with asyncio.timeout(90):
        while True:
            for node in nodes:
                with contextlib.suppress(TidelogError):
                    await Client(bus, node).control("status")
                    return node
            await asyncio.sleep(0.1)


async def _until_offline(bus: NatsBus, node: str) -> None:
    async with asyncio.timeout(90):
        while True:
            answer = await bus.request(subjects.registry(CLUSTER, "nodes"), b"{}", timeout_s=10)
            nodes = messages.decode_reply(answer.data, Nodes).nodes
            if any(one.nodeId == node and one.state == OFFLINE for one in nodes):
                return
            await asyncio.sleep(0.1)
