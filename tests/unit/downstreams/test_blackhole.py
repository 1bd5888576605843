"""The dry run."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from tests.unit.downstreams.shapes import column, created, ddl, deleted, table, updated
from tidelog.changes import Event
from tidelog.downstream import Checkpoint, DownstreamOptions, Image, TableShare, Work
from tidelog.downstreams import metrics, open_downstream
from tidelog.errors import Stopped

T = table("t", column("id", "int(11)", nullable=False), column("v", "longtext"), key=("id",))
KEYLESS = msgspec.structs.replace(T, name="k", keys=(), key_columns=())
A, B = {"id": 1, "v": "a"}, {"id": 1, "v": "b"}


def run(*shares: TableShare) -> float:
    """How many statements they make."""

    async def scenario() -> None:
        downstream = open_downstream(DownstreamOptions(url="blackhole:", lanes=3))
        opened = await downstream.open("f")
        assert (opened.checkpoint, opened.lanes, opened.atomic) == (None, 3, False)
        lane = await downstream.lane(2)
        await lane.apply(Work(list(shares)))
        await lane.close()
        await downstream.close()

    before = made()
    asyncio.run(scenario())
    return made() - before


def made() -> float:
    (metric,) = metrics.DRY_STATEMENTS.collect()
    return next(one.value for one in metric.samples if one.name.endswith("_total"))


def test_every_change_becomes_its_statement() -> None:
    net = TableShare("d", T, [Image({"id": 2})], [Image(A)], [Image({"id": 3, "v": None})])
    events: list[Event] = [created(A), updated(A, B), deleted(B)]
    assert run(net, TableShare("d", KEYLESS, events=events)) == 6


def test_a_value_that_is_none_of_its_type_and_a_row_that_no_packet_takes_are_typed_stops() -> None:
    for image in ({"id": ["?"], "v": "a"}, {"id": 1, "v": "x" * (16 << 20)}):
        with pytest.raises(Stopped):
            run(TableShare("d", T, inserts=[Image(image)]))


def test_the_checkpoint_lasts_as_long_as_the_process() -> None:
    async def scenario() -> None:
        downstream = open_downstream(DownstreamOptions(url="blackhole:"))
        await downstream.open("f")
        await downstream.save_checkpoint(Checkpoint(7))
        await downstream.close()
        opened = await downstream.open("f")
        assert opened.checkpoint == Checkpoint(7)
        assert await downstream.apply_ddl(ddl("create_table", (None, T)), Checkpoint(8)) == []
        assert (await downstream.open("f")).checkpoint == Checkpoint(8)
        assert (await downstream.rule("d", T)).replaceable

    asyncio.run(scenario())
