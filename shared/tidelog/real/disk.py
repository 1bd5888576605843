"""The Disk port on a directory. Writes and syncs run in threads, reads on the loop.

After a failed write or fdatasync a file takes no more: the kernel may have marked its pages clean,
so a second fsync would lie (design section 3).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import NoReturn, TypeVar

from tidelog.actor import off_loop
from tidelog.errors import BadInput, DirectoryLocked, DiskFull, IoFailed
from tidelog.ports import Buffer, File, Lock

T = TypeVar("T")

IOV_MAX = 1024
REWRITE_BYTES = 1 << 20
FILE_MODE = 0o600
DIRECTORY_MODE = 0o700


def fail(what: str, error: OSError) -> NoReturn:
    """Raise the port's error for one of the system's."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        raise DiskFull(f"{what}: {error.strerror}") from error
    raise IoFailed(f"{what}: {error.strerror or error}") from error


def put(path: Path, data: bytes) -> None:
    """Have a small file hold this, which can be told again: it is not synced. It is replaced at
    once, so that nobody reads half of it, and not at all where it holds the same: that takes no
    room. Raises DiskFull, IoFailed."""
    draft = path.with_name(path.name + ".part")
    try:
        if path.exists() and path.read_bytes() == data:
            return
        draft.touch(mode=FILE_MODE)
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)  # on a full disk it would only be in the way
        fail(str(path), error)


def allow_open_files() -> None:
    """As many as the system lets this process have: a Pump keeps every segment open, and the usual
    1024 are reached with half a terabyte of them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard != resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class RealFile:
    """One file; the thread lock keeps a write that outlived its cancelled caller apart."""

    def __init__(self, path: str, fd: int) -> None:
        self._path = path
        self._fd = fd
        self._size = os.fstat(fd).st_size
        self._broken = ""
        self._closed = False
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        return self._size

    async def append(self, chunks: Sequence[Buffer], *, sync: bool) -> int:
        return await off_loop(self._append, chunks, sync)

    async def sync(self) -> None:
        await off_loop(self._guarded, self._sync)

    async def truncate(self, size: int) -> None:
        await off_loop(self._guarded, lambda: self._truncate(size))

    async def rewrite(self, start: int) -> None:
        await off_loop(self._guarded, lambda: self._rewrite(start))

    def read(self, offset: int, length: int) -> bytes:
        if self._closed:  # a write may still have it open, and close it at any moment
            raise IoFailed(f"{self._path}: the file is closed")
        try:
            data = os.pread(self._fd, length, offset)
            if len(data) == length or offset + len(data) >= self._size:
                return data
            parts = [data]
            missing = length - len(data)
            while missing and data:
                data = os.pread(self._fd, missing, offset + length - missing)
                parts.append(data)
                missing -= len(data)
        except OSError as error:
            fail(self._path, error)
        return b"".join(parts)

    def overwrite(self, data: bytes) -> None:
        def write() -> None:
            self._write_all([data], 0)
            self._size = max(self._size, len(data))

        self._guarded(write)

    def close(self) -> None:
        """A write that still runs in a thread goes on, and closes it then: on a disk that hangs the
        loop would wait for ever. Closing twice is no error."""
        self._closed = True
        self._close_if_free()

    def _close_if_free(self) -> None:
        """Whoever else has the lock comes here after it."""
        if self._closed and self._lock.acquire(blocking=False):
            try:
                fd, self._fd = self._fd, -1
                if fd >= 0:
                    os.close(fd)
            finally:
                self._lock.release()

    def _guarded(self, work: Callable[[], T]) -> T:
        try:
            return self._in_turn(work)
        finally:
            self._close_if_free()

    def _in_turn(self, work: Callable[[], T]) -> T:
        with self._lock:
            if self._closed:
                raise IoFailed(f"{self._path}: the file is closed")
            if self._broken:
                raise IoFailed(f"{self._path}: an earlier write failed: {self._broken}")
            try:
                return work()
            except OSError as error:
                self._broken = error.strerror or str(error)
                fail(self._path, error)

    def _append(self, chunks: Sequence[Buffer], sync: bool) -> int:
        def work() -> int:
            offset = self._size
            self._size += self._write_all(chunks, offset)
            if sync:
                os.fdatasync(self._fd)
            return offset

        return self._guarded(work)

    def _write_all(self, chunks: Sequence[Buffer], offset: int) -> int:
        """Gathered writes until everything is out; the kernel may take less than it was given."""
        written = 0
        rest: list[Buffer] = [chunk for chunk in chunks if len(chunk)]
        at = 0
        while at < len(rest):
            count = os.pwritev(self._fd, rest[at : at + IOV_MAX], offset + written)
            written += count
            while at < len(rest) and count >= memoryview(rest[at]).nbytes:
                count -= memoryview(rest[at]).nbytes
                at += 1
            if count:
                rest[at] = memoryview(rest[at]).cast("B")[count:]
        return written

    def _sync(self) -> None:
        os.fdatasync(self._fd)

    def _truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)
        os.fsync(self._fd)
        self._size = os.fstat(self._fd).st_size

    def _rewrite(self, start: int) -> None:
        at = start
        while at < self._size:
            data = os.pread(self._fd, REWRITE_BYTES, at)
            if not data:
                raise OSError(errno.EIO, f"the file ends at {at}")
            at += self._write_all([data], at)
        os.fsync(self._fd)


def _sign(fd: int) -> None:
    """Who holds a lock, for those who don't get it. (Of a full disk nobody is told.)"""
    with contextlib.suppress(OSError):
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"process {os.getpid()} on {socket.gethostname()}\n".encode(), 0)


