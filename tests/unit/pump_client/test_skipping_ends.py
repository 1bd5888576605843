"""A record of what was skipped is a transaction of the client's own, for which nobody answers: none
is left between its phases by a client that ends in good order, or lives on. Virtual time."""

from __future__ import annotations

import asyncio

from tests.unit.pump_client.fakes import FakePump
from tests.unit.pump_client.test_skipping import Counter, Rig, play, transaction, until
from tidelog.pump_client import PumpClient
from tidelog_proto.binlog_pb2 import BinlogType, Prewrite


class Slow(Counter):
    """A registry that takes a while for what comes behind a Prewrite."""

    def __init__(self, seconds: float = 1.0) -> None:
        super().__init__()
        self.seconds = seconds

    async def fresh(self, at_least: int) -> int:
        if at_least:
            await asyncio.sleep(self.seconds)
        return await super().fresh(at_least)


async def between_phases(rig: Rig, client: PumpClient) -> tuple[FakePump, FakePump]:
    """The first Pump has the Prewrite of a record, and hears no end of it."""
    p1, p2 = rig.cluster.pumps["p1"], rig.cluster.pumps["p2"]
    rig.refuse()
    await transaction(client, 10)
    p1.judge = lambda one: "lost" if one.tp != Prewrite else None
    client.recover()
    await until(lambda: bool(p1.taken))
    return p1, p2


def test_an_orderly_end_waits_for_the_second_phase() -> None:
    rig = Rig("p1")
    rig.oracle = Slow()

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.take()
        client.recover()
        await until(lambda: any(one.tp == Prewrite for one in rig.cluster.journal))

    play(rig, body, disk=None)
    assert [BinlogType.Name(one.tp) for one in rig.cluster.journal] == ["Prewrite", "Commit"]


def test_what_no_next_life_knows_of_is_told_at_an_orderly_end() -> None:
    rig = Rig("p1")

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.take()
        await asyncio.sleep(2)
        await transaction(client, 20)
        client.recover()

    play(rig, body, disk=None)
    assert sum(record.transactions for record in rig.records) == 2


def test_what_was_skipped_beside_a_record_is_told_at_an_orderly_end_too() -> None:
    rig = Rig("p1")
    rig.oracle = Slow(3.0)

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        rig.take()
        client.recover()
        await until(lambda: any(one.tp == Prewrite for one in rig.cluster.journal))
        rig.refuse()
        await transaction(client, 20)
        rig.take()
        client.recover()

    play(rig, body, disk=None)
    assert sum(record.transactions for record in rig.records) == 2


def test_a_commit_is_sent_for_as_long_as_its_pump_is_a_member() -> None:
    """Longer than any other: nobody else could tell that Pump, once it is back."""
    rig = Rig("p1", "p2")

    async def body(client: PumpClient) -> None:
        p1, p2 = await between_phases(rig, client)
        record = p1.taken[0].start_ts
        rig.cluster.states["p1"] = "paused"
        p1.judge = lambda _: "lost"
        p2.judge = lambda _: None
        await asyncio.sleep(660)
        p1.judge = lambda _: None
        rig.cluster.states["p1"] = "online"
        await asyncio.sleep(60)
        assert p1.of(record) == ["Prewrite", "Commit"]

    play(rig, body)


def test_one_whose_pump_is_gone_for_good_is_told_anew() -> None:
    rig = Rig("p1", "p2")

    async def body(client: PumpClient) -> None:
        p1, p2 = await between_phases(rig, client)
        p1.judge = lambda _: "lost"
        del rig.cluster.states["p1"]
        p2.judge = lambda _: None
        await asyncio.sleep(700)
        assert [BinlogType.Name(one.tp) for one in p2.taken] == ["Prewrite", "Commit"]

    play(rig, body)


def test_one_whose_pump_has_a_tombstone_is_told_anew() -> None:
    """`offline --accept-loss`: the registry lists that Pump for ever."""
    rig = Rig("p1", "p2")

    async def body(client: PumpClient) -> None:
        p1, p2 = await between_phases(rig, client)
        p1.judge = lambda _: "lost"
        rig.cluster.states["p1"] = "offline"
        p2.judge = lambda _: None
        await asyncio.sleep(700)
        assert [BinlogType.Name(one.tp) for one in p2.taken] == ["Prewrite", "Commit"]

    play(rig, body)


def test_a_pump_that_may_hold_one_that_was_given_up_is_told_when_it_is_back() -> None:
    rig = Rig("p1", "p2")

    async def body(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        p1, p2 = rig.cluster.pumps["p1"], rig.cluster.pumps["p2"]
        p1.judge = lambda one: "silent" if one.tp == Prewrite else "lost"
        client.recover()
        await until(lambda: bool(p1.taken))
        record = p1.taken[0].start_ts
        p1.judge = p2.judge = lambda _: "lost"
        await asyncio.sleep(20)
        p2.judge = lambda _: None
        await asyncio.sleep(660)
        p1.judge = lambda _: None
        await asyncio.sleep(60)
        assert p1.of(record) == ["Prewrite", "Rollback"]

    play(rig, body)


def test_a_pump_with_a_tombstone_is_not_waited_for() -> None:
    """The next life tells all Pumps that the record is over; one of them is gone for good."""
    rig = Rig("p1", "p2")
    p1 = rig.cluster.pumps["p1"]

    async def first(client: PumpClient) -> None:
        await between_phases(rig, client)

    async def second(client: PumpClient) -> None:
        await asyncio.sleep(700)
        assert await client.flush(5)

    play(rig, first)
    p1.judge = lambda _: "lost"
    rig.cluster.states["p1"] = "offline"
    play(rig, second)


def test_the_next_life_tells_all_pumps_that_a_settled_registry_knows() -> None:
    rig = Rig("p1", "p2")
    p1 = rig.cluster.pumps["p1"]

    async def first(client: PumpClient) -> None:
        rig.refuse()
        await transaction(client, 10)
        p1.judge = lambda one: "lost" if one.tp != Prewrite else None
        client.recover()
        await until(lambda: bool(rig.cluster.journal))

    async def second(client: PumpClient) -> None:
        rig.take()
        await asyncio.sleep(3)
        rig.cluster.states["p1"] = "online"
        rig.cluster.settled = True
        await asyncio.sleep(60)

    play(rig, first)
    record = p1.taken[0].start_ts
    del rig.cluster.states["p1"]
    rig.cluster.settled = False
    play(rig, second)
    assert p1.of(record) == ["Prewrite", "Rollback"]
