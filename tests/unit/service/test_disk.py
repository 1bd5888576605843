"""The Disk port on a directory: durability calls, errors, poisoning, locks, permissions."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tidelog.errors import BadInput, DiskFull, ForeignDirectory, IoFailed
from tidelog.real.disk import RealDisk, _Turns, put


def test_append_read_truncate(tmp_path: Path) -> None:
    async def run() -> None:
        disk = RealDisk(tmp_path / "data")
        disk.mkdir("a/b")
        file = await disk.open("a/b/x", create=True)
        assert (
            await file.append([b"one", bytearray(b"two"), memoryview(b"three"), b""], sync=True)
            == 0
        )
        assert await file.append([b"four"], sync=False) == 11
        await file.sync()
        assert (file.size, disk.size("a/b/x")) == (15, 15)
        assert (file.read(3, 3), file.read(11, 100), file.read(15, 1)) == (b"two", b"four", b"")
        many = [b"%d," % number for number in range(5000)]
        assert await file.append(many, sync=True) == 15
        assert file.read(15, 1 << 20) == b"".join(many)
        await file.truncate(6)
        file.overwrite(b"ONE")
        assert (file.size, file.read(0, 10)) == (6, b"ONEtwo")
        file.close()
        file.close()
        with pytest.raises(IoFailed):
            await file.append([b"x"], sync=False)
        again = await disk.open("a/b/x")
        assert again.size == 6
        again.close()

    asyncio.run(run())


def test_files_and_directories_are_this_users(tmp_path: Path) -> None:
    async def run() -> None:
        disk = RealDisk(tmp_path / "data")
        disk.mkdir("d/e")
        (await disk.open("d/x", create=True)).close()
        await disk.write_file("d/y", b"1")
        for path, mode in (
            ("", 0o700),
            ("d", 0o700),
            ("d/e", 0o700),
            ("d/x", 0o600),
            ("d/y", 0o600),
        ):
            assert stat.S_IMODE((tmp_path / "data" / path).stat().st_mode) == mode
        assert disk.listdir("d") == ["e", "x", "y"]

    asyncio.run(run())


def turns() -> int:
    gc.collect()
    return sum(isinstance(one, _Turns) for one in gc.get_objects())


def test_of_a_file_that_is_written_nothing_is_remembered(tmp_path: Path) -> None:
    """Each bulk job has one. (Disks of other tests may not be collected yet.)"""

    async def run() -> tuple[int, int]:
        disk, before = RealDisk(tmp_path), turns()
        jobs = [f"job-{number}" for number in range(20)]
        await asyncio.gather(*(disk.write_file(job, b"begun") for job in jobs * 2))
        return before, turns()

    before, after = asyncio.run(run())
    assert after <= before
    assert {path.read_bytes() for path in tmp_path.iterdir()} == {b"begun"}


def test_write_file_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async def run() -> None:
        disk = RealDisk(tmp_path)
        await disk.write_file("state", b"1")
        await disk.write_file("state", b"22")
        assert (disk.read_file("state"), disk.listdir("")) == (b"22", ["state"])
        await disk.remove("state")
        await disk.sync_dir("")
        assert not disk.exists("state")
        assert disk.free_bytes() > 0

    asyncio.run(run())


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    async def run() -> None:
        disk = RealDisk(tmp_path)
        assert disk.listdir("nowhere") == []
        with pytest.raises(IoFailed):
            await disk.open("x")
        with pytest.raises(IoFailed):
            await disk.open("nowhere/x", create=True)
        with pytest.raises(IoFailed):
            await disk.write_file("nowhere/x", b"")
        with pytest.raises(IoFailed):
            await disk.remove("x")
        for call in (disk.size, disk.read_file):
            with pytest.raises(IoFailed):
                call("x")
        for outside in ("/etc/passwd", "../x", "a/../../x"):
            with pytest.raises(BadInput):
                disk.exists(outside)

    asyncio.run(run())


def failing(number: int) -> Callable[..., int]:
    def fails(*_: object) -> int:
        raise OSError(number, os.strerror(number))

    return fails


@pytest.mark.parametrize(
    ("call", "number", "kind"),
    [
        ("pwritev", errno.EIO, IoFailed),
        ("pwritev", errno.ENOSPC, DiskFull),
        ("fdatasync", errno.EIO, IoFailed),
        ("fdatasync", errno.ENOSPC, DiskFull),
    ],
)
def test_after_a_failed_write_a_file_takes_no_more(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    call: str,
    number: int,
    kind: type[Exception],
) -> None:
    async def run() -> None:
        file = await RealDisk(tmp_path).open("x", create=True)
        await file.append([b"good"], sync=True)
        with monkeypatch.context() as patch:
            patch.setattr(f"tidelog.real.disk.os.{call}", failing(number))
            with pytest.raises(kind):
                await file.append([b"bad"], sync=True)
        for later in (file.append([b"more"], sync=False), file.sync(), file.truncate(0)):
            with pytest.raises(IoFailed, match="earlier"):
                await later
        assert file.read(0, 4) == b"good"
        file.close()

    asyncio.run(run())


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.pwritev

    def short(fd: int, chunks: list[bytes], offset: int) -> int:
        return real(fd, [memoryview(chunks[0])[:3]], offset)

    async def run() -> None:
        file = await RealDisk(tmp_path).open("x", create=True)
        monkeypatch.setattr("tidelog.real.disk.os.pwritev", short)
        await file.append([b"abcdefgh", b"", b"ij"], sync=True)
        assert file.read(0, 100) == b"abcdefghij"
        file.close()

    asyncio.run(run())


def test_a_close_does_not_wait_for_a_write_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the file until it ends. (Where the close waits, nobody lets the write go on.)"""
    real, begun, goes_on = os.pwritev, threading.Event(), threading.Event()

    def hang(fd: int, chunks: list[bytes], offset: int) -> int:
        begun.set()
        goes_on.wait()
        return real(fd, chunks, offset)

    async def run() -> None:
        disk = RealDisk(tmp_path)
        file = await disk.open("x", create=True)
        monkeypatch.setattr("tidelog.real.disk.os.pwritev", hang)
        write = asyncio.create_task(file.append([b"whole"], sync=True))
        await asyncio.to_thread(begun.wait)
        try:
            file.close()
            file.close()
            assert is_open(tmp_path / "x")
            with pytest.raises(IoFailed, match="closed"):
                file.read(0, 5)
        finally:
            goes_on.set()
        assert await write == 0
        assert disk.read_file("x") == b"whole"
        assert not is_open(tmp_path / "x")

    asyncio.run(run())


