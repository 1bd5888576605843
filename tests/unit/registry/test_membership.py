"""A node and the registry's word: what is refused by name, and what waits at the node itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.registry.nodes import CLUSTER, nodes, pump
from tests.unit.registry.rig import join, operate, play, until_state
from tidelog import messages, subjects
from tidelog.errors import ActorStopped, BadInput, ForeignCluster, TidelogError
from tidelog.membership import Membership
from tidelog.messages import ONLINE, PAUSED, Beat, Heartbeat, NodeStatus, Register, Registered
from tidelog.ports import Bus, Ports
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig

OURS = 7


async def asked(bus: Bus, what: str, body: Any, kind: type[Any]) -> Any:
    answer = await bus.request(
        subjects.registry(CLUSTER, what), messages.encode(body), timeout_s=3.0
    )
    return messages.decode_reply(answer.data, kind)


@pytest.mark.parametrize(
    ("body", "kind", "error", "says"),
    [
        (Register(NodeStatus("n", kind="pumpkin"), OURS), Registered, BadInput, "pumpkin"),
        (Register(NodeStatus("n", kind="pump"), 8), Registered, ForeignCluster, "cluster id 8"),
        (Heartbeat(NodeStatus("n", kind="pumpkin")), Beat, BadInput, "pumpkin"),
    ],
)
def test_who_is_none_of_ours_is_refused_by_name(
    body: Register | Heartbeat, kind: type[Any], error: type[TidelogError], says: str
) -> None:
    what = "register" if isinstance(body, Register) else "heartbeat"

    async def main(world: World) -> None:
        bus, registry = world.ports().bus, world.node("r")
        registry.start(service.build, RegistryConfig(cluster=CLUSTER, cluster_id=OURS))
        await join(world, pump("p1"))
        with pytest.raises(error, match=says):
            await asked(bus, what, body, kind)
        assert {node.nodeId for node in (await nodes(bus)).nodes} == {"p1"}
        assert (registry.starts, registry.service.restarts_total) == (1, 0)

    run(main)


def test_an_order_that_finds_no_room_is_told_to_nobody_until_it_does() -> None:
    async def main(world: World, bus: Bus) -> None:
        script, node = pump("n"), world.node("n")
        await join(world, script)
        node.disk.full = True
        await operate(bus, "n", "pause")

        def error() -> str:
            return str(node.service.status()["membership"]["error"])

        await world.until(lambda: "order can't be kept" in error(), 20, "why it waits")
        assert [state for state, _ in script.told] == [ONLINE]
        node.disk.full = False
        await until_state(world, bus, "n", PAUSED, 20)
        await world.until(lambda: error() == "", 10, "that it is over")
        world.node("r").kill()
        node.kill()
        script.told.clear()
        world.node("r").restart()
        node.restart()
        await until_state(world, bus, "n", PAUSED, 20)
        assert ONLINE not in [state for state, _ in script.told], "it was kept"

    play(main)


def test_a_state_that_nobody_is_there_to_hear_is_told_again() -> None:
    """Who would obey is being started again at that moment."""
    heard = list[str]()

    def deaf_at_first(ports: Ports) -> Supervisor:
        deaf = [2, 1]

        async def describe() -> Heartbeat:
            return Heartbeat(NodeStatus("n", kind="drainer", feed="f"))

        async def on_state(state: str, _: int) -> None:
            if deaf:
                raise ActorStopped(f"{deaf.pop()}: publisher is not running")
            heard.append(state)

        tree = Supervisor("n")
        tree.actor(
            "membership",
            lambda: Membership(ports, CLUSTER, "drainer", describe, on_state, cluster_id=0),
        )
        return tree

    async def main(world: World, _: Bus) -> None:
        node = world.node("n")
        node.start(lambda _config, ports: deaf_at_first(ports), None)
        await world.until(lambda: bool(heard), 30, "the state")
        assert heard == [ONLINE]
        assert (node.starts, node.service.restarts_total, node.failures) == (1, 0, [])

    play(main)
