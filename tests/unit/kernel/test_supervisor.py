"""Supervision: order of start and stop, rest_for_one, intensity, fatal errors, hanging actors."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass

import pytest

from tidelog.actor import Actor, Ref, off_loop
from tidelog.errors import Corrupt, IoFailed, Stuck, TidelogError
from tidelog.sim import World, run
from tidelog.supervisor import Supervisor


@dataclass(frozen=True)
class Do:
    what: str


class Recorder(Actor[Do]):
    """Writes its life into a common log."""

    progress_limit_s = 3.0

    def __init__(self, name: str, log: list[str]) -> None:
        self.name = name
        self.log = log
        self.lives = 0

    async def on_start(self) -> None:
        self.lives += 1
        self.log.append(f"+{self.name}" if self.lives == 1 else f"{self.name} is not fresh")

    async def on_batch(self, batch: list[Do]) -> None:
        for message in batch:
            match message.what:
                case "crash":
                    raise TidelogError("boom")
                case "fatal":
                    raise Corrupt("bad bytes")
                case "hang":
                    await asyncio.get_running_loop().create_future()
                case "thread":
                    await off_loop(lambda: None)
                case "end":
                    self._cell.stop()

    async def on_stop(self) -> None:
        self.log.append(f"-{self.name}")
        if self.name == "unsynced":
            raise IoFailed("the last fsync failed")


class Tree:
    def __init__(self, world: World, *names: str) -> None:
        self.log: list[str] = []
        self.supervisor = Supervisor("test")
        self.refs: dict[str, Ref[Do]] = {}
        for name in names:
            self.refs[name] = self.supervisor.actor(
                name, functools.partial(Recorder, name, self.log)
            )
        self.stop = asyncio.Event()
        self.world = world
        self.task = world.loop.create_task(self.supervisor.run(self.stop))

    async def ready(self) -> Tree:
        await self.world.until(lambda: self.supervisor.ready, 5)
        return self

    def restarted(self, times: int) -> bool:
        return self.supervisor.restarts_total == times

    async def tell(self, name: str, what: str) -> None:
        await self.refs[name].tell(Do(what))


def test_children_start_in_order_and_stop_in_reverse() -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a", "b", "c").ready()
        assert tree.log == ["+a", "+b", "+c"]
        assert set(tree.supervisor.status()) == {"a", "b", "c"}
        tree.stop.set()
        await tree.task
        assert tree.log[3:] == ["-c", "-b", "-a"]
        assert not tree.supervisor.ready

    run(main)


@pytest.mark.parametrize("seed", range(10))
def test_a_crash_restarts_the_child_and_all_after_it_with_fresh_instances(seed: int) -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a", "b", "c").ready()
        await tree.tell("b", "crash")
        await world.until(lambda: len(tree.log) == 5 and tree.supervisor.ready, 5)
        assert tree.log == ["+a", "+b", "+c", "+b", "+c"]
        assert tree.supervisor.restarts_total == 1
        assert all(ref.alive for ref in tree.refs.values())

    run(main, seed)


def test_a_crash_restarts_the_owner_of_shared_state_too() -> None:
    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        supervisor.actor("a", functools.partial(Recorder, "a", log))
        owner = supervisor.actor("b", functools.partial(Recorder, "b", log))
        supervisor.actor("c", functools.partial(Recorder, "c", log))
        user = supervisor.actor("d", functools.partial(Recorder, "d", log), shares=owner)
        stop = asyncio.Event()
        task = asyncio.create_task(supervisor.run(stop))
        await world.until(lambda: supervisor.ready, 5)
        await user.tell(Do("crash"))
        await world.until(lambda: supervisor.restarts_total == 1 and supervisor.ready, 5)
        assert log == ["+a", "+b", "+c", "+d", "+b", "+c", "+d"]
        stop.set()
        await task
        with pytest.raises(ValueError, match="no earlier child"):
            supervisor.actor("e", functools.partial(Recorder, "e", log), shares=Ref("other"))

    run(main, 1)


def test_a_child_that_ends_by_itself_has_crashed() -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a", "b").ready()
        await tree.tell("a", "end")
        await world.until(lambda: tree.supervisor.restarts_total == 1, 5)

    run(main)


def test_too_many_restarts_in_the_window_escalate() -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a").ready()
        for crash in range(4):
            await world.until(lambda: tree.refs["a"].alive and tree.supervisor.ready, 5)
            await tree.tell("a", "crash")
            await world.until(functools.partial(tree.restarted, crash + 1), 5)
        with pytest.raises(TidelogError, match="boom"):
            await tree.task
        assert not tree.refs["a"].alive

    run(main)


def test_restarts_apart_from_each_other_do_not_escalate() -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a").ready()
        for _ in range(8):
            await world.until(lambda: tree.supervisor.ready and tree.refs["a"].alive, 5)
            await tree.tell("a", "crash")
            await world.sleep(11)
        assert tree.supervisor.restarts_total == 8
        assert not tree.task.done()

    run(main)


def test_a_fatal_error_escalates_at_once() -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a", "b").ready()
        await tree.tell("b", "fatal")
        with pytest.raises(Corrupt):
            await tree.task
        assert tree.log == ["+a", "+b"]

    run(main)


def test_a_fatal_error_of_a_child_that_ends_is_no_clean_end() -> None:
    async def main(world: World) -> list[str]:
        tree = await Tree(world, "first", "unsynced", "last").ready()
        tree.stop.set()
        with pytest.raises(IoFailed):
            await tree.task
        return tree.log

    assert run(main) == ["+first", "+unsynced", "+last", "-last", "-unsynced", "-first"]


def test_an_actor_without_progress_is_restarted() -> None:
    async def main(world: World) -> None:
        tree = await Tree(world, "a").ready()
        await tree.tell("a", "hang")
        await world.until(lambda: tree.supervisor.restarts_total == 1, 10)
        await world.until(lambda: tree.refs["a"].alive, 5)

    run(main)


def test_a_hanging_call_in_a_thread_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(world: World) -> None:
        loop = world.loop
        monkeypatch.setattr(loop, "run_in_executor", lambda *_: loop.create_future())
        tree = await Tree(world, "a").ready()
        await tree.tell("a", "thread")
        with pytest.raises(Stuck):
            await tree.task

    run(main)


def test_a_failing_start_escalates() -> None:
    class Unstartable(Recorder):
        async def on_start(self) -> None:
            raise TidelogError("no")

    async def main(world: World) -> None:
        supervisor = Supervisor("test")
        supervisor.actor("a", lambda: Unstartable("a", []))
        with pytest.raises(TidelogError, match="no"):
            await supervisor.run(asyncio.Event())

    run(main)


def test_a_start_that_takes_long_is_cut_short_by_the_stop() -> None:
    class Slow(Recorder):
        async def on_start(self) -> None:
            await super().on_start()
            await asyncio.get_running_loop().create_future()

        def starting(self) -> dict[str, object]:
            return {"left": 7}

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Slow("b", log))
        supervisor.actor("c", lambda: Recorder("c", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: "+b" in log, 5)
        shown = supervisor.status()
        assert shown["b"] == {"starting": True, "left": 7, "mailbox": 0, "mailbox_bytes": 0}
        assert not supervisor.ready
        stop.set()
        await asyncio.wait_for(task, 5)
        assert (log, supervisor.ready) == (["+a", "+b", "-a"], False)

    run(main)


def test_a_fatal_error_of_a_start_that_is_cut_short_is_told() -> None:
    class Fails(Recorder):
        async def on_start(self) -> None:
            await super().on_start()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise IoFailed("a bad sector")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Fails("b", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: "+b" in log, 5)
        stop.set()
        with pytest.raises(IoFailed, match="a bad sector"):
            await asyncio.wait_for(task, 5)
        assert log == ["+a", "+b", "-a"]

    run(main)
