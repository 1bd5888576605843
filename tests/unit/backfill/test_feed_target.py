"""The feed as a copy's target: what its stream tells a job that goes on, and one that begins."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, table
from tidelog import subjects
from tidelog.change_bodies import Joiner, rows_of
from tidelog.changes import RowMessage
from tidelog.downstream import Image
from tidelog.errors import Refused, Stopped
from tidelog.ports import Bus, Outgoing
from tidelog.rows.column import JSON_NULL
from tidelog.sim.world import World, run
from tidelog_backfill.snapshot import feed
from tidelog_backfill.snapshot.dump_source import DumpSource
from tidelog_backfill.snapshot.feed import CopyDone, FeedTarget, FeedWriter, bodies
from tidelog_backfill.snapshot.plan import Asked, Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.values import RowImages, stored

S = 100
TABLE = CopiedTable("d", table("t", column("id", "int(11)"), key=("id",)))
CHUNKS = [Chunk(0, 0), Chunk(1, 0)]
PLAN = SnapshotPlan(S, True, "exact", [TABLE], CHUNKS, Asked("f", "mysql://db", ("d.*",)))
LARGE = msgspec.structs.replace(PLAN, warnings=["w" * 999] * 999)
STREAM = subjects.snap_stream("f")


def target(world: World) -> FeedTarget:
    """Each connection is another one."""

    async def connected() -> Any:
        return world.ports(f"copy-{len(world.nodes)}").bus

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
        first = target(world)
        assert await first.kept() is None, "there is no stream yet"
        assert await first.done(plan) == frozenset()
        await first.prepare(plan.tables, S)
        assert await first.kept() is None, "a stream without a plan"
        await first.keep(plan)
        await copied(bus, 1)
        again = target(world)
        assert await again.kept() == plan
        assert await again.done(plan) == {1}
        await copied(bus, 0)
        assert await again.done(plan) == {0, 1}
        for one in (again, target(world)):
            await one.finish(plan, S + 5)
        assert await told(bus) == [CopyDone(S, S + 5, True, "exact")], "it is told once"

    run(main, 1)


def test_nothing_is_open_while_a_copy_is_planned() -> None:
    """A driver that asks for minutes lets nobody answer the server, which closes a connection."""
    opened: list[Any] = []

    async def main(world: World) -> None:
        async def connected() -> Any:
            opened.append(world.ports(f"copy-{len(world.nodes)}").bus)
            return opened[-1]

        way: Any = SimpleNamespace(feed="f", connected=connected)
        copy = FeedTarget(way)
        assert await copy.kept() is None
        await copy.prepare(PLAN.tables, S)
        await copy.keep(PLAN)
        assert await copy.done(PLAN) == frozenset()
        await copy.finish(PLAN, S)
        assert len(opened) == 5
        assert all(bus._closed for bus in opened)

    run(main, 1)


def test_two_that_begin_at_once_write_one_copy() -> None:
    """Both found no plan. Chunks are told by number: those of the other plan have other rows."""
    later = msgspec.structs.replace(PLAN, ts=S + 1)

    async def main(world: World) -> None:
        first, second = target(world), target(world)
        assert await first.kept() is None
        assert await second.kept() is None
        await first.prepare(PLAN.tables, S)
        await first.keep(PLAN)
        await second.prepare(later.tables, S + 1)
        with pytest.raises(Refused, match=f"another backfill writes the stream {STREAM}"):
            await second.keep(later)
        await first.keep(PLAN)  # as after an answer that was lost
        assert await second.kept() == PLAN

    run(main, 1)


@pytest.mark.parametrize("kind", ["plan", "chunk"])
def test_what_somebody_else_wrote_there_stops_the_copy(kind: str) -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        await target(world).prepare(PLAN.tables, S)
        await bus.append(STREAM, [Outgoing(subjects.snap("f", kind), b'{"ts":')])
        read = target(world).kept() if kind == "plan" else target(world).done(PLAN)
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


PIECE, MOST = 2048, 100
WIDE = CopiedTable(
    "d", table("w", column("id", "int(11)"), column("body", "longtext"), key=("id",))
)


async def put(bus: Any, row: int, size: int) -> None:
    writer = FeedWriter(bus, "f", WIDE, row, S)
    await writer.write([Image({"id": row, "body": "x" * size})])


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fragments, and how many a batch may have."""
    monkeypatch.setattr(feed, "MESSAGE_BYTES", PIECE)
    monkeypatch.setattr(feed, "BATCH_MESSAGES", MOST)


@pytest.mark.usefixtures("small")
def test_two_tasks_fragments_never_come_between_each_others() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        await target(world).prepare([WIDE], S)
        ids, size = range(3), (MOST - 1) * PIECE
        await asyncio.gather(*(put(world.ports().bus, one, size) for one in ids))
        reader = await bus.read(STREAM, start_seq=1, subjects=(subjects.snap("f", "row.>"),))
        joiner = Joiner()
        found: list[int] = []
        while len(found) < len(ids):
            for message in await reader.next_batch(500, 1.0):
                if (whole := joiner.whole(message)) is not None:
                    found += [one.after["id"] for one in rows_of(whole).events if one.after]
        await reader.close()
        assert sorted(found) == list(ids)

    run(main, 1)


@pytest.mark.usefixtures("small")
def test_a_row_that_one_batch_can_not_take_is_refused() -> None:
    async def main(world: World) -> None:
        bus = world.ports().bus
        await target(world).prepare([WIDE], S)
        before = await bus.stream_state(STREAM)
        with pytest.raises(Refused, match=r"snap\.f\.row\.d\.w: \d+ bytes of JSON") as refused:
            await put(bus, 1, MOST * PIECE)
        assert "leave the table" in refused.value.hint
        assert await bus.stream_state(STREAM) == before

    run(main, 1)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("sql", "INSERT INTO t VALUES (1,'a','1.50'),(2,'0123','7');\n"),
        ("csv", '1,"a","1.50"\n2,"0123","7"\n'),
    ],
)
def test_a_text_of_digits_in_a_dump_is_told_as_any_other(
    tmp_path: Path, kind: str, rows: str
) -> None:
    columns = "id INT PRIMARY KEY, v VARCHAR(9), d DECIMAL(9,2)"
    (tmp_path / "d.t-schema.sql").write_text(f"CREATE TABLE t ({columns});", encoding="utf-8")
    (tmp_path / f"d.t.0.{kind}").write_text(rows, encoding="utf-8")
    source = DumpSource(str(tmp_path))
    (one,) = source.found((), S).tables
    (chunk,) = source.chunks([one], 10, S)
    images = RowImages(stored(one.structure))
    with source.read(one, chunk, S, 10) as batches:
        found = [body for batch in batches for body in bodies(one, images.of(batch), S)]
    (message,) = (msgspec.json.decode(body, type=RowMessage) for body in found)
    told = [event.after for event in message.events]
    assert told == [{"id": 1, "v": "a", "d": "1.50"}, {"id": 2, "v": "0123", "d": "7"}]