def is_open(place: Path) -> bool:
    """Has this process a descriptor of it?"""
    descriptors = Path("/proc/self/fd")
    return str(place) in {os.path.realpath(descriptors / fd) for fd in os.listdir(descriptors)}


def test_a_short_read_is_continued_up_to_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pread

    def short(fd: int, length: int, offset: int) -> bytes:
        return real(fd, min(length, 3), offset)

    async def run() -> None:
        file = await RealDisk(tmp_path).open("x", create=True)
        await file.append([b"abcdefghij"], sync=True)
        monkeypatch.setattr("tidelog.real.disk.os.pread", short)
        assert file.read(1, 8) == b"bcdefghi"
        assert file.read(8, 100) == b"ij"
        os.truncate(tmp_path / "x", 5)  # somebody else
        assert file.read(0, 10) == b"abcde"
        with pytest.raises(IoFailed, match="the file ends at 5"):
            await file.rewrite(0)
        file.close()

    asyncio.run(run())


def test_a_lock_is_exclusive_until_released_or_dead(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    lock = disk.lock("lock")
    with pytest.raises(ForeignDirectory):
        RealDisk(tmp_path).lock("lock")
    lock.release()
    lock.release()
    code = "import sys; from tidelog.real.disk import RealDisk; RealDisk(sys.argv[1]).lock('lock')"
    hold = f"{code}; print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        with pytest.raises(ForeignDirectory):
            disk.lock("lock")
        child.kill()
        child.wait(10)
        disk.lock("lock").release()


def test_a_read_or_a_list_that_fails_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        disk = RealDisk(tmp_path)
        file = await disk.open("x", create=True)
        await file.append([b"good"], sync=True)
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.real.disk.os.pread", failing(errno.EIO))
            with pytest.raises(IoFailed, match="x"):
                file.read(0, 4)
        assert file.read(0, 4) == b"good"
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.real.disk.os.listdir", failing(errno.EIO))
            with pytest.raises(IoFailed):
                disk.listdir(".")
        assert disk.listdir("x") == disk.listdir("nowhere") == []
        file.close()

    asyncio.run(run())


def test_a_file_that_could_not_be_replaced_is_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        disk = RealDisk(tmp_path)
        await disk.write_file("x", b"before")
        with monkeypatch.context() as patch:
            patch.setattr("tidelog.real.disk.os.fsync", failing(errno.ENOSPC))
            with pytest.raises(DiskFull):
                await disk.write_file("x", b"after")
        assert disk.listdir(".") == ["x"], "nothing of it is in the way"
        assert disk.read_file("x") == b"before"

    asyncio.run(run())


def test_a_file_system_without_locks_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = os.listdir("/proc/self/fd")
    with monkeypatch.context() as patch:
        patch.setattr("tidelog.real.disk.fcntl.flock", failing(errno.ENOLCK))
        with pytest.raises(IoFailed, match="lock"):
            RealDisk(tmp_path).lock("lock")
    assert len(os.listdir("/proc/self/fd")) == len(before)
    RealDisk(tmp_path).lock("lock").release()


def test_of_a_small_file_that_has_no_room_no_half_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was in the way of what frees the disk."""
    path, write = tmp_path / "small", Path.write_bytes
    put(path, b"as it was")

    def half(draft: Path, data: bytes) -> int:
        write(draft, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", half)
    with pytest.raises(DiskFull, match="small: No space left"):
        put(path, b"as it is to be")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("small", b"as it was")]
