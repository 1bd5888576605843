"""Who asks the registry is told which one is silent, and gets a refusal as the error it names."""

from __future__ import annotations

import pytest

from tidelog import ask_registry, subjects
from tidelog.errors import BadInput, TidelogError, Unavailable
from tidelog.messages import Empty, Nodes, NodeStatus, encode, encode_error
from tidelog.ports import Request
from tidelog.sim.world import World, run


def test_an_answer_is_what_was_asked_for() -> None:
    async def main(world: World) -> None:
        async def lists(request: Request) -> None:
            assert request.data == encode(Empty())
            request.respond(encode(Nodes([NodeStatus("p")])))

        await world.ports("registry").bus.serve(subjects.registry("c", "nodes"), lists)
        found = await ask_registry.nodes(world.ports("asker").bus, "c", timeout_s=1)
        assert [node.nodeId for node in found.nodes] == ["p"]

    run(main, 1)


@pytest.mark.parametrize("there", ["nobody", "one who is stopped"])
def test_a_silent_registry_is_named_by_its_cluster(there: str) -> None:
    async def main(world: World) -> None:
        async def sleeps(_request: Request) -> None:
            """As one that is stopped."""

        if there != "nobody":
            await world.ports("registry").bus.serve(subjects.registry("c", "nodes"), sleeps)
        with pytest.raises(Unavailable, match="the registry of cluster 'c' does not") as raised:
            await ask_registry.nodes(world.ports("asker").bus, "c", timeout_s=1)
        assert raised.value.hint.startswith("ask again")

    run(main, 1)


@pytest.mark.parametrize("kind", [BadInput, Unavailable])
def test_a_refusal_comes_as_it_was_said(kind: type[TidelogError]) -> None:
    async def main(world: World) -> None:
        async def refuses(request: Request) -> None:
            request.respond(encode_error(kind("not so", hint="but so")))

        await world.ports("registry").bus.serve(subjects.registry("c", "state"), refuses)
        asker = world.ports("asker").bus
        with pytest.raises(kind) as raised:
            await ask_registry.ask(asker, "c", "state", Empty(), Nodes, timeout_s=1)
        assert (raised.value.message, raised.value.hint) == ("not so", "but so")

    run(main, 1)
