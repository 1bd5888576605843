"""A simulated registry with scripted nodes: what its tests begin with, ask of it and wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec

from tests.unit.registry.nodes import CLUSTER, Script, build, nodes
from tidelog import messages, subjects
from tidelog.errors import TidelogError
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import ONLINE, NodeStatus, StateReply, StateRequest
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.sim import World, run
from tidelog_registry import service
from tidelog_registry.config import RegistryConfig

CONFIG = RegistryConfig(cluster=CLUSTER)


def play(scenario: Callable[[World, Bus], Awaitable[None]], seed: int = 0) -> None:
    """Beside a registry, the node `r`, that was started this moment."""

    async def main(world: World) -> None:
        bus = world.ports().bus
        world.node("r").start(service.build, CONFIG)
        await scenario(world, bus)

    run(main, seed)


async def join(world: World, *scripts: Script) -> None:
    """Start them one after the other, each when the one before it is online."""
    for script in scripts:
        world.node(script.node).start(build, script)
        await until_state(world, world.ports().bus, script.node, ONLINE, 20)


async def entries(bus: Bus) -> dict[str, Member]:
    found, _ = await Bucket(bus, subjects.members_bucket(CLUSTER)).entries()
    return {k: msgspec.json.decode(e.value, type=Member) for k, e in found.items()}


async def operate(bus: Bus, node: str, action: str, *, accept_loss: bool = False) -> NodeStatus:
    body = messages.encode(StateRequest(node, action, accept_loss))
    answer = await bus.request(subjects.registry(CLUSTER, "state"), body, timeout_s=3.0)
    return messages.decode_reply(answer.data, StateReply).status


async def until_state(world: World, bus: Bus, node: str, state: str, within_s: float = 10) -> None:
    deadline = world.loop.time() + within_s
    while True:
        try:
            found = {s.nodeId: s.state for s in (await nodes(bus)).nodes}
        except TidelogError:
            found = {}
        if found.get(node) == state:
            return
        if world.loop.time() > deadline:
            raise TimeoutError(f"{node} is {found.get(node)}, not {state}: {found}")
        await asyncio.sleep(0.05)


async def given_within(world: World, bus: Bus, within_s: float) -> int:
    """The first timestamp; asks until one comes."""
    oracle = RegistryOracle(bus, CLUSTER)
    deadline = world.loop.time() + within_s
    while True:
        try:
            return await oracle.fresh()
        except TidelogError:
            if world.loop.time() > deadline:
                raise
            await asyncio.sleep(0.05)
