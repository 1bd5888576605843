"""Second copies whose Commit comes, or is found, after a restart (I2, I7): what readers were
promised by an earlier run counts, and what only that run could tell is not forgotten."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from tests.unit.pump.rig import CONFIG, NODE, Client, Registry, commit, prewrite, start
from tidelog import failpoints
from tidelog.errors import IoFailed, TidelogError
from tidelog.ports import Disk
from tidelog.sim import World, run
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.promised import NOTHING, PROMISED_FILE, Promise, PromisedFile, pack, unpack

EMBEDDED = msgspec.structs.replace(CONFIG, oracle="embedded", gen_binlog_interval=3600.0)


async def passed(world: World, registry: Registry, client: Client) -> tuple[int, int, int]:
    """start_ts and commit_ts of a transaction of another Pump, and a reader that is past it."""
    start_ts, commit_ts, now = registry.allocate(), registry.allocate(), registry.allocate()
    position = 0
    while position < commit_ts:
        position = (await client.pull(position, want_ts=now, feed="past")).resolved_ts
    await client.pull(position, feed="past", wait_ms=0)
    await world.sleep(3)  # Virtual: who reads here is saved each second.
    return start_ts, commit_ts, position


def shown(world: World) -> tuple[int, int]:
    status = world.node(NODE).service.status()["verifier"]
    return status["unverified"], status["missing"]


async def is_stopped(world: World, client: Client, position: int) -> None:
    """Nobody else has it: the reader that is past it must not go on."""
    await world.until(lambda: shown(world) == (0, 1), 60, "the verdict")
    assert (await client.pull(position, feed="past", wait_ms=0)).code == "LatePair"


@pytest.mark.parametrize("how", ["stop", "kill", "power"])
def test_a_commit_after_a_restart_is_late_for_who_was_past_it_before(how: str) -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, EMBEDDED)
        registry.pumps = [NODE]
        start_ts, commit_ts, position = await passed(world, registry, client)
        await client.done(prewrite(start_ts))
        node = world.node(NODE)
        if how == "stop":
            await node.stop()
        else:
            node.kill()
        if how == "power":
            # The lower bound that it may be then: what the reader says raises it.
            disk: Disk = node.ports().disk
            await disk.write_file(PROMISED_FILE, pack(NOTHING))
        node.restart()
        await client.until_online()
        await client.done(commit(start_ts, commit_ts))
        await is_stopped(world, client, position)

    run(main, 1)


def test_a_commit_that_was_not_indexed_before_the_kill_is_late_when_it_is_read_again() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, EMBEDDED)
        registry.pumps = [NODE]
        start_ts, commit_ts, position = await passed(world, registry, client)
        await client.done(prewrite(start_ts))
        await client.until_state(start_ts, "open")
        node, died = world.node(NODE), []

        def die() -> None:
            """The process ends; what it wrote stays."""
            failpoints.disarm_all()
            died.append(node)
            raise IoFailed("a failpoint")

        failpoints.arm("pump.indexer.before_write", die, 1)
        with contextlib.suppress(TidelogError):  # The kill may come before the answer.
            await client.done(commit(start_ts, commit_ts))
        await world.until(lambda: bool(died), 10)
        await client.until_online()
        await is_stopped(world, client, position)

    run(main, 2)


def test_an_unverified_late_copy_is_not_forgotten_with_the_index() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, EMBEDDED)
        start_ts, commit_ts, position = await passed(world, registry, client)
        await client.done(prewrite(start_ts), commit(start_ts, commit_ts))
        await world.until(lambda: shown(world) == (1, 0), 10)
        await world.sleep(2)
        node = world.node(NODE)
        for _ in range(2):
            await node.stop()
            node.indexes.clear()
            node.restart()
            await client.until_online()
            assert shown(world) == (1, 0)
        registry.pumps = [NODE]
        await is_stopped(world, client, position)

    run(main, 3)


def test_what_was_read_back_counts_from_its_place_in_the_log_on() -> None:
    promise = Promise(100, Pointer(2, 50))
    assert promise.broken_by(100, Place(2, 50, 9, 0))
    assert promise.broken_by(1, Place(3, 0, 9, 0))
    assert not promise.broken_by(101, Place(2, 50, 9, 0))
    assert not promise.broken_by(100, Place(2, 49, 9, 0))
    assert unpack(pack(promise)) == promise
    for bad in range(len(pack(promise))):
        data = bytearray(pack(promise))
        data[bad] ^= 1
        assert unpack(bytes(data)) is None
        assert unpack(pack(promise)[:bad]) is None


def test_a_damaged_file_promises_nothing_and_is_written_anew() -> None:
    async def main(world: World) -> None:
        disk = world.ports("node").disk
        await disk.write_file(PROMISED_FILE, b"no promise")
        file = PromisedFile(disk)
        await file.load()
        assert file.now == NOTHING
        file.note(Promise(7, Pointer(0, 8)))
        await file.close()
        again = PromisedFile(disk)
        await again.load()
        assert again.now == Promise(7, Pointer(0, 8))

    run(main, 4)
