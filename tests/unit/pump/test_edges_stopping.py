"""The edges while the actors behind them end: every caller hears of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any, cast
from unittest.mock import Mock

import pytest

from tests.unit.pump.gc_rig import ON_DEMAND, Load, status
from tests.unit.pump.rig import NODE, commit, prewrite, start, ts_now
from tests.unit.pump.test_edges import crashes, observed
from tests.unit.pump_client.fakes import MemoryRequest
from tidelog.actor import Cell, Ref
from tidelog.errors import (
    ActorStopped,
    DiskFull,
    InvariantBroken,
    IoFailed,
    Overloaded,
    Stranded,
    Unavailable,
)
from tidelog.messages import decode_reply
from tidelog.pump_control import PumpStatus
from tidelog.sim import World, run
from tidelog.sim.loop import SimLoop, run_loop
from tidelog.timestamps import TS_MAX
from tidelog_proto.transport_pb2 import PullFrame, WriteBatch, WriteBatchResult
from tidelog_pump.edges import nats_edge
from tidelog_pump.edges.gatherer import Gatherer
from tidelog_pump.edges.nats_edge import Control, NatsEdge
from tidelog_pump.identity import Identity
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import ERRORS, NATS_SECONDS
from tidelog_pump.retention.gc_actor import Gc


class Gone:
    """A writer that never answers the first, and is gone for the others."""

    async def ask(self, _: object) -> None:
        await asyncio.Event().wait()

    def reply(self, _: object) -> None:
        raise ActorStopped("writer is not running")


class Calls:
    """Calls that came while one is being written."""

    def __init__(self, world: World) -> None:
        self.tasks: list[asyncio.Task[Any]] = []
        self.gatherer = Gatherer(world.clock(), cast(Any, Gone()), 7, self._spawn)
        self._hangs = asyncio.create_task(self.gatherer.write(7, b"first"))

    def _spawn(self, work: Coroutine[Any, Any, None], _: str) -> None:
        self.tasks.append(asyncio.create_task(work))

    async def begin(self) -> list[asyncio.Task[Any]]:
        await asyncio.sleep(0)
        calls = [asyncio.create_task(self.gatherer.write(7, b"%d" % n)) for n in range(3)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return calls

    def end(self) -> None:
        self._hangs.cancel()


def test_calls_that_were_gathered_for_a_writer_that_is_gone_are_answered() -> None:
    async def main(world: World) -> None:
        calls = Calls(world)
        for _ in range(2):
            outcomes = await asyncio.gather(*await calls.begin())
            assert [type(outcome) for outcome in outcomes] == [ActorStopped] * 3
            assert all("writer is not running" in str(outcome) for outcome in outcomes)
        assert len(calls.tasks) == 2, "the second three were a group of their own"
        calls.end()

    run(main, 1)


def test_calls_that_are_gathered_when_the_edge_ends_are_answered_and_the_next_begin_anew() -> None:
    async def main(world: World) -> None:
        calls = Calls(world)
        waiting = await calls.begin()
        calls.tasks[0].cancel()
        outcomes = await asyncio.gather(*waiting)
        assert all("edge is ending" in str(outcome) for outcome in outcomes)
        assert calls.tasks[0].cancelled()
        await asyncio.gather(*await calls.begin())
        assert len(calls.tasks) == 2
        calls.end()

    run(main, 2)


def edge(identity: Identity) -> NatsEdge:
    """Behind it nobody runs."""
    return NatsEdge(
        Mock(monotonic=lambda: 0.0),
        Mock(),
        "c",
        identity,
        Mock(),
        Ref("writer"),
        Ref("puller"),
    )


def asked(data: bytes) -> tuple[MemoryRequest, asyncio.Future[bytes]]:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    return MemoryRequest("s", data, answer), answer


def test_writes_and_pulls_between_two_lives() -> None:
    async def main() -> None:
        _, failed = observed(NATS_SECONDS)
        request, answer = asked(WriteBatch(payloads=[b"a", b"b"]).SerializeToString())
        await edge(Identity())._write(request)
        results = WriteBatchResult.FromString(answer.result()).results
        assert [(r.code, r.definite) for r in results] == [("ActorStopped", False)] * 2
        assert observed(NATS_SECONDS)[1] == failed + 1
        # A poll is left to its deadline; one of a Pump that was given up is refused at once.
        request, answer = asked(b"")
        await edge(Identity())._pull(request)
        assert not answer.done()
        identity = Identity()
        identity.stranded = Stranded("above its tombstone")
        await edge(identity)._pull(request)
        assert PullFrame.FromString(answer.result()).code == "Stranded"

    run_loop(SimLoop(1), main())


def test_a_control_question_of_an_edge_that_is_gone_is_answered() -> None:
    async def main() -> None:
        gone = edge(Identity())
        Cell(Ref("nats"), gone)
        request, answer = asked(b"{}")
        await gone._control(request)
        with pytest.raises(ActorStopped, match="nats is not running"):
            decode_reply(answer.result(), PumpStatus)

    run_loop(SimLoop(1), main())


def test_control_questions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nats_edge, "MAX_QUESTIONS", 0)

    async def main() -> None:
        request, answer = asked(b"{}")
        await edge(Identity()).on_batch([Control(request)])
        with pytest.raises(Overloaded, match="0 control requests are under way"):
            decode_reply(answer.result(), PumpStatus)

    run_loop(SimLoop(1), main())


def test_a_write_that_fails_unexpectedly_is_a_broken_invariant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Half of a batch may be anywhere: only a start from the log knows."""

    async def main(world: World) -> None:
        _, client = await start(world)
        before = ERRORS.labels("InvariantBroken")._value.get()

        async def fails(*_: object) -> None:
            raise ZeroDivisionError("unforeseen")

        with monkeypatch.context() as patch:
            patch.setattr(Segments, "append", fails)
            with contextlib.suppress(Unavailable):  # either way the writer knows that it can't know
                assert [r.code for r in await client.write(prewrite(ts_now(world)))] == [
                    "ActorStopped"
                ]
            pump = world.node(NODE)
            await world.until(lambda: bool(pump.failures), 20)
        assert ERRORS.labels("InvariantBroken")._value.get() == before + 1
        assert isinstance(pump.failures[0], InvariantBroken)
        assert "ZeroDivisionError" in str(pump.failures[0])

    run(main, 3)


