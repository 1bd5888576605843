"""The client against Pumps that refuse, fall silent, come and go. Virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tests.unit.pump_client.fakes import Dice, FakeCluster, LoopClock, MemoryBus
from tidelog.errors import (
    DiskFull,
    ForeignCluster,
    IoFailed,
    NotOnline,
    Overloaded,
    TidelogError,
)
from tidelog.messages import OFFLINE, ONLINE, PAUSED
from tidelog.pump_client import NoPump, NotPrewritten, OutcomeUnknown, PumpClient
from tidelog.pump_client.delivery.way import NatsWay
from tidelog.pump_client.routing.strategy import mixed
from tidelog.sim.loop import SimLoop, run_loop
from tidelog_proto.binlog_pb2 import Binlog, Commit, Prewrite, Rollback

Body = Callable[[PumpClient, FakeCluster], Awaitable[None]]


def play(body: Body, *nodes: str, strategy: str = "hash", seed: int = 1) -> None:
    """Run `body` with a client of a cluster of these Pumps."""

    async def main() -> None:
        bus = MemoryBus()
        cluster = FakeCluster(bus, *nodes)
        await cluster.start()
        async with PumpClient(
            cluster.port, "c", 9, LoopClock(), Dice(), strategy=strategy
        ) as client:
            if nodes:
                await until(lambda: len(client.status()["online"]) == len(nodes))  # type: ignore[arg-type]
            await body(client, cluster)

    run_loop(SimLoop(seed), main())


async def until(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 (any condition, virtual time)
            await asyncio.sleep(0.01)


def prewrite(start_ts: int) -> Binlog:
    return Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=b"k", prewrite_value=b"v")


def commit(start_ts: int) -> Binlog:
    return Binlog(tp=Commit, start_ts=start_ts, commit_ts=start_ts + 1)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_what_goes_together_fits_the_bus() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        assert isinstance(cluster.bus, MemoryBus)
        cluster.bus.max_payload = 64 << 10
        value = bytes(2 << 10)
        many = [
            Binlog(tp=Prewrite, start_ts=start_ts, prewrite_key=b"k", prewrite_value=value)
            for start_ts in range(10, 110)
        ]
        await asyncio.gather(*map(client.write, many))
        (pump,) = cluster.pumps.values()
        assert sum(pump.sizes) == 100
        assert max(pump.sizes) > 10

    play(body, "p1")


def test_commit_and_rollback_follow_their_prewrite() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        for start_ts in range(10, 40):
            await client.write(prewrite(start_ts).SerializeToString())
        for start_ts in range(10, 40):
            end = commit(start_ts) if start_ts % 2 else Binlog(tp=Rollback, start_ts=start_ts)
            await client.write(end)
        assert await client.flush(5)
        assert client.status()["open_transactions"] == 0
        for start_ts in range(10, 40):
            told = sorted(p.of(start_ts) for p in cluster.pumps.values())
            assert told == [[], [], ["Prewrite", "Commit" if start_ts % 2 else "Rollback"]]

    play(body, "p1", "p2", "p3", strategy="range")


def test_range_takes_pumps_in_turn_and_hash_by_start_ts() -> None:
    async def in_turn(client: PumpClient, cluster: FakeCluster) -> None:
        for start_ts in range(30):
            await client.write(prewrite(start_ts))
        assert [len(p.taken) for p in cluster.pumps.values()] == [10, 10, 10]

    async def by_hash(client: PumpClient, cluster: FakeCluster) -> None:
        nodes = list(cluster.pumps)
        for start_ts in range(30):
            await client.write(prewrite(start_ts))
            assert client.pump_of(start_ts) == nodes[mixed(start_ts) % 3]
        assert all(pump.taken for pump in cluster.pumps.values())

    play(in_turn, "p1", "p2", "p3", strategy="range")
    play(by_hash, "p1", "p2", "p3", strategy="hash")


def test_what_callers_have_waiting_travels_together() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        pump = cluster.pumps["p1"]
        pump.delay_s = 0.01
        async with asyncio.TaskGroup() as group:
            for start_ts in range(1000):
                group.create_task(client.write(prewrite(start_ts)))
        assert len(pump.taken) == 1000
        assert len(pump.sizes) <= 10

    play(body, "p1")


def test_a_message_stays_below_512_kib() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        pump = cluster.pumps["p1"]
        async with asyncio.TaskGroup() as group:
            for start_ts in range(20):
                value = b"x" * (100 << 10)
                binlog = Binlog(tp=Prewrite, start_ts=start_ts, prewrite_value=value)
                group.create_task(client.write(binlog))
        assert pump.sizes == [5] * 4

    play(body, "p1")


@pytest.mark.parametrize("error", [NotOnline("paused"), DiskFull("full")])
def test_a_definite_refusal_moves_on_at_once(error: TidelogError) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].judge = lambda b: error if b.tp == Prewrite else None
        started = now()
        await client.write(prewrite(2))  # its hash is even: p1 first
        assert now() - started < 0.05
        assert client.pump_of(2) == "p2"
        assert client.status()["available"] == ["p2"]

    play(body, "p1", "p2")


def test_a_foreign_cluster_is_final() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        for pump in cluster.pumps.values():
            pump.judge = lambda _: ForeignCluster("9 is not 8")
        with pytest.raises(ForeignCluster):
            await client.write(prewrite(2))
        assert client.status()["open_transactions"] == 0

    play(body, "p1", "p2")


def test_nobody_online_is_a_definite_failure_after_the_write_timeout() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        started = now()
        with pytest.raises(NoPump) as caught:
            await client.write(prewrite(2))
        assert caught.value.definite
        assert 15 <= now() - started < 16

    play(body)


def test_a_silent_pump_costs_one_try_and_then_gets_a_rollback_after_the_commit() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        silent, other = cluster.pumps["p1"], cluster.pumps["p2"]
        silent.judge = lambda _: "silent"
        started = now()
        await client.write(prewrite(2))
        assert 5 <= now() - started < 6
        assert silent.of(2) == ["Prewrite"]
        assert client.pump_of(2) == "p2"
        silent.judge = lambda _: None
        other.judge = lambda b: NotOnline("not now") if b.tp == Commit else None
        await client.write(commit(2))
        await asyncio.sleep(5)
        assert silent.of(2) == ["Prewrite"], "a Rollback before the Commit's ack"
        other.judge = lambda _: None
        assert await client.flush(60)
        assert other.of(2) == ["Prewrite", "Commit"]
        assert silent.of(2) == ["Prewrite", "Rollback"]

    play(body, "p1", "p2")


def test_a_pump_that_has_left_needs_no_rollback_and_holds_no_flush_up() -> None:
    """Seed 78: a Pump was tried with a Prewrite, then went offline; its Rollback was tried again
    for ten minutes."""

    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        silent = cluster.pumps["p1"]
        silent.judge = lambda _: "silent"
        await client.write(prewrite(2))
        assert client.pump_of(2) == "p2"
        silent.judge = lambda _: NotOnline("this Pump is offline and has nothing open")
        await client.write(commit(2))
        assert await client.flush(5)
        assert silent.of(2) == ["Prewrite"], "it took no Rollback"

    play(body, "p1", "p2")


def test_writers_queued_at_a_silent_pump_go_elsewhere_together() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].judge = lambda _: "lost"
        started = now()
        value = b"x" * (200 << 10)
        async with asyncio.TaskGroup() as group:
            for start_ts in range(0, 40, 2):
                group.create_task(
                    client.write(Binlog(tp=Prewrite, start_ts=start_ts, prewrite_value=value))
                )
        assert now() - started < 6
        assert len(cluster.pumps["p2"].taken) == 20

    play(body, "p1", "p2")


def test_an_unknown_outcome_is_said_and_rolled_back_everywhere() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        for pump in cluster.pumps.values():
            pump.judge = lambda _: "silent"
        with pytest.raises(OutcomeUnknown) as caught:
            await client.write(prewrite(2))
        assert not caught.value.definite
        with pytest.raises(NotPrewritten):
            await client.write(commit(2))
        for pump in cluster.pumps.values():
            pump.judge = lambda _: None
        await client.write(Binlog(tp=Rollback, start_ts=2), wait=True)
        assert client.unacked == 0, "it waited for both"
        assert [p.of(2)[-1] for p in cluster.pumps.values()] == ["Rollback", "Rollback"]

    play(body, "p1", "p2")


def test_an_indefinite_refusal_is_an_unknown_outcome() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].judge = lambda _: IoFailed("fsync")
        with pytest.raises(OutcomeUnknown):
            await client.write(prewrite(2))

    play(body, "p1")


def test_a_commit_is_tried_until_its_pump_is_back() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await client.write(prewrite(2))
        cluster.pumps["p1"].judge = lambda _: "lost"
        await client.write(commit(2))
        await asyncio.sleep(120)
        assert client.unacked == 1
        cluster.pumps["p1"].judge = lambda _: None
        assert await client.flush(20)
        assert cluster.pumps["p1"].of(2) == ["Prewrite", "Commit"]
        assert cluster.pumps["p2"].taken == []

    play(body, "p1", "p2")


def test_a_commit_is_given_up_after_ten_minutes() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await client.write(prewrite(2))
        cluster.pumps["p1"].judge = lambda _: "lost"
        started = now()
        with pytest.raises(TidelogError):
            await client.write(commit(2), wait=True)
        assert 600 <= now() - started < 620
        assert client.unacked == 0

    play(body, "p1")


def test_a_pump_that_failed_is_probed_and_used_again() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].judge = lambda b: DiskFull("full")
        await client.write(prewrite(2))
        assert client.status()["available"] == ["p2"]
        await until(lambda: cluster.pumps["p1"].probes > 0)
        cluster.pumps["p1"].judge = lambda _: None
        await until(lambda: client.status()["available"] == ["p1", "p2"], 31)
        await client.write(prewrite(4))
        assert client.pump_of(4) == "p1"

    play(body, "p1", "p2")


@pytest.mark.parametrize("error", [Overloaded("busy"), ForeignCluster("9 is not 8")])
def test_a_pump_that_refuses_its_probes_is_probed_less_and_less(error: TidelogError) -> None:
    """Whatever it says: each 0.1 s from every client is no way to treat one that is overloaded."""

    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        pump = cluster.pumps["p1"]
        pump.judge, pump.probe_refusal = lambda _: DiskFull("full"), error
        await client.write(prewrite(2))
        await asyncio.sleep(60)
        assert 5 <= pump.probes <= 8
        assert client.status()["available"] == ["p2"]
        pump.probe_refusal = None
        await until(lambda: client.status()["available"] == ["p1", "p2"], 31)

    play(body, "p1", "p2")


def test_the_ways_to_a_pump_that_is_gone_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[str] = []

    async def close(way: NatsWay) -> None:
        closed.append(way._node)

    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        del cluster.states["p1"]
        await cluster.announce()
        await until(lambda: client.status()["online"] == ["p2"])
        await until(lambda: closed == ["p1"])

    monkeypatch.setattr(NatsWay, "close", close)
    play(body, "p1", "p2")
    assert closed == ["p1", "p2"], "the end of the client closes the rest"


def test_registry_events_change_the_list_at_once() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.states["p1"] = PAUSED
        await cluster.announce()
        await until(lambda: client.status()["available"] == ["p2"], 0.1)
        cluster.states["p1"] = ONLINE
        cluster.states["p2"] = OFFLINE
        await cluster.announce()
        await until(lambda: client.status()["available"] == ["p1"], 0.1)

    play(body, "p1", "p2")


def test_a_paused_pump_still_gets_the_commits_of_its_prewrites() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await client.write(prewrite(2))
        cluster.states["p1"] = PAUSED
        await cluster.announce()
        await until(lambda: client.status()["available"] == ["p2"], 0.1)
        await client.write(commit(2), wait=True)
        assert cluster.pumps["p1"].of(2) == ["Prewrite", "Commit"]

    play(body, "p1", "p2")


def test_a_cancelled_writer_leaves_a_prewrite_that_its_rollback_finds() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        cluster.pumps["p1"].delay_s = 1.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await client.write(prewrite(2))
        await client.write(Binlog(tp=Rollback, start_ts=2))
        assert await client.flush(10)
        assert cluster.pumps["p1"].of(2) == ["Prewrite", "Rollback"]

    play(body, "p1")


def test_a_rollback_that_is_cancelled_still_reaches_every_pump_that_was_tried() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        for pump in cluster.pumps.values():
            pump.judge = lambda b: "silent" if b.tp == Prewrite else None
        with pytest.raises(OutcomeUnknown):
            await client.write(prewrite(2))
        for pump in cluster.pumps.values():
            pump.delay_s = 1.0
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await client.write(Binlog(tp=Rollback, start_ts=2), wait=True)
        assert await client.flush(60)
        assert [p.of(2)[-1] for p in cluster.pumps.values()] == ["Rollback"] * 3

    play(body, "p1", "p2", "p3")


@pytest.mark.parametrize("room", [1 << 16, 0])
def test_one_that_is_abandoned_is_rolled_back_by_whom_it_reached_if_there_is_room(
    room: int,
) -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        await client.write(prewrite(2))
        await client.write(prewrite(3))
        client._backlog._limit = room
        await client.write(commit(2))  # alone, it gets in
        client.abandon(3)
        assert client.unacked == (2 if room else 1)
        assert await client.flush(10)
        ends = sorted(p.of(3)[1:] for p in cluster.pumps.values())
        assert ends == ([[], ["Rollback"]] if room else [[], []])
        assert client.status()["open_transactions"] == 0

    play(body, "p1", "p2")


def test_a_commit_that_finds_no_room_in_time_was_not_accepted() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        client._backlog._limit = 1
        await client.write(prewrite(2))
        await client.write(prewrite(3))
        cluster.pumps["p1"].judge = lambda _: "lost"
        await client.write(commit(2))
        with pytest.raises(Overloaded):
            await client.write(commit(3), deadline_s=3)
        assert client.pump_of(3) == "p1", "it may be written again"
        cluster.pumps["p1"].judge = lambda _: None
        await client.write(commit(3), wait=True)
        assert cluster.pumps["p1"].of(3) == ["Prewrite", "Commit"]

    play(body, "p1")


def test_the_last_chance_is_a_pump_that_was_held_for_unavailable() -> None:
    """It would take binlogs from 15 s on, and its next probe is not due yet."""

    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        started = now()
        cluster.pumps["p1"].judge = lambda _: DiskFull("full") if now() - started < 15 else None
        cluster.pumps["p2"].judge = lambda _: Overloaded("busy")
        await client.write(prewrite(2))
        assert client.pump_of(2) == "p1"
        assert 15 <= now() - started < 15.3

    play(body, "p1", "p2")


def test_the_close_waits_for_commits_on_their_way() -> None:
    bus = MemoryBus()
    cluster = FakeCluster(bus, "p1")

    async def main() -> None:
        await cluster.start()
        async with PumpClient(cluster.port, "c", 9, LoopClock(), Dice()) as client:
            await client.write(prewrite(1))
            cluster.pumps["p1"].delay_s = 2.0
            await client.write(commit(1))

    run_loop(SimLoop(3), main())
    assert cluster.pumps["p1"].of(1) == ["Prewrite", "Commit"]


def test_an_error_in_the_block_comes_out_as_itself() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError):
        play(body, "p1")
