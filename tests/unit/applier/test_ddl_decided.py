"""An operator's word on a DDL that the Applier stands at: recorded, then obeyed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.unit.applier.publisher import FEED, Publisher, create
from tests.unit.applier.sim_rig import NODE, saved, started, world_with
from tests.unit.downstreams.shapes import column, ddl, table
from tests.unit.registry.nodes import CLUSTER
from tidelog import messages, subjects
from tidelog.applier_control import ApplierRequest, DecidedStep
from tidelog.ddl_pending import DONE, DdlPending
from tidelog.downstream import Checkpoint
from tidelog.errors import BadInput, Refused, Stopped
from tidelog.sim.downstream import SimDatabase
from tidelog.sim.life import Life
from tidelog.sim.world import World, run

OTHER = table("other", column("id", "int(11)"), key=("id",), number=99)


class Undecided(SimDatabase):
    """Stops at the creation of `other` until a word on it is in the checkpoint."""

    async def transact(self, life: Life, work: Any) -> None:
        ddl_here = getattr(work, "ddl", None)
        if ddl_here is not None and ddl_here.table.name == OTHER.name:
            assert self.checkpoint is not None
            pending = self.checkpoint.ddl_pending
            if pending is None or not pending.decision:
                begun = DdlPending(ddl_here.commit_ts, 1)
                self.checkpoint = msgspec.structs.replace(self.checkpoint, ddl_pending=begun)
                raise Stopped("neither as before nor as after", hint="say which")
            self.words.append(pending.decision)
        await super().transact(life, work)
        if self.checkpoint is not None and self.checkpoint.ddl_pending is not None:
            self.decided.append(self.checkpoint)

    words: list[str]
    decided: list[Checkpoint]
    """As a word on a DDL was saved."""


async def begun(world: World) -> tuple[Undecided, Publisher]:
    """An Applier that stands at a DDL."""
    database = world_with(world, Undecided)
    database.words, database.decided = [], []
    publisher, _ = await started(world)
    await publisher.ddl(ddl("create_table", (None, OTHER)))
    await stands(world)
    return database, publisher


async def stands(world: World) -> None:
    node = world.node("applier")
    await world.until(
        lambda: bool(node.service.status().get("applier", {}).get("stopped")), 10, "the typed stop"
    )


async def ask(world: World, verb: str, ts: int) -> DecidedStep:
    subject = subjects.applier(CLUSTER, NODE, "control")
    body = messages.encode(ApplierRequest(verb, ts))
    answer = await world.ports("cli").bus.request(subject, body, timeout_s=5)
    return messages.decode_reply(answer.data, DecidedStep)


@pytest.mark.parametrize("killed", [False, True])
def test_a_word_is_recorded_and_obeyed_without_a_restart_by_hand(*, killed: bool) -> None:
    async def main(world: World) -> None:
        database, publisher = await begun(world)
        node = world.node("applier")
        if killed:
            before = node.service
            node.kill()
            node.restart()
            await world.until(lambda: node.service is not before, 10, "another life")
            await stands(world)
        found = await ask(world, "ddl-done", publisher.commit_ts)
        assert found == DecidedStep(FEED, NODE, publisher.commit_ts, 1, DONE)
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "what follows")
        assert database.words == [DONE]
        assert database.checkpoint is not None
        assert database.checkpoint.ddl_pending is None
        status = node.service.status()["applier"]
        assert (status["error"], status["stopped"]) == ("", False)

    run(main, 1)


def test_a_word_on_another_ddl_or_on_none_is_refused() -> None:
    async def main(world: World) -> None:
        database, publisher = await begun(world)
        with pytest.raises(Refused, match=f"the one at {publisher.commit_ts} is"):
            await ask(world, "ddl-done", publisher.commit_ts - 1)
        with pytest.raises(BadInput, match="unknown verb"):
            await ask(world, "ddl-maybe", publisher.commit_ts)
        assert database.words == []
        await ask(world, "ddl-again", publisher.commit_ts)
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "what follows")
        with pytest.raises(Refused, match="stands at no DDL"):
            await ask(world, "ddl-again", publisher.commit_ts)

    run(main, 1)


class RefusingRows(Undecided):
    """Takes no row."""

    async def transact(self, life: Life, work: Any) -> None:
        if work.works:
            raise Stopped("the downstream refuses the row", hint="widen the column")
        await super().transact(life, work)


def test_a_word_at_one_that_stopped_for_a_row_is_refused() -> None:
    """Again and again, and it stays as it is: what is on its way never lands."""

    async def main(world: World) -> None:
        database = world_with(world, RefusingRows)
        publisher, node = await started(world)
        await world.until(lambda: len(database.tables) == 2, 10, "the tables")
        await publisher.rows(t=[create(1, 1)])
        await stands(world)
        for _ in range(5):
            with pytest.raises(Refused, match=r"the DDL at 3 is not under way .*: none is"):
                await ask(world, "ddl-done", 3)
            await world.sleep(2)
        status = node.service.status()["applier"]
        assert status["stopped"]
        assert "refuses the row" in status["error"]
        assert (node.starts, node.service.restarts_total) == (1, 0)
        await node.stop()
        assert database.checkpoint is not None
        assert (saved(database), database.checkpoint.consistent) == (2, False)

    run(main, 1)


def test_a_word_keeps_what_another_applier_may_have_written() -> None:
    """Its rows may lie above its checkpoint. The word is saved by the one that runs now, whose own
    relay log knows nothing of them."""

    async def main(world: World) -> None:
        database, publisher = await begun(world)
        node = world.node("applier")
        before = node.service
        node.kill()
        assert database.checkpoint is not None
        database.epoch += 1
        other = database.epoch
        database.checkpoint = msgspec.structs.replace(
            database.checkpoint, consistent=False, reach=5000, epoch=other
        )
        node.restart()
        await world.until(lambda: node.service is not before, 10, "another life")
        await stands(world)
        await ask(world, "ddl-done", publisher.commit_ts)
        await world.until(lambda: saved(database) == publisher.commit_ts, 10, "what follows")
        assert [found.unsure for found in database.decided] == [5000]
        assert database.decided[0].epoch > other

    run(main, 1)
