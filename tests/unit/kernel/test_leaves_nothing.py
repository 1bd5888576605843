"""What fails again and again, or ends, is gone when it is over: no collector has to come."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass

from tests.cycles import left_in_cycles
from tidelog.actor import Actor, Cell, Ref, Reply, off_loop
from tidelog.batched_oracle import BatchedOracle
from tidelog.errors import ActorStopped, IoFailed, TidelogError, Unavailable
from tidelog.real.cancellable import cancellable
from tidelog.sim import World, run

TIMES = 3


@dataclass(frozen=True)
class Wanted:
    reply: Reply[int]


class Refuser(Actor[Wanted]):
    """Has another error for each."""

    async def on_batch(self, batch: list[Wanted]) -> None:
        for message in batch:
            message.reply.fail(TidelogError("no"))


async def living() -> tuple[Ref[Wanted], Cell[Wanted], asyncio.Task[None]]:
    ref: Ref[Wanted] = Ref("refuser")
    cell = Cell(ref, Refuser())
    task = asyncio.ensure_future(cell.run())
    await cell.started.wait()
    return ref, cell, task


def test_an_ask_that_fails() -> None:
    async def main(_world: World) -> None:
        ref, cell, task = await living()
        with left_in_cycles() as left:
            for _ in range(TIMES):
                with contextlib.suppress(TidelogError):
                    await ref.ask(Wanted)
        assert not left, left
        cell.stop()
        await task

    run(main, 1)


class Slow(Actor[Wanted]):
    batch_count = 1

    async def on_batch(self, batch: list[Wanted]) -> None:
        await asyncio.sleep(60)


def test_what_waited_for_an_actor_that_ended() -> None:
    """A mailbox may hold megabytes, and a cell is a cycle with its actor."""

    async def main(_world: World) -> None:
        ref: Ref[Wanted] = Ref("slow")
        cell = Cell(ref, Slow())
        task = asyncio.ensure_future(cell.run())
        await cell.started.wait()
        asking = [asyncio.ensure_future(ref.ask(Wanted)) for _ in range(TIMES)]
        await asyncio.sleep(1)
        assert len(cell.mailbox) == TIMES - 1
        task.cancel()
        answers = await asyncio.gather(task, *asking, return_exceptions=True)
        assert [type(one) for one in answers[1:]] == [ActorStopped] * TIMES
        assert (len(cell.mailbox), cell.mailbox.bytes) == (0, 0)

    run(main, 1)


def test_a_task_that_an_actor_ends() -> None:
    """Each DDL has one, to tell that it gets on."""

    async def main(_world: World) -> None:
        _, cell, task = await living()
        with left_in_cycles() as left:
            for pause_s in (0, 1) * TIMES:
                watching = cell.actor.spawn(asyncio.sleep(60), "watch")
                await asyncio.sleep(pause_s)
                watching.cancel()
                del watching
                await asyncio.sleep(1)
        assert not left, left
        cell.stop()
        await task

    run(main, 1)


def test_a_call_in_a_thread_that_fails() -> None:
    """It may have megabytes of arguments."""

    def full(_: bytes) -> None:
        raise IoFailed("no")

    async def calls() -> None:
        with left_in_cycles() as left:
            for _ in range(TIMES):
                with contextlib.suppress(IoFailed):
                    await off_loop(full, b"")
        assert left["IoFailed"] == 0, left

    asyncio.run(calls())


class NoOracle(BatchedOracle):
    async def _ask(self, total: int) -> int:
        await asyncio.sleep(0)
        raise Unavailable("nobody answers")


def test_timestamps_that_nobody_gives() -> None:
    """Several callers: one asks for all, and all have its error, who waited longest first."""

    async def caller(oracle: NoOracle, number: int, told: list[int]) -> None:
        with contextlib.suppress(Unavailable):
            await oracle.fresh()
        told.append(number)

    async def calls() -> None:
        oracle = NoOracle()
        with left_in_cycles() as left:
            for _ in range(TIMES):
                told: list[int] = []
                await asyncio.gather(*(caller(oracle, number, told) for number in range(6)))
                assert told[1:] == sorted(told[1:]), told
        assert left["Unavailable"] == left["_Caller"] == 0, left

    asyncio.run(calls())


def test_a_cancellation_that_a_library_would_lose() -> None:
    async def waits() -> None:
        with cancellable():
            await asyncio.sleep(60)

    async def calls() -> None:
        with left_in_cycles() as left:
            for _ in range(TIMES):
                waiting = asyncio.ensure_future(waits())
                await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting])
                del waiting
        assert left["Task"] == left["CancelledError"] == 0, left

    asyncio.run(calls())
