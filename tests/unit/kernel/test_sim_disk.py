"""The simulated disk keeps exactly what was synced, and loses the rest in every way."""

from __future__ import annotations

import functools

import pytest

from tidelog.errors import DiskFull, ForeignDirectory, IoFailed
from tidelog.ports import Ports
from tidelog.sim import World, run


async def _durable_file(ports: Ports, path: str) -> None:
    await ports.disk.open(path, create=True)
    await ports.disk.sync_dir("")


@pytest.mark.parametrize("seed", range(40))
def test_synced_bytes_survive_and_what_survives_beyond_is_a_plausible_rest(seed: int) -> None:
    async def main(world: World) -> bytes:
        ports = world.ports("n")
        await _durable_file(ports, "f")
        file = await ports.disk.open("f")
        await file.append([b"synced" * 100], sync=True)
        await file.append([b"A" * 1000], sync=False)
        await file.append([b"B" * 1000], sync=False)
        world.nodes["n"].kill()
        content = world.ports("n").disk.read_file("f")
        assert content.startswith(b"synced" * 100)
        rest = content[600:]
        assert len(rest) <= 2000
        assert not rest[:1000].strip(b"A\0")
        assert not rest[1000:].strip(b"B\0")
        return rest

    run(main, seed)


def test_crashes_differ_from_seed_to_seed() -> None:
    async def main(world: World) -> bytes:
        ports = world.ports("n")
        await _durable_file(ports, "f")
        file = await ports.disk.open("f")
        for letter in b"ABCD":
            await file.append([bytes([letter]) * 700], sync=False)
        world.nodes["n"].kill()
        return world.ports("n").disk.read_file("f")

    outcomes = {run(main, seed) for seed in range(60)}
    whole = b"".join(bytes([letter]) * 700 for letter in b"ABCD")
    assert b"" in outcomes
    assert whole in outcomes
    assert any(b"\0" in content for content in outcomes), "no write was lost before a kept one"
    assert any(len(content) % 700 for content in outcomes), "no write was torn"


def test_a_new_file_needs_its_directory_synced() -> None:
    async def main(world: World) -> bool:
        ports = world.ports("n")
        file = await ports.disk.open("f", create=True)
        await file.append([b"x"], sync=True)
        world.nodes["n"].kill()
        return world.ports("n").disk.exists("f")

    assert {run(main, seed) for seed in range(30)} == {True, False}


@pytest.mark.parametrize("seed", range(20))
def test_write_file_is_old_or_new_and_never_between(seed: int) -> None:
    async def main(world: World) -> None:
        ports = world.ports("n")
        await ports.disk.write_file("f", b"old" * 1000)
        writing = world.loop.create_task(ports.disk.write_file("f", b"new!" * 1000))
        await world.sleep(world.random("moment").random() * 0.004)
        done = writing.done()
        world.nodes["n"].kill()
        content = world.ports("n").disk.read_file("f")
        assert content in (b"old" * 1000, b"new!" * 1000)
        if done:
            assert content == b"new!" * 1000

    run(main, seed)


def test_a_failed_write_poisons_the_file() -> None:
    async def main(world: World) -> None:
        ports = world.ports("n")
        await _durable_file(ports, "f")
        file = await ports.disk.open("f")
        world.nodes["n"].disk.fail_nth(1)
        with pytest.raises(IoFailed):
            await file.append([b"x" * 100], sync=True)
        with pytest.raises(IoFailed):
            await file.append([b"y"], sync=True)
        with pytest.raises(IoFailed):
            await file.sync()

    run(main)


def test_every_nth_call_can_be_made_to_fail() -> None:
    async def attempt(world: World, nth: int) -> bool:
        ports = world.ports("n")
        world.node("n").disk.fail_nth(nth)
        file = await ports.disk.open("f", create=True)
        await ports.disk.sync_dir("")
        await file.append([b"x"], sync=True)
        await ports.disk.write_file("g", b"y")
        await ports.disk.remove("g")
        return True

    nth = 1
    while True:
        try:
            run(functools.partial(attempt, nth=nth))
        except IoFailed:
            nth += 1
        else:
            break
    assert nth == 1 + 8  # open, sync_dir, write and sync, the three steps of write_file, remove


