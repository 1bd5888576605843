"""`tidelog ddl`: a feed's Drainers are asked one by one; none answers: what one kept is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from typer.testing import CliRunner

from tidelog import messages, subjects
from tidelog.drainer_control import DrainerRequest, FeedDdls
from tidelog.errors import Unavailable
from tidelog.messages import DRAINER, OFFLINE, ErrorReply, Nodes, NodeStatus
from tidelog.ports import Bus, Request
from tidelog.sim.world import World, run
from tidelog_cli import ddl
from tidelog_cli.app import app
from tidelog_cli.commands import ddl as command
from tidelog_cli.state_file import TopologyState

CLUSTER = "c"
FOUND = FeedDdls("main", None, {"truncate_table": "skip"}, [], [], {})


def drainer(name: str, *, alive: bool = True, state: str = "online") -> NodeStatus:
    return NodeStatus(name, kind=DRAINER, feed="main", isAlive=alive, state=state)


async def answers(bus: Bus, node: str, answer: bytes) -> None:
    async def hear(request: Request) -> None:
        request.respond(answer)

    await bus.serve(subjects.drainer(CLUSTER, node, "control"), hear)


def test_a_drainer_that_is_dead_or_stands_by_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = [drainer("dead", alive=False), drainer("gone", state=OFFLINE), drainer("standby")]

    async def nodes(_bus: Bus, _cluster: str) -> Nodes:
        return Nodes(known)

    monkeypatch.setattr(ddl, "nodes_soon", nodes)

    async def main(world: World) -> None:
        bus = world.ports().bus
        standby = ErrorReply("Unavailable", "drainer standby publishes nothing")
        await answers(bus, "standby", messages.encode(standby))
        ask = DrainerRequest("ddls")
        with pytest.raises(Unavailable, match="no Drainer of feed 'main' answers") as caught:
            await ddl.ask(bus, CLUSTER, "main", ask)
        # The first one that was asked, who lives.
        assert "publishes nothing" in str(caught.value.__cause__)
        known.append(drainer("publishes"))
        await answers(bus, "publishes", messages.encode(FOUND))
        assert await ddl.ask(bus, CLUSTER, "main", ask) == FOUND

    run(main, 1)


def test_what_one_kept_is_shown_and_said_to_be_that(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def connected(_state: TopologyState) -> AsyncIterator[None]:
        yield None

    async def silent(*_: object) -> FeedDdls:
        raise Unavailable("no Drainer of feed 'main' answers")

    async def kept(*_: object) -> FeedDdls:
        return FOUND

    monkeypatch.setattr(command, "connected", connected)
    monkeypatch.setattr(ddl, "ask", silent)
    monkeypatch.setattr(ddl, "kept", kept)
    done = CliRunner().invoke(app, ["ddl", "--nats", "nats://127.0.0.1:1", "--feed", "main"])
    assert done.exit_code == 0, done.output
    assert "no Drainer of feed 'main' answers: this is what one kept last" in done.stderr
    assert "policy: truncate_table=skip" in done.stdout
