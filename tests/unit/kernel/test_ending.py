"""Who is cancelled ends, with all that is below it; what does not is fatal, and is said to be."""

from __future__ import annotations

import asyncio
import functools

import pytest

from tests.unit.kernel.test_supervisor import Do, Recorder
from tidelog.actor import Actor, first_error
from tidelog.errors import IoFailed, Stuck, TidelogError
from tidelog.sim import World, run
from tidelog.supervisor import END_S, END_TRIES, Supervisor


class Deaf(Recorder):
    """Has a task that loses its first `losses` cancellations, as a library may."""

    losses = 1

    async def on_start(self) -> None:
        await super().on_start()
        self.spawn(self._wait(), "deaf")

    async def _wait(self) -> None:
        try:
            for _ in range(self.losses):
                try:
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    self.log.append("lost")
            await asyncio.get_running_loop().create_future()
        finally:
            self.log.append(f"{self.name} ends")


@pytest.mark.parametrize("crashes", [False, True], ids=["ended from outside", "it crashed itself"])
def test_a_cancellation_that_was_lost_is_repeated(crashes: bool) -> None:
    """Of a task whose group has cancelled it, and does so once only."""

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        a = supervisor.actor("a", lambda: Recorder("a", log))
        b = supervisor.actor("b", lambda: Deaf("b", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: supervisor.ready, 5)
        await (b if crashes else a).tell(Do("crash"))
        if crashes:
            stop.set()
            await asyncio.wait([task], timeout=60)
            assert task.done()
        else:
            await world.until(lambda: supervisor.restarts_total == 1 and supervisor.ready, 15)
            assert log == ["+a", "+b", "lost", "b ends", "+a", "+b"]
            stop.set()
            await task

    run(main)


def test_what_does_not_end_is_fatal_and_the_others_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Deaf, "losses", END_TRIES)

    class Loud(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            try:
                await super().on_batch(batch)
            finally:
                self.log.append(f"{self.name} is cut")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        a = supervisor.actor("a", lambda: Recorder("a", log))
        b = supervisor.actor("b", lambda: Loud("b", log))
        supervisor.actor("c", lambda: Deaf("c", log))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await world.until(lambda: supervisor.ready, 5)
        await b.tell(Do("hang"))
        await a.tell(Do("crash"))
        with pytest.raises(Stuck, match=r"test.c does not end"):
            await asyncio.wait_for(task, 60)
        assert "b is cut" in log
        assert supervisor.status() == {}

    run(main)


def test_a_start_that_fails_and_does_not_end_escalates() -> None:
    class Fails(Deaf):
        async def on_start(self) -> None:
            await super().on_start()
            await asyncio.sleep(0.1)  # the task begins
            raise TidelogError("no")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Fails("b", log))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await asyncio.wait([task], timeout=3 * END_S)
        assert task.done()
        with pytest.raises(TidelogError, match=r"test.b ended, and a task of it does not"):
            await task
        assert log == ["+a", "+b", "lost", "b ends"]

    run(main)


def test_who_is_cancelled_while_a_child_ends_waits_for_it() -> None:
    class Tidies(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            try:
                await super().on_batch(batch)
            finally:
                self.log.append("tidies")
                await asyncio.sleep(3)
                self.log.append("tidied")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        a = supervisor.actor("a", lambda: Recorder("a", log))
        b = supervisor.actor("b", lambda: Tidies("b", log))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await world.until(lambda: supervisor.ready, 5)
        await b.tell(Do("hang"))
        await a.tell(Do("crash"))
        await world.until(lambda: "tidies" in log, 5)
        assert set(supervisor.status()) == {"a"}
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        assert log == ["+a", "+b", "tidies", "tidied"]

    run(main)


def restarted(supervisor: Supervisor, times: int) -> bool:
    return supervisor.restarts_total == times


def test_what_nobody_cancelled_is_a_crash() -> None:
    """What an actor waits for was cancelled, not the actor: in its batch, and in a task of it."""

    class Waits(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            if batch[0].what == "spawn":
                self.spawn(self._wait(), "waits")
            else:
                await self._wait()

        async def _wait(self) -> None:
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            await future

    async def main(world: World) -> None:
        supervisor, stop = Supervisor("test"), asyncio.Event()
        ref = supervisor.actor("a", lambda: Waits("a", []))
        task = world.loop.create_task(supervisor.run(stop))
        for restarts, what in enumerate(("wait", "spawn"), start=1):
            await world.until(lambda: supervisor.ready and ref.alive, 5)
            await ref.tell(Do(what))
            await world.until(functools.partial(restarted, supervisor, restarts), 5)
        stop.set()
        await task

    run(main)


class Parent(Recorder):
    """Has one of `child` linked to it."""

    def __init__(self, name: str, log: list[str], child: Actor[Do]) -> None:
        super().__init__(name, log)
        self._child = child

    async def on_start(self) -> None:
        await super().on_start()
        self.spawn_actor("child", self._child)


def test_a_cancellation_that_an_actor_below_lost_is_repeated_too() -> None:
    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        a = supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Parent("b", log, Deaf("c", log)))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: "+c" in log, 5)
        await a.tell(Do("crash"))
        await world.until(lambda: supervisor.restarts_total == 1 and supervisor.ready, 15)
        assert log[3:5] == ["lost", "c ends"]
        stop.set()
        await task

    run(main)


