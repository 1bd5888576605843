"""The cluster's paths of every admin server: what the registry says, refusals as answers."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog import node_routes, subjects
from tidelog.errors import NotFound, Refused, Unavailable
from tidelog.messages import (
    Nodes,
    NodeStatus,
    StateReply,
    StateRequest,
    decode,
    encode,
    encode_error,
)
from tidelog.ports import Request
from tidelog.routes import Answer, find
from tidelog.sim.world import World, run
from tidelog.supervisor import Supervisor


class Bed:
    """A service with the paths, and a registry that answers the wishes in turn."""

    def __init__(self, world: World, *answers: bytes) -> None:
        self.tree = Supervisor("service")
        node_routes.add(self.tree, world.ports("service").bus, "c")
        self._bus = world.ports("registry").bus
        self._answers = list(answers)
        self.wishes: list[StateRequest] = []

    async def serve(self) -> None:
        await self._bus.serve(subjects.registry("c", "state"), self._state)
        await self._bus.serve(subjects.registry("c", "nodes"), self._nodes)

    async def _state(self, request: Request) -> None:
        self.wishes.append(decode(request.data, StateRequest))
        request.respond(self._answers.pop(0))

    async def _nodes(self, request: Request) -> None:
        nodes = [NodeStatus("p1", kind="pump"), NodeStatus("d1", kind="drainer")]
        request.respond(encode(Nodes(nodes)))

    async def ask(self, method: str, path: str) -> Any:
        found = find(self.tree.routes, method, path)
        assert found.route is not None
        return await found.route.handler(found.given)


def test_a_wish_goes_to_the_registry_and_its_refusal_is_a_conflict() -> None:
    async def main(world: World) -> None:
        done = StateReply(NodeStatus("p1", state="pausing"))
        bed = Bed(world, encode(done), encode_error(Refused("p1 is offline", hint="remove it")))
        await bed.serve()
        assert await bed.ask("PUT", "/state/p1/pause") == done
        refused = await bed.ask("PUT", "/state/p1/close")
        assert isinstance(refused, Answer)
        assert refused.status == 409
        assert (refused.body.code, refused.body.message) == ("Refused", "p1 is offline")
        assert refused.body.hint == "remove it"
        assert [(w.node, w.action) for w in bed.wishes] == [("p1", "pause"), ("p1", "offline")]

    run(main, 1)


def test_an_action_that_is_none_names_those_there_are_and_asks_nobody() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        await bed.serve()
        with pytest.raises(NotFound, match="'explode'") as refused:
            await bed.ask("PUT", "/state/p1/explode")
        assert "pause, resume, offline, close" in refused.value.hint
        assert bed.wishes == []

    run(main, 2)


def test_nodes_are_listed_by_kind_and_a_silent_registry_is_told() -> None:
    async def main(world: World) -> None:
        bed = Bed(world)
        with pytest.raises(Unavailable, match="registry of cluster 'c'"):
            await bed.ask("GET", "/pumps")
        await bed.serve()
        pumps = (await bed.ask("GET", "/pumps"))["pumps"]
        everybody = (await bed.ask("GET", "/nodes"))["nodes"]
        assert [form["nodeId"] for form in pumps] == ["p1"]
        assert [form["nodeId"] for form in everybody] == ["d1", "p1"]

    run(main, 3)