class RealLock:
    def __init__(self, fd: int) -> None:
        self._fd = fd

    def release(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class _Turns:
    """Of one file's contents: a write whose caller was cancelled goes on in its thread, and must
    neither share its temporary file with the next one nor replace what that one wrote."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked = self.written = 0


class RealDisk:
    """A node's data directory, made when missing, for this user only."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self._turns: dict[str, _Turns] = {}
        allow_open_files()
        self._try(str(self.root), self._make_root)

    def _make_root(self) -> None:
        """Durably: a power loss must not take the directory with all that was synced in it."""
        missing = [place for place in (self.root, *self.root.parents) if not place.exists()]
        self.root.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        for place in missing:
            self._sync_dir(place.parent)

    def path(self, path: str) -> Path:
        """The place on the machine. Raises BadInput for a path that leaves the directory."""
        pure = PurePosixPath(path)
        if pure.is_absolute() or ".." in pure.parts:
            raise BadInput(f"{path!r} is no path within the data directory")
        return self.root / pure

    async def open(self, path: str, *, create: bool = False) -> File:
        def work() -> RealFile:
            flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            return RealFile(path, os.open(self.path(path), flags, FILE_MODE))

        return await off_loop(self._try, path, work)

    def exists(self, path: str) -> bool:
        return self._try(path, lambda: self.path(path).exists())

    def listdir(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self.path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            fail(path, error)

    def mkdir(self, path: str) -> None:
        place = self.root
        for part in self.path(path).relative_to(self.root).parts:
            place /= part
            self._try(path, partial(place.mkdir, mode=DIRECTORY_MODE, exist_ok=True))

    def size(self, path: str) -> int:
        return self._try(path, lambda: self.path(path).stat().st_size)

    def read_file(self, path: str) -> bytes:
        return self._try(path, lambda: self.path(path).read_bytes())

    async def write_file(self, path: str, data: bytes) -> None:
        place, turns = self.path(path), self._turns.setdefault(path, _Turns())
        turns.asked += 1
        await off_loop(self._try, path, partial(self._in_turn, turns, turns.asked, place, data))
        if turns.written == turns.asked and self._turns.get(path) is turns:
            del self._turns[path]  # nobody is left that could come too late

    def _in_turn(self, turns: _Turns, turn: int, place: Path, data: bytes) -> None:
        with turns.lock:
            if turn > turns.written:
                self._replace(place, data)
                turns.written = turn

    def _replace(self, place: Path, data: bytes) -> None:
        fresh = place.with_name(place.name + ".tmp")
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        try:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(fd, rest) :]
            os.fsync(fd)
        except OSError:
            os.unlink(fresh)  # on a full disk what there was of it would only be in the way
            raise
        finally:
            os.close(fd)
        os.replace(fresh, place)
        self._sync_dir(place.parent)

    def _sync_dir(self, place: Path) -> None:
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    async def remove(self, path: str) -> None:
        await off_loop(self._try, path, lambda: self.path(path).unlink())

    def drop(self, path: str) -> None:
        """Delete a directory with all that is in it; of a half deleted one no name is left."""

        def work() -> None:
            place = self.path(path)
            away = place.with_name(f"{place.name}.dropped")
            shutil.rmtree(away, ignore_errors=True)
            if place.exists():
                place.rename(away)
                self._sync_dir(place.parent)
                shutil.rmtree(away)

        self._try(path, work)

    async def sync_dir(self, path: str) -> None:
        await off_loop(self._try, path, lambda: self._sync_dir(self.path(path)))

    def free_bytes(self) -> int:
        state = self._try("free space", lambda: os.statvfs(self.root))
        return state.f_bavail * state.f_frsize

    def capacity_bytes(self) -> int:
        state = self._try("capacity", lambda: os.statvfs(self.root))
        return state.f_blocks * state.f_frsize

    def lock(self, path: str) -> Lock:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        fd = self._try(path, lambda: os.open(self.path(path), flags, FILE_MODE))
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(fd, 256, 0).decode(errors="replace").strip()
            os.close(fd)
            raise DirectoryLocked(
                f"{self.path(path)} is locked by {holder or 'another process'}"
            ) from error
        except OSError as error:
            os.close(fd)
            fail(path, error)
        _sign(fd)
        return RealLock(fd)

    @staticmethod
    def _try(what: str, work: Callable[[], T]) -> T:
        try:
            return work()
        except OSError as error:
            fail(what, error)
