"""A transaction that ends while the coordinator is dead, or so busy that its mailbox is full."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import pytest

from tidelog.actor import Actor, Cell, Ref
from tidelog.errors import ActorStopped, Overloaded, Unavailable
from tidelog.pump_client import CommitUnknown, NoPump, two_phase
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.coordinator import CoordinatorMessage, Decide, Question
from tidelog.pump_client.decisions.decisions import Decisions
from tidelog.pump_client.decisions.journal import Memory
from tidelog.pump_client.two_phase import Upstream
from tidelog.real.clock import RealClock
from tidelog_proto.binlog_pb2 import Binlog, Prewrite, Rollback


class Pumps:
    """Takes what it is given; `refusal` of a Prewrite, `full` for a Rollback, and it hangs while
    `reachable` isn't set."""

    def __init__(self) -> None:
        self.taken: list[Binlog] = []
        self.abandoned: list[int] = []
        self.refusal: Exception | None = None
        self.full = False
        self.reachable = asyncio.Event()
        self.asked = asyncio.Event()

    async def write(self, binlog: Binlog, *, deadline_s: float | None = None) -> None:
        self.asked.set()
        await self.reachable.wait()
        if binlog.tp == Prewrite and self.refusal is not None:
            raise self.refusal
        if self.full and binlog.tp == Rollback:
            raise Overloaded("no way is free")
        self.taken.append(binlog)

    def abandon(self, start_ts: int) -> None:
        self.abandoned.append(start_ts)


class Ten:
    """Timestamps."""

    async def fresh(self, at_least: int = 0) -> int:
        return at_least + 10


class Crashes(Actor[CoordinatorMessage]):
    async def on_batch(self, batch: list[CoordinatorMessage]) -> None:
        raise RuntimeError("made up")


class Busy(Actor[CoordinatorMessage]):
    """Takes one message, and crashes with it when told to; another one fills its mailbox."""

    max_count = batch_count = 1

    def __init__(self) -> None:
        self.taken: list[CoordinatorMessage] = []
        self.crash = asyncio.Event()

    async def on_batch(self, batch: list[CoordinatorMessage]) -> None:
        self.taken += batch
        await self.crash.wait()
        raise RuntimeError("made up")


def upstream(
    pumps: Pumps,
    coordinator: Ref[CoordinatorMessage],
    room: int = 1,
    commit_timeout_s: float = 60,
) -> Upstream:
    return Upstream(
        client=cast(PumpClient, pumps),
        clock=RealClock(),
        oracle=cast(Any, Ten()),
        coordinator=coordinator,
        decisions=Decisions(),
        schema=Ref("schema"),
        room=asyncio.Semaphore(room),
        keeper=Memory("me"),
        commit_timeout_s=commit_timeout_s,
    )


def test_a_cancellation_stays_one() -> None:
    async def main() -> None:
        pumps = Pumps()
        between = upstream(pumps, Ref("coordinator"))
        work = asyncio.ensure_future(between.commit(Binlog(start_ts=1)))
        await pumps.asked.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert pumps.abandoned == [1]

    asyncio.run(main())


def test_its_commit_ts_is_asked_for_after_the_ack() -> None:
    """A Pump promises its readers that what it has not yet acked commits above what it resolved."""

    class Watched(Ten):
        asked = False

        async def fresh(self, at_least: int = 0) -> int:
            self.asked = True
            return await super().fresh(at_least)

    async def main() -> None:
        pumps, oracle = Pumps(), Watched()
        between = replace(upstream(pumps, Ref("coordinator")), oracle=cast(Any, oracle))
        work = asyncio.ensure_future(between.commit(Binlog(start_ts=1)))
        await pumps.asked.wait()
        assert not oracle.asked
        pumps.reachable.set()
        with pytest.raises(ActorStopped):  # there is no coordinator
            await work
        assert oracle.asked

    asyncio.run(main())


def test_why_it_failed_is_told_and_its_rollback_is_written() -> None:
    async def main() -> None:
        pumps = Pumps()
        pumps.reachable.set()
        pumps.refusal = NoPump("none is online")
        with pytest.raises(NoPump, match="none is online"):
            await upstream(pumps, Ref("coordinator")).commit(Binlog(start_ts=1))
        assert [binlog.tp for binlog in pumps.taken] == [Rollback]

    asyncio.run(main())


def test_a_rollback_that_finds_no_way_is_left_to_the_pump_to_ask_for() -> None:
    async def main() -> None:
        pumps = Pumps()
        pumps.reachable.set()
        pumps.refusal, pumps.full = NoPump("none is online"), True
        made = upstream(pumps, Ref("coordinator"))
        start_ts = await made.begin()
        with pytest.raises(NoPump, match="none is online"):
            await made.commit(Binlog(start_ts=start_ts))
        assert (pumps.taken, pumps.abandoned) == ([], [start_ts])
        assert made.decisions.status()["open"] == 0, "asked, it says that it was rolled back"

    asyncio.run(main())


class Away(Ten):
    """No timestamp the first `times`."""

    def __init__(self, times: int) -> None:
        self.times = times

    async def fresh(self, at_least: int = 0) -> int:
        if at_least and self.times:
            self.times -= 1
            raise Unavailable("no oracle")
        return await super().fresh(at_least)