def test_a_crash_may_take_a_directory_whose_entry_was_not_synced() -> None:
    async def main(world: World, *, synced: bool) -> bool:
        disk = world.ports("n").disk
        disk.mkdir("d")
        if synced:
            await disk.sync_dir(".")
        await (await disk.open("d/f", create=True)).append([b"x"], sync=True)
        await disk.sync_dir("d")
        world.nodes["n"].kill()
        return world.ports("n").disk.exists("d/f")

    assert {run(functools.partial(main, synced=False), seed) for seed in range(30)} == {True, False}
    assert {run(functools.partial(main, synced=True), seed) for seed in range(30)} == {True}


@pytest.mark.parametrize("again", ["sync", "rewrite"])
def test_what_a_failed_sync_left_is_saved_by_writing_it_again_only(again: str) -> None:
    async def main(world: World) -> bytes:
        disk = world.ports("n").disk
        await _durable_file(world.ports("n"), "f")
        file = await disk.open("f")
        world.nodes["n"].disk.fail_nth(2)
        with pytest.raises(IoFailed):
            await file.append([b"tail"], sync=True)
        fresh = await disk.open("f")
        assert fresh.read(0, 100).endswith(b"tail")
        await (fresh.sync() if again == "sync" else fresh.rewrite(fresh.size - 4))
        world.nodes["n"].kill()
        return world.ports("n").disk.read_file("f")

    kept = {run(main, seed).endswith(b"tail") for seed in range(20)}
    assert kept == ({True, False} if again == "sync" else {True})


def test_a_full_disk_refuses_writes_and_still_reads_and_frees() -> None:
    async def main(world: World) -> None:
        ports = world.ports("n")
        await ports.disk.write_file("f", b"x")
        disk = world.nodes["n"].disk
        disk.full = True
        assert ports.disk.free_bytes() == 0
        with pytest.raises(DiskFull):
            await ports.disk.write_file("g", b"y")
        assert ports.disk.read_file("f") == b"x"
        await ports.disk.remove("f")
        disk.full = False
        await ports.disk.write_file("g", b"y")

    run(main)


def test_the_lock_dies_with_its_process() -> None:
    async def main(world: World) -> None:
        node = world.node("n")
        first = node.ports()
        first.disk.lock("lock")
        with pytest.raises(ForeignDirectory):
            first.disk.lock("lock")
        node.end()
        node.ports().disk.lock("lock")

    run(main)


@pytest.mark.parametrize("seed", range(10))
def test_a_hint_may_be_old_or_torn_after_power_loss(seed: int) -> None:
    async def main(world: World) -> None:
        ports = world.ports("n")
        await _durable_file(ports, "hint")
        file = await ports.disk.open("hint")
        for value in range(10):
            file.overwrite(bytes([value]) * 16)
        world.nodes["n"].kill()
        content = world.ports("n").disk.read_file("hint")
        assert len(content) <= 16

    run(main, seed)


def test_the_index_loses_only_whole_last_writes() -> None:
    async def main(world: World) -> int:
        index = world.ports("n").open_index("i")
        for number in range(100):
            key = number.to_bytes(4, "big")
            index.write([(b"k" + key, key), (b"head", key)])
        world.nodes["n"].kill()
        index = world.ports("n").open_index("i")
        kept = len(index.scan(b"k", b"l", 1000))
        if kept:
            assert index.get(b"head") == (kept - 1).to_bytes(4, "big")
        assert index.get(b"k" + kept.to_bytes(4, "big")) is None
        return kept

    kept = {run(main, seed) for seed in range(30)}
    assert 100 in kept
    assert min(kept) < 100
