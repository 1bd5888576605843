"""A transaction that ends while the coordinator is between two of its lives."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from tidelog.actor import Actor, Cell, Ref
from tidelog.pump_client import CommitUnknown, NoPump
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.coordinator import CoordinatorMessage
from tidelog.pump_client.decisions.journal import Memory
from tidelog.pump_client.two_phase import Upstream
from tidelog.real.clock import RealClock
from tidelog_proto.binlog_pb2 import Binlog, Prewrite, Rollback


class Pumps:
    """Takes what it is given; `refusal` of a Prewrite, and it hangs while `reachable` isn't set."""

    def __init__(self) -> None:
        self.taken: list[Binlog] = []
        self.forgotten: list[int] = []
        self.refusal: Exception | None = None
        self.reachable = asyncio.Event()
        self.asked = asyncio.Event()

    async def write(self, binlog: Binlog) -> None:
        self.asked.set()
        await self.reachable.wait()
        if binlog.tp == Prewrite and self.refusal is not None:
            raise self.refusal
        self.taken.append(binlog)

    def forget(self, start_ts: int) -> None:
        self.forgotten.append(start_ts)


class Ten:
    """Timestamps."""

    async def fresh(self, at_least: int = 0) -> int:
        return at_least + 10


class Crashes(Actor[CoordinatorMessage]):
    async def on_batch(self, batch: list[CoordinatorMessage]) -> None:
        raise RuntimeError("made up")


def upstream(pumps: Pumps, coordinator: Ref[CoordinatorMessage], room: int = 1) -> Upstream:
    return Upstream(
        client=cast(PumpClient, pumps),
        clock=RealClock(),
        oracle=cast(Any, Ten()),
        coordinator=coordinator,
        schema=Ref("schema"),
        room=asyncio.Semaphore(room),
        keeper=Memory("me"),
        commit_timeout_s=60,
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
        assert pumps.forgotten == [1]

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
