"""`tidelog feed unregister`: an application that is gone holds the Pumps' disks back no longer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tidelog import subjects
from tidelog.ask_registry import ask, nodes
from tidelog.errors import BadInput, Refused
from tidelog.feeds import AHEAD_MS, Feeds
from tidelog.messages import (
    APPLIER,
    DRAINER_CONSUMER,
    OFFLINE,
    ONLINE,
    PAUSED,
    PUMP,
    Consumer,
    Nodes,
    NodeStatus,
    SafePoint,
    SafePointRequest,
    encode,
)
from tidelog.ports import Bus, Request
from tidelog.pump_control import Forgotten
from tidelog.sim.world import World, run
from tidelog.timestamps import TS_MAX, compose
from tidelog_cli import feed, up
from tidelog_cli.app import app
from tidelog_cli.commands import feed as commands
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build

CLUSTER = "c"


async def register(bus: Bus, name: str, commit_ts: int) -> None:
    request = SafePointRequest(Consumer(name, "main", commit_ts))
    await ask(bus, CLUSTER, "safepoint", request, SafePoint, timeout_s=5)


def test_one_that_is_gone_is_let_go() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        config = RegistryConfig(node_id="registry", cluster=CLUSTER, data_dir="")
        world.node("registry").start(build, config)
        await world.sleep(15)
        await register(bus, "billing", 5)
        await register(bus, "search", 7)
        asked: list[str] = []
        with pytest.raises(BadInput, match="'biling' reads no feed 'main'") as slip:
            await feed.unregister(bus, CLUSTER, "main", "biling", asked.append)
        assert slip.value.hint == "registered for it: billing, search"
        with pytest.raises(BadInput):
            await feed.unregister(bus, CLUSTER, "other", "billing", asked.append)
        assert asked == []
        done = await feed.unregister(bus, CLUSTER, "main", "billing", asked.append)
        assert (done.consumer, done.commit_ts) == ("billing", 5)
        assert "above 5" in asked[0]
        assert (await nodes(bus, CLUSTER, timeout_s=5)).consumers == [Consumer("search", "main", 7)]

    run(main, 1)


def test_a_feed_does_not_begin_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be silent until then, and everything would look well."""
    now = compose(1_795_000_000_000)
    ahead = compose(1_795_000_000_000 + 2 * AHEAD_MS)

    async def main(world: World) -> None:
        bus = world.ports().bus
        pumps = [NodeStatus("p1", highTS=0)]

        async def known(bus: Bus, cluster: str) -> Nodes:
            return Nodes(pumps)

        monkeypatch.setattr(feed, "nodes_soon", known)
        monkeypatch.setattr(feed, "this_moment", lambda: now)
        for wrong in (ahead, TS_MAX):
            with pytest.raises(BadInput, match="lies in the future") as refused:
                await feed.create(bus, CLUSTER, "main", wrong)
            assert str(now) in str(refused.value.hint)
        assert (await feed.create(bus, CLUSTER, "main", now)).initial_commit_ts == now
        # A Pump has seen such timestamps: it is this machine's clock that is late.
        pumps[0] = NodeStatus("p1", highTS=ahead)
        assert (await feed.create(bus, CLUSTER, "late", ahead)).initial_commit_ts == ahead

    run(main, 1)


def test_a_feed_does_not_begin_below_what_a_pump_that_left_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its Drainer would stop there; before it did, that was missing without a word."""
    pumps = [
        NodeStatus("p1", kind=PUMP, state=ONLINE, maxCommitTS=90),
        NodeStatus("p2", kind=PUMP, state=OFFLINE, maxCommitTS=50),
    ]

    async def main(world: World) -> None:
        async def known(bus: Bus, cluster: str) -> Nodes:
            return Nodes(pumps)

        monkeypatch.setattr(feed, "nodes_soon", known)
        bus = world.ports().bus
        for below in (0, 49):
            with pytest.raises(BadInput, match="p2 went offline") as refused:
                await feed.create(bus, CLUSTER, "main", below)
            assert "up to 50" in refused.value.message
            assert "--initial-commit-ts 50" in refused.value.hint
        assert (await feed.create(bus, CLUSTER, "main", 50)).initial_commit_ts == 50

    run(main, 1)


def test_up_does_not_begin_in_the_future_either(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="lies in the future"):
        up.options(tmp_path, "sqlite:///x.db", initial_commit_ts=TS_MAX)


@pytest.mark.parametrize("name", ["a1", DRAINER_CONSUMER])
def test_a_node_goes_otherwise(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async def known(bus: Bus, cluster: str) -> Nodes:
        a1 = NodeStatus("a1", kind=APPLIER, feed="main")
        return Nodes([a1], consumers=[Consumer(name, "main", 5)])

    monkeypatch.setattr(feed, "nodes_soon", known)

    async def main(world: World) -> None:
        with pytest.raises(Refused, match="is a node"):
            await feed.unregister(world.ports().bus, CLUSTER, "main", name, print)

    run(main, 1)


def test_a_pump_that_is_silent_is_named_when_a_feed_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Unless it is gone for good: what it kept of the feed went with it."""
    pumps = [
        NodeStatus("p1", kind=PUMP, state=ONLINE, isAlive=True),
        NodeStatus("frozen", kind=PUMP, state=ONLINE, isAlive=True),
        NodeStatus("away", kind=PUMP, state=PAUSED, isAlive=False),
        NodeStatus("gone", kind=PUMP, state=OFFLINE, isAlive=False),
    ]

    async def known(bus: Bus, cluster: str) -> Nodes:
        return Nodes(pumps)

    monkeypatch.setattr(feed, "nodes_soon", known)

    async def main(world: World) -> None:
        bus = world.ports().bus

        async def forgets(request: Request) -> None:
            request.respond(encode(Forgotten(None)))

        await bus.serve(subjects.pump(CLUSTER, "p1", "control"), forgets)
        with pytest.raises(BadInput, match="nobody knows a feed 'old'") as caught:
            await feed.forget(bus, CLUSTER, "old", lambda _: None)
        assert caught.value.hint == "these do not answer: away, frozen"

    run(main, 1)


def test_one_that_is_there_is_an_object_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_cluster(_dir: object, _nats: str, cluster: str, work: Any) -> None:
        async def main(world: World) -> None:
            bus = world.ports().bus
            await Feeds(bus, cluster).create(feed.new("main", 7))
            await work(bus, cluster)

        run(main, 1)

    monkeypatch.setattr(commands, "on_cluster", on_cluster)
    done = CliRunner().invoke(app, ["feed", "create", "main", "--if-missing", "--json"])
    told = json.loads(done.stdout)
    assert (told["name"], told["initial_commit_ts"], told["begun"]) == ("main", 7, False)


def test_one_that_is_there_is_told_as_it_was_created() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("registry").start(
            build, RegistryConfig(node_id="registry", cluster=CLUSTER, data_dir="")
        )
        await world.sleep(15)
        made = await feed.create(bus, CLUSTER, "main", 0)
        assert await feed.found(bus, CLUSTER, "main") == made
        assert (await feed.found(bus, CLUSTER, "older")).name == "older"

    run(main, 1)
