"""The PumpClient's rules on the simulated bus and on a real server; Pumps and registry are fakes.

Nothing here asserts how long something takes; what must not happen earlier is told by order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.conformance.places import Place, until
from tests.unit.pump_client.fakes import Dice, FakeCluster
from tidelog.errors import DeadlineExceeded, DiskFull, NotOnline, Overloaded
from tidelog.messages import OFFLINE, ONLINE, PAUSED
from tidelog.pump_client import NoPump, OutcomeUnknown, PumpClient
from tidelog.pump_client.routing.strategy import mixed
from tidelog_proto.binlog_pb2 import Binlog, BinlogType, Commit, Prewrite, Rollback

Body = Callable[[PumpClient, FakeCluster], Awaitable[None]]


def play(
    place: Place, body: Body, *nodes: str, scores: Any = (), zones: Any = (), **settings: Any
) -> None:
    """Run `body` with a client of a cluster of these Pumps; each has a connection of its own."""

    async def scenario(place: Place) -> None:
        cluster = FakeCluster(await place.bus(), *nodes, name=place.name)
        cluster.scores.update(scores)
        cluster.labels.update(zones)
        await cluster.start()
        options: dict[str, Any] = {"write_timeout_s": 2.0, "try_timeout_s": 0.5} | settings
        async with PumpClient(
            await place.bus(), place.name, 9, place.clock(), Dice(), **options
        ) as client:
            await until(lambda: client.status()["online"] == list(nodes))
            await body(client, cluster)

    place.run(scenario)


def prewrite(start_ts: int) -> Binlog:
    return Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=b"k", prewrite_value=b"v")


def commit(start_ts: int) -> Binlog:
    return Binlog(tp=Commit, start_ts=start_ts, commit_ts=start_ts + 1)


async def write_all(client: PumpClient, binlogs: list[Binlog]) -> None:
    async with asyncio.TaskGroup() as group:
        for binlog in binlogs:
            group.create_task(client.write(binlog))


FOUR = ("p1", "p2", "p3", "p4")


def test_range_takes_the_pumps_in_turn(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await write_all(client, [prewrite(n) for n in range(1, 2001)])
        assert [len(pump.taken) for pump in cluster.pumps.values()] == [500] * 4

    play(place, body, *FOUR)


def test_hash_takes_the_same_pump_for_a_start_ts(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await write_all(client, [prewrite(n << 18) for n in range(1, 2001)])
        for number, pump in enumerate(cluster.pumps.values()):
            assert {mixed(b.start_ts) % 4 for b in pump.taken} == {number}

    play(place, body, *FOUR, strategy="hash")


def test_score_takes_them_as_often_as_they_say(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await write_all(client, [prewrite(n) for n in range(1, 2001)])
        assert [len(pump.taken) for pump in cluster.pumps.values()] == [200, 400, 600, 800]

    scores = {"p1": 10, "p2": 20, "p3": 30, "p4": 40}
    play(place, body, *FOUR, scores=scores, strategy="score")


def test_commit_and_rollback_follow_their_prewrite(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await write_all(client, [prewrite(n) for n in range(100)])
        ends = [commit(n) if n % 2 else Binlog(tp=Rollback, start_ts=n) for n in range(100)]
        await write_all(client, ends)
        assert await client.flush(30)
        for start_ts in range(100):
            told = sorted(pump.of(start_ts) for pump in cluster.pumps.values())
            end = "Commit" if start_ts % 2 else "Rollback"
            assert told == [[], [], ["Prewrite", end]]
        assert client.status()["open_transactions"] == 0

    play(place, body, "p1", "p2", "p3")


def test_pumps_with_the_clients_labels_come_first(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await write_all(client, [prewrite(n) for n in range(40)])
        assert [len(pump.taken) for pump in cluster.pumps.values()] == [0, 40]
        cluster.pumps["p2"].judge = lambda b: DiskFull("full") if b.tp == Prewrite else None
        await client.write(prewrite(50))
        assert client.pump_of(50) == "p1"

    zones = {"p1": {"zone": "b"}, "p2": {"zone": "a"}}
    play(place, body, "p1", "p2", zones=zones, labels={"zone": "a"})


def test_a_refusal_moves_on_and_says_who_refused_what(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].judge = lambda b: DiskFull("full") if b.tp == Prewrite else None
        await write_all(client, [prewrite(n) for n in range(10)])
        assert len(cluster.pumps["p2"].taken) == 10
        cluster.pumps["p2"].judge = lambda b: NotOnline("paused") if b.tp == Prewrite else None
        with pytest.raises(NoPump) as caught:
            await client.write(prewrite(20))
        assert caught.value.definite
        assert {n: type(e) for n, e in caught.value.refusals.items()} == {
            "p1": DiskFull,
            "p2": NotOnline,
        }

    play(place, body, "p1", "p2")


def test_an_overloaded_pump_stays_available(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].judge = lambda b: Overloaded("full") if b.tp == Prewrite else None
        await write_all(client, [prewrite(n) for n in range(4)])
        assert client.status()["available"] == ["p1", "p2"]
        assert len(cluster.pumps["p2"].taken) == 4

    play(place, body, "p1", "p2")


def test_a_copy_is_abandoned_only_when_the_commit_is_acked(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        for pump in cluster.pumps.values():
            pump.judge = lambda b: "silent" if b.tp == Prewrite else None
        silent = asyncio.create_task(client.write(prewrite(1)))
        await until(lambda: len(cluster.journal) == 1)
        first = next(pump for pump in cluster.pumps.values() if pump.taken)
        others = [pump for pump in cluster.pumps.values() if pump is not first]
        refused = 0

        def not_yet(binlog: Binlog) -> NotOnline | None:
            nonlocal refused
            refused += binlog.tp == Commit
            return NotOnline("not now") if binlog.tp == Commit else None

        for pump in others:
            pump.judge = not_yet
        await silent
        await client.write(commit(1))
        await until(lambda: refused >= 2)
        kinds = [BinlogType.Name(b.tp) for b in cluster.journal]
        assert kinds == ["Prewrite", "Prewrite"], "a Rollback before the Commit's ack"
        for pump in others:
            pump.judge = lambda _: None
        assert await client.flush(30)
        kinds = [BinlogType.Name(b.tp) for b in cluster.journal]
        assert kinds == ["Prewrite", "Prewrite", "Commit", "Rollback"]
        assert first.of(1) == ["Prewrite", "Rollback"]

    play(place, body, "p1", "p2", "p3")


def test_an_unknown_outcome_is_said_and_rolled_back_everywhere(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        for pump in cluster.pumps.values():
            pump.judge = lambda b: "silent" if b.tp == Prewrite else None
        with pytest.raises(OutcomeUnknown) as caught:
            await client.write(prewrite(1))
        assert not caught.value.definite
        await client.write(Binlog(tp=Rollback, start_ts=1), wait=True)
        assert [pump.of(1)[-1] for pump in cluster.pumps.values()] == ["Rollback", "Rollback"]

    play(place, body, "p1", "p2")


def test_a_pump_that_failed_is_probed_and_used_again(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        pump = cluster.pumps["p1"]
        pump.judge = lambda b: DiskFull("full")
        await write_all(client, [prewrite(1), prewrite(2)])
        await until(lambda: pump.probes > 0)
        pump.judge = lambda _: None
        await until(lambda: client.status()["available"] == ["p1", "p2"])
        await write_all(client, [prewrite(3), prewrite(4)])
        assert len(pump.taken) > 0

    play(place, body, "p1", "p2")


def test_events_change_the_list(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.states |= {"p1": PAUSED}
        await cluster.announce()
        await until(lambda: client.status()["online"] == ["p2"])
        cluster.states |= {"p1": ONLINE, "p2": OFFLINE}
        await cluster.announce()
        await until(lambda: client.status()["online"] == ["p1"])

    play(place, body, "p1", "p2")


def test_a_commit_waits_for_its_pump_to_come_back(place: Place) -> None:
    async def scenario(place: Place) -> None:
        cluster = FakeCluster(await place.bus(), "p1", "p2", name=place.name)
        await cluster.start()
        bus = await place.bus()
        async with PumpClient(bus, place.name, 9, place.clock(), Dice()) as client:
            await until(lambda: client.status()["online"] == ["p1", "p2"])
            await client.write(prewrite(1))
            node = client.pump_of(1)
            pump = cluster.pumps[node]
            pump.judge = lambda _: "lost"
            await client.write(commit(1))
            cluster.states[node] = OFFLINE
            await cluster.announce()
            await until(lambda: node not in client.status()["online"])  # type: ignore[operator]
            assert client.unacked == 1
            cluster.states[node], cluster.hosts[node] = ONLINE, "10.0.0.9:8250"
            pump.judge = lambda _: None
            await cluster.announce()
            assert await client.flush(30)
            assert pump.of(1) == ["Prewrite", "Commit"]

    place.run(scenario)


def test_deadlines_say_what_is_known(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        pump = cluster.pumps["p1"]
        pump.judge = lambda b: "silent"
        with pytest.raises(OutcomeUnknown):
            await client.write(prewrite(1), deadline_s=0.2)
        pump.judge = lambda b: None
        await client.write(Binlog(tp=Rollback, start_ts=1), wait=True)
        await client.write(prewrite(2))
        pump.judge = lambda b: "lost"
        with pytest.raises(DeadlineExceeded):
            await client.write(commit(2), wait=True, deadline_s=0.2)
        assert client.unacked == 1, "it is still being tried"
        pump.judge = lambda b: None
        assert await client.flush(30)
        assert pump.of(2) == ["Prewrite", "Commit"]
        pump.judge = lambda b: NotOnline("paused")
        with pytest.raises(NoPump):
            await client.write(prewrite(3), deadline_s=0.2)

    play(place, body, "p1", try_timeout_s=5.0)


def test_a_cancelled_writer_loses_nothing(place: Place) -> None:
    """Its Prewrite can be rolled back; its Commit, once accepted, is sent."""

    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        pump = cluster.pumps["p1"]
        pump.judge = lambda b: "silent" if b.tp == Prewrite else None
        writer = asyncio.create_task(client.write(prewrite(1)))
        await until(lambda: bool(pump.taken))
        writer.cancel()
        await asyncio.wait([writer])
        await client.write(Binlog(tp=Rollback, start_ts=1), wait=True)
        assert pump.of(1) == ["Prewrite", "Rollback"]
        pump.judge = lambda b: "lost" if b.tp == Commit else None
        await until(lambda: client.status()["available"] == ["p1"])
        await client.write(prewrite(2))
        writer = asyncio.create_task(client.write(commit(2), wait=True))
        await until(lambda: client.unacked == 1)
        writer.cancel()
        await asyncio.wait([writer])
        pump.judge = lambda _: None
        assert await client.flush(30)
        assert pump.of(2) == ["Prewrite", "Commit"]

    play(place, body, "p1", try_timeout_s=5.0)


def test_a_server_that_restarts_loses_no_commit(place: Place) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await write_all(client, [prewrite(n) for n in range(50)])
        ends = asyncio.create_task(write_all(client, [commit(n) for n in range(50)]))
        await place.restart_server()
        await ends
        await client.write(prewrite(60))
        await client.write(commit(60))
        assert await client.flush(60)
        for start_ts in (*range(50), 60):
            ended = [pump.of(start_ts) for pump in cluster.pumps.values()]
            assert sum("Commit" in one for one in ended) == 1

    play(place, body, "p1", "p2", write_timeout_s=30.0)
