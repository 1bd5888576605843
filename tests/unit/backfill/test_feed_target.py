"""The feed as a copy's target: what its stream tells a job that goes on, and one that begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog import subjects
from tidelog.changes import RowMessage
from tidelog.downstream import Image
from tidelog.errors import Stopped
from tidelog.ports import Bus, Outgoing
from tidelog.rows.column import JSON_NULL
from tidelog.sim.world import World, run
from tidelog_backfill.snapshot.feed import CopyDone, FeedTarget, FeedWriter, bodies
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.values import RowImages, stored

S = 100
TABLE = CopiedTable("d", table("t", column("id", "int(11)"), key=("id",)))
CHUNKS = [Chunk(0, 0), Chunk(1, 0)]
PLAN = SnapshotPlan(S, True, "exact", [TABLE], CHUNKS, Asked("f", "mysql://db", ("d.*",)))
LARGE = msgspec.structs.replace(PLAN, warnings=["w" * 999] * 999)
STREAM = subjects.snap_stream("f")


def target(bus: Any) -> FeedTarget:
    async def connected() -> Any:
        return bus

    way: Any = SimpleNamespace(feed="f", connected=connected)
    return FeedTarget(way)


async def copied(bus: Any, chunk: int) -> None:
    writer = FeedWriter(bus, "f", TABLE, chunk, S)
    await writer.write([Image({"id": chunk})])
    await writer.done()


async def told(bus: Bus) -> list[CopyDone]:
    reader = await bus.read(STREAM, start_seq=1, subjects=(subjects.snap("f", "done"),))
    try:
        found = await reader.next_batch(9, 1.0)
        return [msgspec.json.decode(one.data, type=CopyDone) for one in found]
    finally:
        await reader.close()


@pytest.mark.parametrize("plan", [PLAN, LARGE], ids=["one message", "fragments"])
def test_a_job_that_is_begun_again_goes_on(plan: SnapshotPlan) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        first = target(bus)
        assert await first.kept() is None, "there is no stream yet"
        assert await first.done(plan) == frozenset()
        await first.prepare(plan.tables, S)
        assert await first.kept() is None, "a stream without a plan"
        await first.keep(plan)
        await copied(bus, 1)
        again = target(bus)
        assert await again.kept() == plan
        assert await again.done(plan) == {1}
        await copied(bus, 0)
        assert await again.done(plan) == {0, 1}
        for one in (again, target(bus)):
            await one.finish(plan, S + 5)
        assert await told(bus) == [CopyDone(S, S + 5, True, "exact")], "it is told once"

    run(main, 1)


@pytest.mark.parametrize("kind", ["plan", "chunk"])
def test_what_somebody_else_wrote_there_stops_the_copy(kind: str) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        await target(bus).prepare(PLAN.tables, S)
        await bus.append(STREAM, [Outgoing(subjects.snap("f", kind), b'{"ts":')])
        read = target(bus).kept() if kind == "plan" else target(bus).done(PLAN)
        with pytest.raises(Stopped, match=f"{STREAM} holds what is of no copy") as raised:
            await read
        assert raised.value.hint == f"delete the stream {STREAM}"

    run(main, 1)


def test_the_json_document_null_is_not_sqls() -> None:
    """It is marked, as the stream marks it."""
    docs = CopiedTable("d", table("t", column("id", "int(11)"), column("j", "json"), key=("id",)))
    images = RowImages(stored(docs.structure)).of([(1, "null"), (2, None), (3, '"null"')])
    (body,) = bodies(docs, images, S)
    events = msgspec.json.decode(body, type=RowMessage).events
    assert [(one.after, one.b64) for one in events] == [
        ({"id": 1, "j": JSON_NULL}, ["j"]),
        ({"id": 2, "j": None}, []),
        ({"id": 3, "j": "null"}, []),
    ]
