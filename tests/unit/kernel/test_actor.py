"""The actor kernel: batches, replies that are never forgotten, ticks, tasks, threads."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import dataclass

import pytest

from tidelog.actor import Actor, Cell, Ref, Reply, off_loop
from tidelog.errors import ActorStopped, Corrupt, TidelogError
from tidelog.sim import World, run


@dataclass(frozen=True)
class Add:
    amount: int


@dataclass(frozen=True)
class Read:
    reply: Reply[int]


@dataclass(frozen=True)
class Keep:
    """Never answered by the actor itself."""

    reply: Reply[int]


@dataclass(frozen=True)
class Fail:
    error: Exception


class Counter(Actor[Add | Read | Keep | Fail]):
    tick_s = 0.5

    def __init__(self) -> None:
        self.total = 0
        self.batches: list[int] = []
        self.ticks = 0
        self.events: list[str] = []

    async def on_start(self) -> None:
        self.events.append("start")

    async def on_batch(self, batch: list[Add | Read | Keep | Fail]) -> None:
        self.batches.append(len(batch))
        for message in batch:
            match message:
                case Add(amount):
                    self.total += amount
                case Read(reply):
                    reply.set(self.total)
                case Keep():
                    pass
                case Fail(error):
                    raise error

    async def on_tick(self) -> None:
        self.ticks += 1

    async def on_stop(self) -> None:
        self.events.append("stop")


class Running:
    """One cell, run as a supervisor runs it."""

    def __init__(self, world: World, actor: Counter | None = None) -> None:
        self.actor = actor or Counter()
        self.ref: Ref[Add | Read | Keep | Fail] = Ref("test.counter")
        self.cell = Cell(self.ref, self.actor)
        self.task = world.loop.create_task(self.cell.run())

    async def started(self) -> Running:
        await self.cell.started.wait()
        return self


def test_messages_are_handled_in_order_and_in_batches() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        for amount in range(100):
            await running.ref.tell(Add(amount))
        assert await running.ref.ask(Read) == 4950
        assert sum(running.actor.batches) == 101
        assert len(running.actor.batches) < 101

    run(main)


def test_ticks_come_between_batches() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        await world.sleep(5.2)
        assert running.actor.ticks == 10
        for _ in range(30):
            await running.ref.tell(Add(1))
            await world.sleep(0.1)
        assert 14 <= running.actor.ticks <= 16

    run(main)


def test_a_graceful_stop_handles_what_is_queued_and_calls_on_stop() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        for _ in range(10):
            await running.ref.tell(Add(1))
        running.cell.stop()
        await running.task
        assert running.actor.total == 10
        assert running.actor.events == ["start", "stop"]
        assert not running.ref.alive
        with pytest.raises(ActorStopped):
            await running.ref.tell(Add(1))

    run(main)


@pytest.mark.parametrize("seed", range(10))
def test_every_asker_still_waiting_gets_actor_stopped_after_a_crash(seed: int) -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        asks = [world.loop.create_task(running.ref.ask(Keep)) for _ in range(5)]
        await world.sleep(0.1)
        await running.ref.tell(Fail(Corrupt("bad bytes")))
        for ask in asks:
            with pytest.raises(ActorStopped):
                await ask
        with pytest.raises(Corrupt):
            await running.task
        assert "stop" not in running.actor.events

    run(main, seed)


def test_the_first_answer_counts() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        answers: list[object] = []
        reply: Reply[int] = running.ref.reply(lambda value, error: answers.append(value or error))
        reply.set(1)
        reply.set(2)
        reply.fail(TidelogError("late"))
        assert answers == [1]
        assert reply.settled

    run(main)


def test_an_asker_that_goes_away_settles_its_reply() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await running.ref.ask(Keep)
        assert not running.cell.owed

    run(main)


def test_a_failing_task_of_an_actor_is_the_actors_failure() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()

        async def fail() -> None:
            await asyncio.sleep(1)
            raise Corrupt("in a task")

        running.actor.spawn(fail(), "failing")
        with pytest.raises(Corrupt):
            await running.task

    run(main)


def test_a_child_actor_ends_with_its_parent() -> None:
    async def main(world: World) -> None:
        running = await Running(world).started()
        ref, task = running.actor.spawn_actor("child", Counter())
        await world.until(lambda: ref.alive, 1)
        await ref.tell(Add(3))
        assert await ref.ask(Read) == 3
        running.task.cancel()
        await asyncio.wait([running.task, task])
        assert not ref.alive

    run(main)


def test_a_thread_is_remembered_until_it_ends_although_its_caller_was_cancelled() -> None:
    class Threaded(Counter):
        async def on_tick(self) -> None:
            await off_loop(lambda: None)

    async def main(world: World) -> None:
        running = await Running(world, Threaded()).started()
        await world.until(lambda: len(running.cell.calls) == 1, 1)
        running.task.cancel()
        await asyncio.wait([running.task])
        assert len(running.cell.calls) == 1
        await world.until(lambda: len(running.cell.calls) == 0, 1)

    run(main)


def test_stuck_is_measured_from_the_last_progress() -> None:
    class Slow(Counter):
        progress_limit_s = 2.0

        async def on_batch(self, batch: list[Add | Read | Keep | Fail]) -> None:
            for _ in range(3):
                await asyncio.sleep(1.5)
                self.progress()
            await asyncio.sleep(5)

    async def main(world: World) -> None:
        running = await Running(world, Slow()).started()
        await running.ref.tell(Add(1))
        await world.sleep(4.6)
        assert not running.cell.stuck(world.loop.time())
        await world.sleep(2.2)
        assert running.cell.stuck(world.loop.time())

    run(main)


class Large:
    """Stands for bytes, which can't be referred to weakly."""


class Taker(Actor[Large]):
    """Handles and forgets."""

    async def on_batch(self, batch: list[Large]) -> None:
        assert batch


def test_an_idle_actor_does_not_keep_its_last_message() -> None:
    async def main(_: World) -> None:
        ref: Ref[Large] = Ref("taker")
        cell = Cell(ref, Taker())
        living = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        message = Large()
        seen = weakref.ref(message)
        await ref.tell(message)
        del message
        await asyncio.sleep(1)
        assert seen() is None
        cell.stop()
        await living

    run(main, 1)