def test_a_gc_that_fails_tells_who_asked_and_the_next_one_does_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        registry.safe_point = 1
        real, failing = Gc._collect, [DiskFull("no room for purged.json")]

        async def collect(gc: Gc) -> Any:
            if failing:
                raise failing.pop()
            return await real(gc)

        monkeypatch.setattr(Gc, "_collect", collect)
        refused = await client.control("gc")
        assert (refused["code"], refused["message"]) == ("DiskFull", "no room for purged.json")
        shown: Any = world.node(NODE).status()
        assert "no room for purged.json" in str(shown["gc"])
        assert "code" not in await client.control("gc")
        shown = world.node(NODE).status()
        assert "no room" not in str(shown["gc"])
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 1))
        assert not crashes(world)

    run(main, 4)


def test_a_gc_whose_write_fails_ends_the_pump_and_its_next_life_does_it() -> None:
    """What a disk has of a write that failed, only a start from the log can tell."""

    async def main(world: World) -> None:
        registry, client = await start(world, ON_DEMAND)
        await Load(world, client).run(60)
        registry.safe_point = TS_MAX
        await world.sleep(10)
        pump = world.node(NODE)
        pump.disk.fail_nth(1)
        with pytest.raises(Unavailable):
            await client.control("gc")
        await world.until(lambda: bool(pump.failures), 20, "the end")
        assert [type(failure) for failure in pump.failures] == [IoFailed]
        assert "purged.json" in str(pump.failures[0])
        await world.until(lambda: pump.running, 60, "the next life")
        await world.sleep(10)
        assert "code" not in await client.control("gc")
        assert status(world, "gc")["gc_ts"] > 0

    run(main, 5)
