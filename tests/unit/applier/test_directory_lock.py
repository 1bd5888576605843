"""An Applier of files begins anew in its process: the directory is free, and not too early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from tests.unit.applier.publisher import create
from tests.unit.applier.sim_rig import CONFIG, started
from tidelog.downstream import Downstream, DownstreamOptions
from tidelog.downstreams.files import FilesDownstream
from tidelog.downstreams.target import Target
from tidelog.errors import TidelogError
from tidelog.pb_files.reader import binlogs
from tidelog.ports import Disk
from tidelog.real.disk import RealDisk, RealLock
from tidelog.sim.life import Life
from tidelog.sim.world import World, run
from tidelog_applier.apply.applier import Applier


def files(open_disk: Callable[[str], Disk]) -> Callable[[DownstreamOptions, Life], Downstream]:
    return lambda options, _: FilesDownstream(Target.parse(options.url), open_disk)


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
        loop = world.loop

        def slow(_: object, call: Callable[..., object], *args: object) -> asyncio.Future[object]:
            done = loop.create_future()
            loop.call_later(2, lambda: done.set_result(call(*args)))
            return done

        monkeypatch.setattr(loop, "run_in_executor", slow)
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
