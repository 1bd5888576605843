"""Whose directory it is: what a start takes over, refuses, and how two of one node id are found."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, start
from tidelog.errors import ForeignCluster, ForeignDirectory, NodeIdTaken
from tidelog.sim import World, run
from tidelog_pump.config import PumpConfig
from tidelog_pump.identity import NodeRecord, claim, name_of
from tidelog_pump.service import build

BEFORE = NodeRecord("p", 7, 4, "c", "m")
WANTED = NodeRecord("", 7, 0, "c", "fresh")


def test_a_new_directory_takes_what_is_configured() -> None:
    assert claim(None, WANTED) == NodeRecord("", 7, 1, "c", "fresh")


def test_each_start_is_the_next_epoch_of_the_same_node_and_mark() -> None:
    assert claim(BEFORE, WANTED) == NodeRecord("p", 7, 5, "c", "m")


def test_a_directory_of_an_older_release_gets_cluster_and_mark() -> None:
    assert claim(NodeRecord("p", 7, 4), WANTED) == NodeRecord("p", 7, 5, "c", "fresh")


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"node": "q"}, ForeignDirectory, "belongs to p, this is q"),
        ({"cluster_id": 8}, ForeignCluster, "set cluster-id = 7"),
        ({"cluster": "d"}, ForeignCluster, "set cluster = 'c'"),
    ],
)
def test_a_foreign_directory_is_refused_with_what_to_do(
    change: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error) as caught:
        claim(BEFORE, msgspec.structs.replace(WANTED, **change))
    assert says in str(caught.value)


def test_a_foreign_slot_is_named() -> None:
    with pytest.raises(ForeignCluster) as caught:
        claim(BEFORE, msgspec.structs.replace(WANTED, cluster="d"), "slot-3")
    assert caught.value.message == "slot-3 is of cluster 'c', configured is 'd'"
    assert "take slot-3 out of slots-dir" in caught.value.hint


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"node_id": "p", "advertise_addr": "h:1"}, "p"),
        ({"advertise_addr": "h:1", "grpc_addr": "10.0.0.1:8250"}, "h:1"),
        ({"grpc_addr": "10.0.0.1:8250"}, "10.0.0.1:8250"),
        ({"grpc_addr": "10.0.0.1:0"}, "drawn"),
        ({"grpc_addr": "0.0.0.0:8250"}, "drawn"),
        ({"grpc_addr": "127.0.0.1:8250"}, "drawn"),
        ({}, "drawn"),
    ],
)
def test_a_new_node_is_named_by_the_address_that_is_its_own(
    settings: dict[str, str], name: str
) -> None:
    assert name_of(msgspec.structs.replace(PumpConfig(), **settings), "drawn") == name


def test_a_second_pump_of_our_node_id_says_so_and_touches_nothing() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        twin = world.node("twin")
        twin.start(build, CONFIG)
        await world.until(lambda: bool(twin.failures), 10)
        assert isinstance(twin.failures[0], NodeIdTaken)
        assert not twin.disk.mount(world.node("eye").ports().disk._life).exists(".node")  # type: ignore[attr-defined]
        assert not (await client.write(b""))[0].code

    run(main, 2)


def test_mark_and_life_go_with_every_word_and_only_the_mark_stays() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        await world.sleep(3)
        first = registry.beats[-1].status
        world.node(NODE).kill()
        world.node(NODE).restart()
        await client.until_online()
        await world.sleep(3)
        second = registry.beats[-1].status
        assert (first.epoch, second.epoch) == (1, 2)
        assert first.mark == second.mark != ""
        assert len({first.life, second.life, ""}) == 3

    run(main, 3)