class Decides(Actor[CoordinatorMessage]):
    async def on_batch(self, batch: list[CoordinatorMessage]) -> None:
        for message in batch:
            assert isinstance(message, Decide)
            message.reply.set(True)


@pytest.mark.parametrize(("times", "timeout_s"), [(3, 60.0), (1, 0.0)])
def test_an_oracle_that_is_away_is_asked_until_the_deadline(
    times: int, timeout_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(two_phase, "RETRY_S", 0.001)

    async def main() -> None:
        pumps, oracle = Pumps(), Away(times)
        pumps.reachable.set()
        coordinator: Ref[CoordinatorMessage] = Ref("coordinator")
        cell = Cell(coordinator, Decides())
        life = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        made = replace(
            upstream(pumps, coordinator, commit_timeout_s=timeout_s), oracle=cast(Any, oracle)
        )
        if timeout_s:
            assert await made.commit(Binlog(start_ts=1)) == 11
        else:
            with pytest.raises(Unavailable, match="no oracle"):
                await made.commit(Binlog(start_ts=1))
        assert oracle.times == 0
        kinds = [binlog.tp for binlog in pumps.taken]
        assert kinds == ([Prewrite] if timeout_s else [Prewrite, Rollback])
        cell.stop()
        await life

    asyncio.run(main())


def test_decisions_that_a_crash_cut_take_no_room_for_ever() -> None:
    """Else so many of them would let every later transaction wait without an end."""

    async def main() -> None:
        pumps = Pumps()
        pumps.reachable.set()
        coordinator: Ref[CoordinatorMessage] = Ref("coordinator")
        made = upstream(pumps, coordinator, room=2)
        for start_ts in range(1, 6):
            cell = Cell(coordinator, Crashes())
            life = asyncio.ensure_future(cell.run())
            await cell.started.wait()
            async with asyncio.timeout(30):
                with pytest.raises(CommitUnknown):
                    await made.commit(Binlog(start_ts=start_ts))
            with pytest.raises(RuntimeError, match="made up"):
                await life

    asyncio.run(main())


async def soon(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 (any condition of one loop)
            await asyncio.sleep(0)


def test_a_transaction_waits_for_room_until_its_deadline() -> None:
    """And is rolled back then, which its Pump is told."""

    async def main() -> None:
        pumps = Pumps()
        pumps.reachable.set()
        made = upstream(pumps, Ref("coordinator"), room=0, commit_timeout_s=0.01)
        start_ts = await made.begin()
        async with asyncio.timeout(30):
            with pytest.raises(Overloaded, match="tidelog status"):
                await made.commit(Binlog(start_ts=start_ts))
        assert [binlog.tp for binlog in pumps.taken] == [Prewrite, Rollback]
        assert made.decisions.status()["open"] == 0

    asyncio.run(main())


def test_a_cancelled_transaction_ends_while_the_coordinator_is_busy() -> None:
    """Before its Prewrite is acked, and while it waits to ask for the decision: nothing of it is
    left, neither open, which would hold up every reader, nor in the room for Commits."""

    async def main() -> None:
        coordinator: Ref[CoordinatorMessage] = Ref("coordinator")
        busy = Busy()
        cell = Cell(coordinator, busy)
        life = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        await coordinator.tell(Question(cast(Any, None)))
        await soon(lambda: len(busy.taken) == 1)
        await coordinator.tell(Question(cast(Any, None)))
        assert not coordinator.try_tell(Question(cast(Any, None)))
        for reachable in (False, True):
            pumps = Pumps()
            made = upstream(pumps, coordinator, room=1)
            start_ts = await made.begin()
            assert made.decisions.status()["open"] == 1
            work = asyncio.ensure_future(made.commit(Binlog(start_ts=start_ts)))
            await pumps.asked.wait()
            if reachable:
                pumps.reachable.set()
                await soon(made.room.locked)
            work.cancel()
            with pytest.raises(asyncio.CancelledError):
                await work
            assert made.decisions.status()["open"] == 0
            assert not made.room.locked()
            assert pumps.abandoned == [start_ts]
        busy.crash.set()
        with pytest.raises(RuntimeError, match="made up"):
            await life

    asyncio.run(main())


def test_whoever_asked_for_a_decision_and_went_away_leaves_no_place_taken() -> None:
    async def main() -> None:
        pumps = Pumps()
        pumps.reachable.set()
        coordinator: Ref[CoordinatorMessage] = Ref("coordinator")
        busy = Busy()
        cell = Cell(coordinator, busy)
        life = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        made = upstream(pumps, coordinator, room=1)
        work = asyncio.ensure_future(made.commit(Binlog(start_ts=await made.begin())))
        await soon(lambda: any(isinstance(one, Decide) for one in busy.taken))
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert made.room.locked(), "it may be decided yet"
        busy.crash.set()
        with pytest.raises(RuntimeError, match="made up"):
            await life
        assert not made.room.locked()
        assert made.decisions.status()["open"] == 0

    asyncio.run(main())
