"""A child that runs is watched while a later one starts, however long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import pytest

from tests.unit.kernel.test_supervisor import Do, Recorder
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import Corrupt, IoFailed, TidelogError
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor


class Gated(Recorder):
    """Its start lasts until the gate is open."""

    def __init__(self, name: str, log: list[str], gate: asyncio.Event) -> None:
        super().__init__(name, log)
        self.gate = gate

    async def on_start(self) -> None:
        await super().on_start()
        await self.gate.wait()


class Starting:
    """`a` runs, `b` starts until the gate is open, `c` comes after it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.log: list[str] = []
        self.gate = asyncio.Event()
        self.stop = asyncio.Event()
        self.supervisor = Supervisor("test")
        self.a = self.supervisor.actor("a", lambda: Recorder("a", self.log))
        self.b = self.supervisor.actor("b", lambda: Gated("b", self.log, self.gate))
        self.supervisor.actor("c", lambda: Recorder("c", self.log))
        self.task = world.loop.create_task(self.supervisor.run(self.stop))

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.world.until(condition, 10)

    async def logged(self, *lines: str) -> None:
        await self.until(lambda: self.log == list(lines))

    async def restarting(self) -> None:
        """All ran once, and `b` starts again."""
        self.gate.set()
        await self.until(lambda: self.supervisor.ready)
        self.gate.clear()
        await self.b.tell(Do("crash"))
        await self.logged("+a", "+b", "+c", "+b")
        self.log.clear()

    async def begun(self, *, again: bool) -> None:
        if again:
            await self.restarting()
        else:
            await self.logged("+a", "+b")
            self.log.clear()
        assert not self.supervisor.ready


@pytest.mark.parametrize("again", [False, True], ids=["the first start", "a restart"])
@pytest.mark.parametrize("how", ["crash", "hang", "end"])
def test_one_that_crashes_meanwhile_is_started_anew(how: str, again: bool) -> None:
    async def main(world: World) -> None:
        tree = Starting(world)
        await tree.begun(again=again)
        await tree.a.tell(Do(how))
        graceful = ["-a"] * (how == "end")
        await tree.logged(*graceful, "+a", "+b")
        assert tree.supervisor.restarts_total == 1 + again
        assert not tree.supervisor.ready
        tree.gate.set()
        await tree.until(lambda: tree.supervisor.ready)
        assert tree.log == [*graceful, "+a", "+b", "+c"]
        tree.log.clear()
        tree.stop.set()
        await tree.task
        assert tree.log == ["-c", "-b", "-a"]

    run(main)


@pytest.mark.parametrize("again", [False, True], ids=["the first start", "a restart"])
def test_a_fatal_error_meanwhile_escalates_at_once(again: bool) -> None:
    async def main(world: World) -> None:
        tree = Starting(world)
        await tree.begun(again=again)
        await tree.a.tell(Do("fatal"))
        with pytest.raises(Corrupt):
            await asyncio.wait_for(tree.task, 5)
        assert tree.log == []
        assert tree.supervisor.status() == {}

    run(main)


def test_too_many_crashes_meanwhile_escalate() -> None:
    async def main(world: World) -> None:
        tree = Starting(world)
        for _ in range(4):
            await tree.begun(again=False)
            await tree.a.tell(Do("crash"))
        with pytest.raises(TidelogError, match="boom"):
            await asyncio.wait_for(tree.task, 5)
        assert (tree.log, tree.supervisor.restarts_total) == ([], 4)

    run(main)


def test_who_is_told_to_stop_beside_a_crash_starts_nothing_anew() -> None:
    async def main(world: World) -> None:
        tree = Starting(world)
        await tree.begun(again=False)
        await tree.a.tell(Do("crash"))
        tree.stop.set()
        await asyncio.wait_for(tree.task, 5)
        assert (tree.log, tree.supervisor.restarts_total) == ([], 0)

    run(main)


def test_a_fatal_error_of_the_start_that_ends_so_is_told() -> None:
    class Fails(Gated):
        async def on_start(self) -> None:
            try:
                await super().on_start()
            finally:
                raise IoFailed("a bad sector")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        a = supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Fails("b", log, asyncio.Event()))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await world.until(lambda: "+b" in log, 5)
        await a.tell(Do("crash"))
        with pytest.raises(IoFailed, match="a bad sector"):
            await asyncio.wait_for(task, 5)
        assert log == ["+a", "+b"]

    run(main)


def test_one_that_goes_on_while_the_start_that_it_cut_ends_is_started_anew_with_all() -> None:
    """Nobody else would start the others."""

    class Slow(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            await goes_on.wait()

    class Starts(Gated):
        async def on_start(self) -> None:
            try:
                await super().on_start()
            finally:
                goes_on.set()

    goes_on = asyncio.Event()

    async def main(world: World) -> None:
        log: list[str] = []
        gate, stop, supervisor = asyncio.Event(), asyncio.Event(), Supervisor("test")
        a = supervisor.actor("a", lambda: Slow("a", log))
        supervisor.actor("b", lambda: Starts("b", log, gate))
        supervisor.actor("c", lambda: Recorder("c", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: log == ["+a", "+b"], 5)
        await a.tell(Do("wait"))
        await world.until(goes_on.is_set, 10)
        gate.set()
        await world.until(lambda: supervisor.ready, 10)
        assert log[-3:] == ["+a", "+b", "+c"]
        stop.set()
        await task

    run(main)


class Question(msgspec.Struct, frozen=True):
    reply: Reply[None]


class Answers(Actor[Question]):
    """Its first life crashes at the question."""

    lives = 0

    async def on_start(self) -> None:
        Answers.lives += 1

    async def on_batch(self, batch: list[Question]) -> None:
        if Answers.lives == 1:
            raise TidelogError("boom")
        for one in batch:
            one.reply.set(None)


def test_a_start_that_fails_by_a_crash_of_another_one_does_not_escalate() -> None:
    class Asks(Recorder):
        def __init__(self, log: list[str], other: Ref[Question]) -> None:
            super().__init__("b", log)
            self.other = other

        async def on_start(self) -> None:
            await super().on_start()
            await self.other.ask(Question)

    async def main(world: World) -> None:
        Answers.lives = 0
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        a = supervisor.actor("a", Answers)
        supervisor.actor("b", lambda: Asks(log, a))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: supervisor.ready or task.done(), 5)
        assert (log, supervisor.restarts_total) == (["+b", "+b"], 1)
        stop.set()
        await task

    run(main)
