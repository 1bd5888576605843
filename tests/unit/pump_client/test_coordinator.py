"""A coordinator's life on a bus."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.pump_client.fakes import Dice, FakeCluster, LoopClock, MemoryBus
from tidelog.actor import Cell, Ref
from tidelog.errors import NoResponders
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode_reply, encode
from tidelog.ports import Bus
from tidelog.pump_client import NoPump, Writer
from tidelog.pump_client.client import PumpClient
from tidelog.pump_client.decisions.coordinator import (
    Coordinator,
    CoordinatorMessage,
    Decide,
    Drain,
)
from tidelog.pump_client.decisions.decisions import Decisions
from tidelog.pump_client.decisions.journal import Memory
from tidelog.pump_client.decisions.owner import prewrite_key
from tidelog.real.disk import RealDisk
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.subjects import txnstatus
from tidelog_proto.binlog_pb2 import Binlog, Commit


def test_one_that_crashed_hears_no_question_any_more() -> None:
    """Else its subscription and the next life's would both take each."""

    async def main() -> None:
        bus = MemoryBus()
        ref: Ref[CoordinatorMessage] = Ref("coordinator")
        coordinator = Coordinator(
            cast(PumpClient, None),
            cast(Bus, bus),
            LoopClock(),
            Memory("me"),
            Decisions(),
            cluster="c",
            room=asyncio.Semaphore(1),
            ready=asyncio.Event(),
        )
        cell = Cell(ref, coordinator)
        life = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        question = encode(TxnStatusRequest(5, prewrite_key("me")))
        answer = await bus.request(txnstatus("c"), question, timeout_s=10)
        assert decode_reply(answer.data, TxnStatusReply).state == "rolled_back"
        await ref.tell(Drain(cast(Any, None)))
        with pytest.raises(AttributeError):
            await life
        with pytest.raises(NoResponders):
            await bus.request(txnstatus("c"), question, timeout_s=10)

    run_loop(SimLoop(1), main())


def test_a_commit_that_no_pump_takes_stays_decided_and_is_told_who_asks() -> None:
    class Refusing:
        given_up = 0

        async def write(self, binlog: Binlog, *, wait: bool) -> None:
            assert (binlog.tp, wait) == (Commit, True)
            self.given_up += 1
            raise NoPump("none is online")

    async def main() -> None:
        bus, pumps, room = MemoryBus(), Refusing(), asyncio.Semaphore(1)
        decisions = Decisions()
        ref: Ref[CoordinatorMessage] = Ref("coordinator")
        coordinator = Coordinator(
            cast(PumpClient, pumps),
            cast(Bus, bus),
            LoopClock(),
            Memory("me"),
            decisions,
            cluster="c",
            room=room,
            ready=asyncio.Event(),
        )
        cell = Cell(ref, coordinator)
        life = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        await room.acquire()
        decisions.begin(5)
        commit = Binlog(tp=Commit, start_ts=5, commit_ts=9)
        decided: bool = await ref.ask(lambda reply: Decide(commit, reply))
        assert decided
        await ref.ask(Drain)
        assert (pumps.given_up, room.locked()) == (1, False)
        question = encode(TxnStatusRequest(5, prewrite_key("me")))
        answer = await bus.request(txnstatus("c"), question, timeout_s=10)
        told = decode_reply(answer.data, TxnStatusReply)
        assert (told.state, told.commit_ts) == ("committed", 9)
        cell.stop()
        await life

    run_loop(SimLoop(1), main())


def test_a_block_that_is_left_by_an_error_leaves_no_file_open(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = FakeCluster(MemoryBus(), "p1")
        await cluster.start()
        for _ in range(3):
            client = PumpClient(cluster.port, "c", 9, LoopClock(), Dice())
            writer = Writer(
                client, cluster.port, LoopClock(), Dice(), RealDisk(tmp_path), cluster="c"
            )
            with pytest.raises(RuntimeError, match="the application's own"):
                async with writer:
                    raise RuntimeError("the application's own")

    asyncio.run(main())
    links = [one.resolve() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    assert [one for one in links if tmp_path in one.parents] == []
