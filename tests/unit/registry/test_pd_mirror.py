"""A registry that shows its nodes in PD's etcd, on virtual time; the etcd is a fake."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from tests.unit.registry.nodes import CLUSTER, drainer, pump
from tests.unit.registry.rig import join, operate, until_state
from tests.unit.upstream.fake_etcd import FakeEtcd
from tests.unit.upstream.fake_net import FakeNet
from tests.unit.upstream.fake_pd import FakePd
from tidelog.messages import CLOSING, OFFLINE, ONLINE, PAUSED
from tidelog.ports import Bus
from tidelog.sim import World, run
from tidelog.upstream.config import UpstreamConfig
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig

PD = 7613
P1, D1 = b"/tidb-binlog/v1/pumps/p1", b"/tidb-binlog/v1/drainers/d1"


class Stage:
    def __init__(self, world: World, etcd: FakeEtcd) -> None:
        self.world, self.etcd = world, etcd
        self.bus: Bus = world.ports().bus

    def shown(self, key: bytes) -> dict[str, Any]:
        kv = self.etcd.keys.get(key)
        found: dict[str, Any] = msgspec.json.decode(kv.value) if kv is not None else {}
        return found

    async def shows(self, key: bytes, state: str) -> None:
        what = f"{key.decode()} {state}"
        await self.world.until(lambda: self.shown(key).get("state") == state, 20, what)

    def writes(self, key: bytes, state: str) -> None:
        """As `binlogctl update-pump -state` does."""
        self.etcd.put((key, msgspec.json.encode(self.shown(key) | {"state": state})))

    def said(self) -> dict[str, Any]:
        status = self.world.node("r").status()
        assert isinstance(status, dict)
        found: dict[str, Any] = status["pd"]
        return found


def play(
    scenario: Callable[[Stage], Awaitable[None]], *, cluster_id: int = PD, named: str = ""
) -> None:
    """`named`: the only PD that the registry is told of."""

    async def main(world: World) -> None:
        net = FakeNet()
        members = ("pd1:2379", "pd2:2379", "pd3:2379")
        if named:
            FakePd(net, *members)
        etcd = FakeEtcd(net, *members, cluster_id=PD)
        world.open_rpc = lambda life, tls: net
        config = RegistryConfig(
            cluster=CLUSTER,
            cluster_id=cluster_id,
            upstream=UpstreamConfig(pd_urls=named or etcd.urls),
        )
        world.node("r").start(service.build, config)
        stage = Stage(world, etcd)
        await join(world, drainer("d1"), pump("p1"))
        await scenario(stage)

    run(main, 1)


def test_states_follow_ours() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        await stage.shows(D1, ONLINE)
        await operate(stage.bus, "p1", "pause")
        await stage.shows(P1, PAUSED)
        await operate(stage.bus, "p1", "resume")
        await stage.shows(P1, ONLINE)

    play(scenario)


def test_what_an_operator_writes_of_either_kind_is_an_order() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        await stage.shows(D1, ONLINE)
        for key, node in ((P1, "p1"), (D1, "d1")):
            stage.writes(key, PAUSED)
            await until_state(stage.world, stage.bus, node, PAUSED)
            await stage.shows(key, PAUSED)
            stage.writes(key, ONLINE)
            await until_state(stage.world, stage.bus, node, ONLINE)
        stage.writes(D1, OFFLINE)
        await until_state(stage.world, stage.bus, "d1", CLOSING)
        await stage.shows(D1, CLOSING)

    play(scenario)


def test_what_was_written_while_no_registry_ran_is_an_order_too() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        stage.world.node("r").kill()
        stage.writes(P1, PAUSED)
        stage.world.node("r").restart()
        await until_state(stage.world, stage.bus, "p1", PAUSED)
        await stage.shows(P1, PAUSED)

    play(scenario)


def test_an_order_that_can_not_be_had_is_answered_by_the_truth() -> None:
    """One that is closing can't be paused any more."""

    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        stage.world.node("p1").kill()
        await operate(stage.bus, "p1", "offline")
        await stage.shows(P1, CLOSING)
        stage.writes(P1, PAUSED)
        await stage.shows(P1, CLOSING)
        await until_state(stage.world, stage.bus, "p1", CLOSING)

    play(scenario)


def test_members_that_fall_silent_or_are_gone_are_left_for_the_next() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        first = stage.said()["pd"]
        stage.etcd.net.silent.add(first)
        await operate(stage.bus, "p1", "pause")
        await stage.shows(P1, PAUSED)
        assert stage.said()["pd"] != first
        stage.etcd.net.down.update(stage.etcd.addresses)
        await stage.world.until(lambda: stage.said()["reason"] != "", 20, "the reason")
        await operate(stage.bus, "p1", "resume")
        await until_state(stage.world, stage.bus, "p1", ONLINE)
        stage.etcd.net.down.clear()
        await stage.shows(P1, ONLINE)
        assert stage.said()["reason"] == ""

    play(scenario)


def test_of_one_that_is_named_the_others_are_learned() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.shows(P1, ONLINE)
        stage.etcd.net.down.add("pd1:2379")
        await operate(stage.bus, "p1", "pause")
        await stage.shows(P1, PAUSED)
        assert stage.said()["pd"] != "pd1:2379"

    play(scenario, named="http://pd1:2379")


def test_the_pd_of_another_cluster_is_left_alone() -> None:
    async def scenario(stage: Stage) -> None:
        await stage.world.until(lambda: "cluster 7613" in stage.said()["reason"], 20, "the reason")
        await stage.world.sleep(10)
        assert stage.shown(P1) == stage.shown(D1) == {}

    play(scenario, cluster_id=9)
