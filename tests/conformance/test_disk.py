"""What every Disk does (tidelog.ports.Disk, File)."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.places import Place
from tidelog.errors import DirectoryLocked, ForeignDirectory, IoFailed
from tidelog.ports import File


async def _file(place: Place, path: str = "f") -> File:
    return await place.disk().open(path, create=True)


def test_append_gathers_and_returns_the_offset(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        assert file.size == 0
        assert await file.append([b"ab", bytearray(b"cd"), memoryview(b"ef")], sync=True) == 0
        assert await file.append([b""], sync=False) == 6
        assert await file.append([b"x"] * 3000, sync=False) == 6
        assert file.size == 3006
        assert file.read(0, 8) == b"abcdefxx"
        assert file.read(3004, 100) == b"xx"
        assert file.read(3006, 10) == b""
        file.close()

    place.run(scenario)


def test_what_one_handle_wrote_another_reads(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        await file.append([b"hello"], sync=True)
        file.close()
        again = await place.disk().open("f")
        assert again.size == 5
        assert again.read(0, 5) == b"hello"
        assert await again.append([b"!"], sync=True) == 5
        assert place.disk().read_file("f") == b"hello!"
        assert place.disk().size("f") == 6

    place.run(scenario)


def test_a_removed_file_lives_on_for_who_has_it_open(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        await place.disk().remove("f")
        assert place.disk().listdir("") == []
        assert await file.append([b"hello"], sync=False) == 0
        assert file.read(1, 3) == b"ell"
        file.close()
        assert not place.disk().exists("f")

    place.run(scenario)


def test_open_without_create_needs_the_file(place: Place) -> None:
    async def scenario(place: Place) -> None:
        with pytest.raises(IoFailed):
            await place.disk().open("nothing")
        with pytest.raises(IoFailed):
            place.disk().read_file("nothing")
        with pytest.raises(IoFailed):
            place.disk().size("nothing")
        with pytest.raises(IoFailed):
            await place.disk().remove("nothing")
        with pytest.raises(IoFailed):
            await place.disk().open("no/such/directory", create=True)

    place.run(scenario)


def test_truncate_cuts_and_appends_go_on_there(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        await file.append([b"0123456789"], sync=True)
        await file.truncate(4)
        assert file.size == 4
        assert await file.append([b"x"], sync=True) == 4
        assert place.disk().read_file("f") == b"0123x"

    place.run(scenario)


def test_rewrite_changes_nothing_that_is_read(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        content = bytes(range(256)) * 9000
        await file.append([content], sync=False)
        for start in (0, 7, len(content) - 1, len(content), len(content) + 5):
            await file.rewrite(start)
            assert file.size == len(content)
        assert place.disk().read_file("f") == content
        assert await file.append([b"x"], sync=True) == len(content)
        file.close()
        with pytest.raises(IoFailed):
            await file.rewrite(0)

    place.run(scenario)


def test_overwrite_writes_at_the_start(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        file.overwrite(b"12345678")
        file.overwrite(b"abc")
        assert file.size == 8
        assert file.read(0, 8) == b"abc45678"
        await file.sync()

    place.run(scenario)


def test_a_closed_file_takes_nothing(place: Place) -> None:
    async def scenario(place: Place) -> None:
        file = await _file(place)
        file.close()
        file.close()
        with pytest.raises(IoFailed):
            await file.append([b"x"], sync=False)
        with pytest.raises(IoFailed):
            await file.sync()
        with pytest.raises(IoFailed):
            file.overwrite(b"x")

    place.run(scenario)


def test_directories_and_listings(place: Place) -> None:
    async def scenario(place: Place) -> None:
        disk = place.disk()
        assert disk.listdir("d") == []
        disk.mkdir("d/e")
        disk.mkdir("d/e")
        assert disk.exists("d")
        assert disk.exists("d/e")
        for name in ("d/b", "d/a"):
            (await disk.open(name, create=True)).close()
        await disk.sync_dir("d")
        assert disk.listdir("d") == ["a", "b", "e"]
        await disk.remove("d/a")
        assert disk.listdir("d") == ["b", "e"]
        assert not disk.exists("d/a")
        with pytest.raises(IoFailed):
            await disk.sync_dir("none")

    place.run(scenario)


def test_write_file_replaces(place: Place) -> None:
    async def scenario(place: Place) -> None:
        disk = place.disk()
        await disk.write_file("state", b"one")
        await disk.write_file("state", b"two")
        assert disk.read_file("state") == b"two"
        assert disk.listdir(".") == ["state"]
        with pytest.raises(IoFailed):
            await disk.write_file("no/directory", b"x")

    place.run(scenario)


def test_a_write_that_outlives_its_caller_is_not_in_the_way_of_the_next(place: Place) -> None:
    async def scenario(place: Place) -> None:
        disk, loop = place.disk(), asyncio.get_running_loop()
        for number in range(100):
            outlived = loop.create_task(disk.write_file("state", b"x" * (1 << 16)))
            await asyncio.sleep(0)
            outlived.cancel()
            wanted = f"state {number}".encode()
            await disk.write_file("state", wanted)
            assert disk.read_file("state") == wanted
        await disk.write_file("other", b"")  # by now none of them is under way
        assert disk.read_file("state") == wanted

    place.run(scenario)


def test_a_lock_is_exclusive_until_released(place: Place) -> None:
    async def scenario(place: Place) -> None:
        lock = place.disk().lock("lock")
        with pytest.raises(ForeignDirectory):
            place.disk().lock("lock")
        lock.release()
        lock.release()
        place.disk().lock("lock").release()

    place.run(scenario)


def test_free_space_is_known(place: Place) -> None:
    async def scenario(place: Place) -> None:
        disk = place.disk()
        assert 0 < disk.free_bytes() <= disk.capacity_bytes()

    place.run(scenario)


def test_ports_within_a_directory_lie_there_and_nowhere_else(place: Place) -> None:
    async def scenario(place: Place) -> None:
        outer = place.ports()
        inner = outer.within("slot-0")
        assert outer.disk.exists("slot-0")
        await inner.disk.write_file("f", b"x")
        assert outer.disk.read_file("slot-0/f") == b"x"
        assert outer.within("slot-0").disk.listdir("") == ["f"]
        assert not outer.within("slot-1").disk.exists("f")
        lock = inner.disk.lock("lock")
        with pytest.raises(DirectoryLocked):
            outer.disk.lock("slot-0/lock")
        outer.disk.lock("lock").release()
        lock.release()
        first, second = inner.open_index("kv"), outer.within("slot-1").open_index("kv")
        first.write([(b"k", b"v")])
        assert second.get(b"k") is None
        first.close()
        inner.drop_index("kv")
        again = inner.open_index("kv")
        assert again.get(b"k") is None
        again.close()
        second.close()

    place.run(scenario)
