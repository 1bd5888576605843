"""A backlog is handed to a replay: a paused Applier lets its downstream go, and begins from the
checkpoint that it finds there once it is resumed."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.applier.publisher import FEED, Publisher, create
from tests.unit.applier.sim_rig import (
    NODE,
    saved,
    started,
    stopped,
    told_by_registry,
    world_with_database,
)
from tests.unit.registry.nodes import CLUSTER
from tests.unit.registry.rig import operate
from tidelog import messages, subjects
from tidelog.applier_control import LET_GO, READ_AHEAD, SHARED, ApplierRequest, LetGo
from tidelog.errors import Refused, Unavailable
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.world import World, run
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry


async def let_go(world: World, verb: str = LET_GO) -> LetGo:
    subject = subjects.applier(CLUSTER, NODE, "control")
    body = messages.encode(ApplierRequest(verb))
    answer = await world.ports("cli").bus.request(subject, body, timeout_s=5)
    return messages.decode_reply(answer.data, LetGo)


async def paused(world: World) -> tuple[SimDatabase, Publisher]:
    """With one row applied, and five more that came since."""
    database = world_with_database(world)
    world.node("registry").start(build_registry, RegistryConfig(cluster=CLUSTER))
    publisher, node = await started(world)
    await told_by_registry(world)
    await publisher.rows(t=[create(1, 1)])
    await world.until(lambda: saved(database) == publisher.commit_ts, 20, "the row")
    with pytest.raises(Refused, match="is at work"):
        await let_go(world)
    await operate(world.ports().bus, NODE, "pause")
    await world.until(lambda: node.service.status()["applier"]["held"], 20, "the pause")
    await world.sleep(5)
    for number in range(5):
        await publisher.rows(t=[create(10 + number, 1)])
    return database, publisher


def replayed(database: SimDatabase, commit_ts: int) -> None:
    """A job has fenced the Applier off and moved the checkpoint; its rows are left out here, so
    that it shows when the Applier writes them again."""
    assert database.checkpoint is not None
    assert database.checkpoint.consistent
    database.epoch += 1
    database.checkpoint = msgspec.structs.replace(
        database.checkpoint, commit_ts=commit_ts, epoch=database.epoch
    )


@pytest.mark.parametrize("seed", range(4))
def test_it_goes_on_behind_what_was_replayed(seed: int) -> None:
    async def main(world: World) -> None:
        database, publisher = await paused(world)
        with capture_logs() as logs:
            step = await let_go(world)
            assert msgspec.structs.replace(step, settings={}) == LetGo(FEED, NODE, 3, 0, LET_GO)
            assert step.settings.keys() == {"downstream", *SHARED}
            await world.sleep(2)
        told = [(one["event"], one["log_level"]) for one in logs]
        assert ("actor begins anew", "info") in told
        assert "error" not in {level for _, level in told}
        await world.sleep(5 * world.random("test").random())
        replayed(database, publisher.commit_ts)
        epoch = database.epoch
        await world.sleep(60)
        assert database.epoch == epoch
        await operate(world.ports().bus, NODE, "resume")
        await publisher.rows(t=[create(99, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 30, "the last row")
        assert [row["id"] for row in database.rows("d", "t")] == [1, 99]
        assert database.violations == []

    run(main, seed)


@pytest.mark.parametrize("seed", range(4))
def test_meanwhile_its_relay_log_takes_the_stream(seed: int) -> None:
    """Far more than it holds in memory; and what is not replayed, it applies from there."""

    async def main(world: World) -> None:
        database, publisher = await paused(world)
        with pytest.raises(Unavailable, match="does not read ahead"):
            await let_go(world, READ_AHEAD)
        await let_go(world)
        for number in range(300):
            await publisher.rows(t=[create(1000 + number, 1)])
        reached = 0
        while reached < publisher.commit_ts:
            await world.sleep(0.5)
            with suppress(Unavailable):  # it has only begun
                reached = (await let_go(world, READ_AHEAD)).commit_ts
        replayed(database, publisher.commit_ts - 100)
        await world.ports("drainer").bus.stream_delete(publisher.stream)
        await publisher.create_stream()
        await operate(world.ports().bus, NODE, "resume")
        await publisher.rows(t=[create(99, 1)])
        await world.until(lambda: saved(database) == publisher.commit_ts, 60, "the last row")
        found = sorted(row["id"] for row in database.rows("d", "t"))
        assert found == [1, 99, *range(1200, 1300)]
        assert database.violations == []

    run(main, seed)


def test_one_that_was_told_nothing_stops_rather_than_apply_all_again() -> None:
    async def main(world: World) -> None:
        database, publisher = await paused(world)
        replayed(database, publisher.commit_ts)
        await operate(world.ports().bus, NODE, "resume")
        await world.until(lambda: stopped(world), 60, "the typed stop")
        assert len(database.rows("d", "t")) == 1

    run(main, 7)
