"""A binlog client whose ways to the Pumps answer rubbish, are full, or end under a caller."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, cast

import pytest

from tests.cycles import left_in_cycles
from tests.unit.pump_client.fakes import Dice, FakeCluster, LoopClock, MemoryBus
from tests.unit.pump_client.test_client import commit, play, prewrite, until
from tidelog.actor import Cell, Ref
from tidelog.errors import (
    ActorStopped,
    DiskFull,
    NoResponders,
    Overloaded,
    TidelogError,
    Unavailable,
    UnparsablePayload,
)
from tidelog.messages import TxnStatusReply, decode_reply
from tidelog.ports import Bus, Request
from tidelog.pump_client import OutcomeUnknown, PumpClient
from tidelog.pump_client.decisions.coordinator import Coordinator
from tidelog.pump_client.decisions.decisions import Decisions
from tidelog.pump_client.decisions.journal import Memory
from tidelog.pump_client.delivery import grpc_way
from tidelog.pump_client.delivery.backlog import Backlog, Finish
from tidelog.pump_client.delivery.finisher import Delivery
from tidelog.pump_client.delivery.way import NatsWay, refusal
from tidelog.pump_client.routing.pump_list import PumpList
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.subjects import pump, registry, txnstatus
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.transport_pb2 import WriteBatchResult, WriteResult


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\xff\xff", "can't be read"),
        (WriteBatchResult(results=[WriteResult()] * 2).SerializeToString(), "answered 2 of 3"),
    ],
)
def test_an_answer_that_does_not_fit_leaves_all_of_them_unknown(answer: bytes, said: str) -> None:
    async def main() -> None:
        bus = MemoryBus()

        async def rubbish(request: Request) -> None:
            request.respond(answer)

        await bus.serve(pump("c", "p1", "write"), rubbish)
        with pytest.raises(Unavailable, match=said) as failed:
            await NatsWay(cast(Bus, bus), "c", 9, "p1").write([b"a", b"b", b"c"], 1.0)
        assert not failed.value.definite

    run_loop(SimLoop(1), main())


def test_a_refusal_is_as_definite_as_the_pump_says() -> None:
    assert refusal("", "", definite=True) is None
    assert isinstance(refusal("DiskFull", "no room", definite=True), DiskFull)
    unsure = refusal("DiskFull", "no room", definite=False)
    assert isinstance(unsure, OutcomeUnknown)
    assert unsure.message == "DiskFull: no room"


def test_bytes_that_are_no_binlog_are_refused_before_they_are_sent() -> None:
    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        with pytest.raises(UnparsablePayload, match="2 bytes are no Binlog"):
            await client.write(b"\xff\xff")
        assert cluster.journal == []

    play(body, "p1")


def test_a_registry_that_does_not_list_its_nodes_is_asked_until_it_does() -> None:
    async def main() -> None:
        bus = MemoryBus()
        cluster = FakeCluster(bus, "p1")
        refusing = 3

        class Late(MemoryBus):
            async def serve(self, subject: str, *given: Any, **more: Any) -> Any:
                nonlocal refusing
                if subject == registry("c", "event.>") and refusing:
                    refusing -= 1
                    raise Unavailable("no server yet")
                return await bus.serve(subject, *given, **more)

            async def request(self, *given: Any, **more: Any) -> Any:
                return await bus.request(*given, **more)

        async with PumpClient(cast(Bus, Late()), "c", 9, LoopClock(), Dice()) as client:
            await asyncio.sleep(5)
            assert client.status()["online"] == []
            await cluster.start()
            await until(lambda: client.status()["online"] == ["p1"])
            assert refusing == 0
            await client.write(prewrite(5))
            await client.write(commit(5))
            assert await client.flush(10)
            assert cluster.pumps["p1"].of(5) == ["Prewrite", "Commit"]

    run_loop(SimLoop(1), main())


class Lane:
    """A way into which `tell` puts as it likes."""

    alive = True

    def __init__(self, *, full: bool, fails: BaseException | None = None) -> None:
        self._full = full
        self._fails = fails
        self.told = 0

    def reply(self, settle: Any) -> Any:
        class Once:
            def fail(self, error: Exception) -> None:
                settle(None, error)

        return Once()

    def try_tell(self, _: object) -> bool:
        if isinstance(self._fails, TidelogError) and not self._full:
            raise self._fails
        return not self._full

    async def tell(self, _: object) -> None:
        self.told += 1
        if self._fails is not None:
            raise self._fails


class Known:
    def __init__(self, lane: Lane | None) -> None:
        self.lane = lane


def delivery(lane: Lane | None) -> tuple[Delivery, Backlog, Finish]:
    pumps = PumpList()
    pumps.pumps = {"p1": cast(Any, Known(lane))}
    backlog = Backlog()
    made = Delivery(pumps, backlog, LoopClock(), finish_timeout_s=600)
    return made, backlog, Finish(5, commit(5).SerializeToString(), "p1", made.deadline())


GONE = ActorStopped("the lane crashed")


@pytest.mark.parametrize(
    "lane",
    [None, Lane(full=False, fails=GONE), Lane(full=True, fails=GONE), Lane(full=True)],
    ids=["none", "crashes", "crashes while it is full", "full"],
)
def test_what_finds_no_way_stays_in_the_backlog_and_is_due_again(lane: Lane | None) -> None:
    """Accepted, it is never dropped."""

    async def main() -> None:
        made, backlog, item = delivery(lane)
        await made.accept(item)
        assert item.accepted
        assert backlog.open == 1
        if lane is None or lane._fails is not None:
            assert list(backlog.take_due(0.5)) == []
            assert list(backlog.take_due(2.0)) == [item]
        made.again(item)
        assert list(backlog.take_due(20.0)) == [item]
        assert backlog.open == 1

    run_loop(SimLoop(1), main())


def test_a_caller_that_goes_away_while_the_way_is_full_leaves_its_finish_behind() -> None:
    async def main() -> None:
        lane = Lane(full=True, fails=asyncio.CancelledError())
        made, backlog, item = delivery(lane)
        with pytest.raises(asyncio.CancelledError):
            await made.acked(item)
        assert (lane.told, backlog.open) == (1, 1)
        assert list(backlog.take_due(2.0)) == [item]

    run_loop(SimLoop(1), main())


def test_a_coordinator_serves_once_it_can_and_answers_rubbish_by_a_typed_error() -> None:
    async def main() -> None:
        bus, refusing = MemoryBus(), 2

        class Late:
            async def serve(self, *given: Any) -> Any:
                nonlocal refusing
                if refusing:
                    refusing -= 1
                    raise Unavailable("no server yet")
                return await bus.serve(*given)

        coordinator = Coordinator(
            cast(PumpClient, None),
            cast(Bus, Late()),
            LoopClock(),
            Memory("me"),
            Decisions(),
            cluster="c",
            room=asyncio.Semaphore(1),
            ready=asyncio.Event(),
        )
        life = asyncio.ensure_future(Cell(Ref("coordinator"), coordinator).run())
        with pytest.raises(NoResponders):
            await bus.request(txnstatus("c"), b"", timeout_s=1)
        await until(lambda: refusing == 0)
        await asyncio.sleep(1)
        answer = await bus.request(txnstatus("c"), b"no question", timeout_s=1)
        with pytest.raises(UnparsablePayload):
            decode_reply(answer.data, TxnStatusReply)
        life.cancel()
        await asyncio.wait([life])

    run_loop(SimLoop(1), main())


def test_what_one_pump_refuses_and_another_takes_is_gone_with_its_payload() -> None:
    """A Pump that is overloaded stays among those that are asked."""

    async def body(client: PumpClient, cluster: FakeCluster) -> None:
        refused: list[int] = []

        def busy(binlog: Binlog) -> TidelogError:
            refused.append(binlog.start_ts)
            return Overloaded("busy")

        cluster.pumps["p1"].judge = busy
        with left_in_cycles() as left:
            for start_ts in range(2, 12):
                await client.write(prewrite(start_ts))
                await client.write(commit(start_ts), wait=True)
        assert len(refused) > 1
        assert left["Overloaded"] == left["Route"] == 0, left

    play(body, "p1", "p2", strategy="range")


class Silent:
    """A call by gRPC that nobody answers."""

    def __await__(self) -> Generator[Any, None, None]:
        return asyncio.sleep(60).__await__()

    def cancelled(self) -> bool:
        return False


def test_a_call_whose_caller_is_cancelled_is_gone_with_it() -> None:
    async def main() -> None:
        with left_in_cycles() as left:
            for _ in range(3):
                call = cast("grpc_way.Call", Silent())
                asking = asyncio.ensure_future(grpc_way._outcome(call, 1))
                await asyncio.sleep(1)
                asking.cancel()
                await asyncio.wait([asking])
                del asking, call
        assert left["CancelledError"] == left["Task"] == 0, left

    run_loop(SimLoop(1), main())
