"""An Applier of files begins anew in its process: the directory is free, and not too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import CONFIG, started
from tidelog.actor import Actor, Cell, Nothing, Ref
from tidelog.downstream import Checkpoint, Downstream, DownstreamOptions
from tidelog.downstreams.files import FilesDownstream
from tidelog.downstreams.target import Target
from tidelog.errors import DirectoryLocked, TidelogError
from tidelog.pb_files import names
from tidelog.pb_files.reader import binlogs
from tidelog.ports import Disk
from tidelog.real.disk import RealDisk, RealLock
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.apply.applier import Applier


def files(open_disk: Callable[[str], Disk]) -> Callable[[DownstreamOptions, Life], Downstream]:
    return lambda options, _: FilesDownstream(Target.parse(options.url), open_disk)


def slow_calls(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those in threads take two seconds each, and do what they do at the end of that."""
    loop = world.loop

    def slow(_: object, call: Callable[..., object], *args: object) -> asyncio.Future[object]:
        done = loop.create_future()

        def end() -> None:
            try:
                done.set_result(call(*args))
            except TidelogError as error:
                done.set_exception(error)

        loop.call_later(2, end)
        return done

    monkeypatch.setattr(loop, "run_in_executor", slow)


def test_the_next_instance_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It crashes while a write runs in a thread. The lock is let go once that has ended."""
    crashed: list[Applier] = []
    running_at_release: list[int] = []
    tick, release = Applier.on_tick, RealLock.release

    async def crash(applier: Applier) -> None:
        if not crashed and applier._cell.calls:
            crashed.append(applier)
            raise TidelogError("planned")
        await tick(applier)

    def let_go(lock: RealLock) -> None:
        running_at_release.extend(len(applier._cell.calls) for applier in crashed)
        release(lock)

    async def main(world: World) -> None:
        slow_calls(world, monkeypatch)
        monkeypatch.setattr(RealLock, "release", let_go)
        monkeypatch.setattr(Applier, "on_tick", crash)
        world.open_downstream = files(RealDisk)
        config = msgspec.structs.replace(CONFIG, downstream=f"file://{tmp_path}/out")
        publisher, node = await started(world, config)
        await publisher.rows(t=[create(1, 1)])
        await world.until(lambda: node.service.restarts_total == 1, 30, "the crash")
        await publisher.rows(t=[create(2, 2)])
        last = publisher.commit_ts

        def told() -> list[int]:
            return [one.commit_ts for one in binlogs(tmp_path / "out")]

        await world.until(lambda: told()[-1:] == [last], 60, "the row behind it")
        assert running_at_release == [0]
        assert told() == sorted(set(told()))
        assert (node.starts, node.failures) == (1, [])

    run(main)


class Opens(Actor[Nothing]):
    """And says how far it is."""

    def __init__(self, directory: Path) -> None:
        self._downstream = FilesDownstream(Target.parse(f"file://{directory}"), RealDisk)
        self.is_open = False

    async def on_start(self) -> None:
        self.spawn(self._open(), "open")

    async def _open(self) -> None:
        try:
            await self._downstream.open("f")
            self.is_open = True
            await self._downstream.save_checkpoint(Checkpoint(1))
        finally:
            await self._downstream.close()


@pytest.mark.parametrize("opened", [False, True], ids=["as it opens", "as it writes"])
def test_who_is_cancelled_keeps_the_lock_while_its_call_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: bool
) -> None:
    async def main(world: World) -> None:
        slow_calls(world, monkeypatch)
        actor = Opens(tmp_path)
        cell: Cell[Nothing] = Cell(Ref("files"), actor)
        living = world.loop.create_task(cell.run())
        await world.until(lambda: bool(cell.calls) and actor.is_open is opened, 30)
        living.cancel()
        await asyncio.wait([living])
        assert cell.calls
        with pytest.raises(DirectoryLocked):
            RealDisk(tmp_path).lock(names.LOCK)
        await world.until(lambda: not cell.calls, 5)
        RealDisk(tmp_path).lock(names.LOCK).release()

    run(main)


class Reopens(Opens):
    async def _open(self) -> None:
        await self._downstream.open("f")
        saving = asyncio.create_task(self._downstream.save_checkpoint(Checkpoint(1)))
        await asyncio.sleep(1)
        saving.cancel()
        await self._downstream.open("f")
        self.is_open = True
        await self._downstream.close()


def test_who_opens_anew_waits_for_its_own_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main(world: World) -> None:
        slow_calls(world, monkeypatch)
        actor = Reopens(tmp_path)
        cell: Cell[Nothing] = Cell(Ref("files"), actor)
        living = world.loop.create_task(cell.run())
        await world.until(lambda: actor.is_open or living.done(), 30)
        cell.stop()
        await living

    run(main)
