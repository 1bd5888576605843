"""A Commit whose Prewrite is not here: the wrong Pump was told, or rows are missing. The others are
asked who has it; readers go on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from tests.unit.pump.rig import (
    CLUSTER,
    CONFIG,
    NODE,
    Client,
    Registry,
    commit,
    join,
    prewrite,
    ts_now,
)
from tests.unit.pump.rig import start as start_one
from tidelog import subjects
from tidelog.errors import Refused
from tidelog.messages import decode, encode
from tidelog.ports import Request
from tidelog.pump_control import ControlRequest, WhoHas
from tidelog.sim import World, run
from tidelog_cli.resolve import resolve
from tidelog_pump.late import verifier

OTHER = "pump-2"


async def start(world: World) -> tuple[Registry, Client, Client]:
    registry, here = await start_one(world)
    other = await join(world, msgspec.structs.replace(CONFIG, node_id=OTHER))
    registry.pumps = [NODE, OTHER]
    return registry, here, other


def shown(world: World) -> list[dict[str, Any]]:
    found: Any = world.node(NODE).status()
    return list(found["verifier"]["oldest_unpaired"])


async def told(world: World, registry: Registry, text: str) -> str:
    """What the Pump's next heartbeats say of it, once that has `text` in it."""

    def complaints() -> list[str]:
        beats = [b for b in registry.beats if b.status.nodeId == NODE]
        return [b.status.detail.get("unpaired", "") for b in beats[-1:]]

    await world.until(lambda: any(text in said for said in complaints()), 60, text)
    return complaints()[0]


async def again(world: World, client: Client, *, index_lost: bool) -> None:
    node = world.node(NODE)
    await node.stop()
    if index_lost:
        node.indexes.clear()
    node.restart()
    await client.until_online()


@pytest.mark.parametrize("first", ["pending", "unreachable"])
def test_one_that_another_pump_has_is_settled(first: str) -> None:
    async def main(world: World) -> None:
        registry, here, other = await start(world)
        base = ts_now(world)
        await other.done(prewrite(base))
        if first == "unreachable":
            await other.done(commit(base, base + 60))
            await other.until_state(base, "committed")
            world.node(OTHER).kill()
        await here.done(commit(base, base + 60))
        await told(world, registry, f"{OTHER}: {first}")
        await world.sleep(20)
        assert [one["missing"] for one in shown(world)] == [False]
        assert (await here.control("inspect", base))["late"] == "unverified"
        if first == "unreachable":
            world.node(OTHER).restart()
            await other.until_online()
        else:
            await other.done(commit(base, base + 60))
        await world.until(lambda: not shown(world), 60)
        beats = len(registry.beats)
        await world.until(lambda: len(registry.beats) > beats + 4, 10)
        assert all("unpaired" not in beat.status.detail for beat in registry.beats[-2:])
        assert (await here.control("inspect", base))["late"] == ""

    run(main, 1)


def test_one_that_nobody_has_is_missing_until_an_operator_accepts_it() -> None:
    async def main(world: World) -> None:
        registry, here, _ = await start(world)
        base = ts_now(world)
        await here.done(commit(base, base + 60), prewrite(base + 1), commit(base + 1, base + 70))
        said = await told(world, registry, f"resolve {base} --accept")
        assert f"{OTHER}: no" in said
        # Loud, and nobody is stopped by it.
        assert [t.start_ts for t in await here.pull_up_to(base + 70)] == [base + 1]
        assert not (await here.pull(base + 70, wait_ms=0)).code
        for index_lost in (False, True):
            await again(world, here, index_lost=index_lost)
            await told(world, registry, f"resolve {base} --accept")
        with pytest.raises(Refused) as refused:
            await resolve(here.bus, CLUSTER, base, "rollback", 0, print)
        assert "--accept" in refused.value.hint
        done = await resolve(here.bus, CLUSTER, base, "accept", 0, print)
        assert {node: (s.state, s.late) for node, s in done.pumps.items()} == {
            NODE: ("unpaired", "")
        }
        for index_lost in (False, True):
            await again(world, here, index_lost=index_lost)
            await world.sleep(10)
            assert not shown(world)
        # Its Prewrite after all that: readable from below, and nobody is stopped for it either.
        await here.done(prewrite(base))
        found = await here.pull_up_to(base + 70, feed="new")
        assert [t.start_ts for t in found] == [base, base + 1]
        await world.sleep(5)
        assert not (await here.pull(base + 70, wait_ms=0)).code

    run(main, 2)


def test_a_prewrite_right_behind_it_is_no_loss() -> None:
    async def main(world: World) -> None:
        _, here, _ = await start(world)
        for _ in range(20):
            base = ts_now(world)
            await here.done(commit(base, base + 60))
            await world.sleep(world.random("gap").random() * 0.5)
            assert not any(one["missing"] for one in shown(world))
            await here.done(prewrite(base))
            await here.until_state(base, "committed")
        assert not shown(world)

    run(main, 3)


def test_what_is_being_asked_is_not_asked_a_second_time_however_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One more than are remembered at a time, while the first one's answer does not come."""
    monkeypatch.setattr(verifier, "QUESTIONS", 2)
    asked: list[tuple[int, float]] = []
    silent: set[int] = set()

    async def main(world: World) -> None:
        async def answer(request: Request) -> None:
            about = decode(request.data, ControlRequest).ts
            asked.append((about, world.loop.time()))
            if about not in silent:
                request.respond(encode(WhoHas("pending")))

        registry, here = await start_one(world)
        await here.bus.serve(subjects.pump(CLUSTER, OTHER, "control"), answer)
        registry.pumps = [NODE, OTHER]
        base = ts_now(world)
        await here.done(commit(base, base + 60), commit(base + 1, base + 61))
        await world.until(lambda: {about for about, _ in asked} == {base, base + 1}, 10)
        silent.add(base)
        seen = len(asked)
        await world.until(lambda: base in [about for about, _ in asked[seen:]], 60)
        await here.done(commit(base + 2, base + 62))
        await world.sleep(60)
        times = [at for about, at in asked[seen:] if about == base]
        assert len(times) > 2
        gaps = [later - at for at, later in pairwise(times)]
        assert min(gaps) >= verifier.ASK_S
        assert {about for about, _ in asked[-20:]} == {base, base + 1, base + 2}

    run(main, 4)