@pytest.mark.parametrize("linked", [False, True], ids=["its own", "of one linked to it"])
def test_an_actor_whose_task_outlives_its_loop_is_noticed(linked: bool) -> None:
    """It takes no messages any more, and nothing else would tell."""
    lives: list[Recorder] = []

    class Crashes(Deaf):
        async def on_start(self) -> None:
            await super().on_start()
            lives.append(self)

        async def on_batch(self, batch: list[Do]) -> None:
            self.spawn(self._crash(), "crash")

        async def _crash(self) -> None:
            raise TidelogError("boom")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        if linked:
            supervisor.actor("b", lambda: Parent("b", log, Crashes("a", log)))
        else:
            supervisor.actor("a", lambda: Crashes("a", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: len(lives) == 1, 5)
        await world.until(lambda: lives[0].self_ref.alive, 5)
        await lives[0].self_ref.tell(Do("crash"))
        await world.until(lambda: len(lives) == 2 and supervisor.ready, 3 * END_S)
        assert "a ends" in log
        stop.set()
        await task

    run(main)


def test_a_task_that_is_ended_before_it_began_is_no_error() -> None:
    """Python warns of a coroutine that nobody awaited, and the tests take that for a failure."""

    class Spawns(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            self.spawn(self._never(), "never").cancel()

        async def _never(self) -> None:
            self.log.append("it began")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        ref = supervisor.actor("a", lambda: Spawns("a", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: supervisor.ready, 5)
        await ref.tell(Do("spawn"))
        await asyncio.sleep(1)
        stop.set()
        await task
        assert log == ["+a", "-a"]

    run(main)


def test_a_tree_in_an_actor_ends_whole_however_often_it_is_cancelled() -> None:
    """Two of its actors need longer than whoever ends it has patience for."""

    class Slow(Recorder):
        async def on_start(self) -> None:
            await super().on_start()
            self.spawn(self._tidy(), "tidies")

        async def _tidy(self) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await asyncio.sleep(0.8 * END_S)
                self.log.append(f"{self.name} tidied")

    class Adopter(Recorder):
        async def on_start(self) -> None:
            await super().on_start()
            self.spawn(self._adopt(), "adopts")

        async def _adopt(self) -> None:
            inner = Supervisor("inner")
            for name in ("x", "y"):
                inner.actor(name, functools.partial(Slow, name, self.log))
            try:
                await inner.run(asyncio.Event())
            finally:
                self.log.append("given back")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        a = supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Adopter("b", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: "+y" in log, 5)
        await a.tell(Do("crash"))
        await world.until(lambda: log.count("+y") == 2, 3 * END_S)
        assert log[4:] == ["y tidied", "x tidied", "given back", "+a", "+b", "+x", "+y"]
        stop.set()
        await task

    run(main)


def test_what_is_stuck_in_a_tree_below_ends_this_one() -> None:
    class Adopter(Recorder):
        async def on_start(self) -> None:
            await super().on_start()
            self.spawn(self._adopt(), "adopts")

        async def _adopt(self) -> None:
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                raise Stuck("of a tree below")

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        a = supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Adopter("b", log))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await world.until(lambda: supervisor.ready, 5)
        await a.tell(Do("crash"))
        with pytest.raises(Stuck, match="of a tree below"):
            await asyncio.wait_for(task, 5)

    run(main)


def test_an_orderly_stop_ends_where_something_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was started earlier may own what is still being written: its lock must not be let go."""
    monkeypatch.setattr(Deaf, "losses", END_TRIES + 1)

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Deaf("b", log))
        supervisor.actor("unsynced", lambda: Recorder("unsynced", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: supervisor.ready, 5)
        stop.set()
        with pytest.raises(Stuck, match="does not end"):
            await task
        assert "-unsynced" in log
        assert "-a" not in log

    run(main)


def test_who_is_cancelled_by_another_tells_what_is_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tree would give back what may still be written."""
    monkeypatch.setattr(Deaf, "losses", END_TRIES)

    class Slow(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            try:
                await super().on_batch(batch)
            finally:
                self.log.append("tidies")
                await asyncio.sleep(5)

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor = Supervisor("test")
        a = supervisor.actor("a", lambda: Recorder("a", log))
        b = supervisor.actor("b", lambda: Slow("b", log))
        supervisor.actor("c", lambda: Deaf("c", log))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await world.until(lambda: supervisor.ready, 5)
        await b.tell(Do("hang"))
        await a.tell(Do("crash"))
        await world.until(lambda: "tidies" in log, 4 * END_S)
        task.cancel()
        with pytest.raises(Stuck):
            await task

    run(main)


def test_a_fatal_error_that_one_ends_with_is_no_reason_to_restart_it() -> None:
    """Its own, noticed late, and that of another who is ended."""

    class Fails(Deaf):
        async def on_batch(self, batch: list[Do]) -> None:
            raise IoFailed("the last fsync failed")

    class Unsynced(Recorder):
        async def on_batch(self, batch: list[Do]) -> None:
            try:
                await super().on_batch(batch)
            finally:
                raise IoFailed("the last fsync failed")

    async def main(world: World) -> None:
        for factory, tell in ((Fails, "b"), (Unsynced, "a")):
            log: list[str] = []
            supervisor = Supervisor("test")
            refs = {"a": supervisor.actor("a", functools.partial(Recorder, "a", log))}
            refs["b"] = supervisor.actor("b", functools.partial(factory, "b", log))
            task = world.loop.create_task(supervisor.run(asyncio.Event()))
            await world.until(functools.partial(is_ready, supervisor), 5)
            await refs["b"].tell(Do("hang"))
            if tell == "a":
                await asyncio.sleep(1)
                await refs["a"].tell(Do("crash"))
            with pytest.raises(IoFailed):
                await asyncio.wait_for(task, 3 * END_S)
            assert log.count("+b") == 1

    run(main)


def is_ready(supervisor: Supervisor) -> bool:
    return supervisor.ready


def test_a_cancellation_lost_in_a_tree_below_is_repeated_there() -> None:
    """Whoever ends that tree cancels it just as often, and it begins to wait anew each time."""

    class Adopter(Recorder):
        async def on_start(self) -> None:
            await super().on_start()
            self.spawn(self._adopt(), "adopts")

        async def _adopt(self) -> None:
            inner = Supervisor("inner")
            inner.actor("x", functools.partial(Deaf, "x", self.log))
            await inner.run(asyncio.Event())

    async def main(world: World) -> None:
        log: list[str] = []
        supervisor, stop = Supervisor("test"), asyncio.Event()
        a = supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Adopter("b", log))
        task = world.loop.create_task(supervisor.run(stop))
        await world.until(lambda: "+x" in log, 5)
        await a.tell(Do("crash"))
        await world.until(lambda: log.count("+x") == 2, 2 * END_S)
        assert log[3:5] == ["lost", "x ends"]
        stop.set()
        await task

    run(main)


def test_a_thread_of_an_actor_below_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fresh instance must not meet it either."""

    async def main(world: World) -> None:
        loop, log = world.loop, list[str]()
        monkeypatch.setattr(loop, "run_in_executor", lambda *_: loop.create_future())
        supervisor = Supervisor("test")
        child = Recorder("c", log)
        a = supervisor.actor("a", lambda: Recorder("a", log))
        supervisor.actor("b", lambda: Parent("b", log, child))
        task = world.loop.create_task(supervisor.run(asyncio.Event()))
        await world.until(lambda: "+c" in log, 5)
        await child.self_ref.tell(Do("thread"))
        await asyncio.sleep(1)
        await a.tell(Do("crash"))
        with pytest.raises(Stuck, match=r"test.b left a call"):
            await asyncio.wait_for(task, 3 * END_S)

    run(main)


def test_of_several_errors_the_gravest_counts() -> None:
    stuck, fatal, known, bug = Stuck(""), IoFailed(""), TidelogError(""), ValueError("")
    for errors, told in (
        ([bug, known, fatal, stuck], stuck),
        ([bug, known, fatal], fatal),
        ([bug, known], known),
        ([bug], bug),
    ):
        assert first_error(ExceptionGroup("", [ExceptionGroup("", errors)])) is told
