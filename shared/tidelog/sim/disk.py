"""The simulated Disk port: directory entries and bytes that are durable only when synced.

`SimDisk` is the hardware of one node and outlives its processes; `SimDisk.mount(life)` is the port
that one process gets. `crash` is a power loss: what was not synced may be lost, in any order, a new
directory with everything in it too. `image` and `restore` are for who wants every such loss.
"""

from __future__ import annotations

import asyncio
import posixpath
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidelog.errors import DirectoryLocked, DiskFull, IoFailed
from tidelog.ports import File, Lock
from tidelog.sim.faults import Injected
from tidelog.sim.file import SimFile
from tidelog.sim.inode import DiskImage, Inode
from tidelog.sim.life import Life
from tidelog.sim.trace import Trace

KINDS = {
    "io": Injected.IO_ERROR,
    "full": Injected.DISK_FULL,
    "short": Injected.SHORT_WRITE,
    "lost": Injected.LOST_PAGES,
}
"""What `fail_nth` can do."""

FOLDER = Inode()
"""What the entry of a directory leads to: of itself it holds nothing."""


@dataclass
class DiskFaults:
    """Seconds a call takes on average, chances per call, and what is injected on demand."""

    write_s: float = 0.00005
    sync_s: float = 0.0006
    stall_chance: float = 0.002
    stall_s: float = 0.05
    fail_chance: float = 0.0
    capacity: int = 1 << 40
    keeps_unsynced: bool = True
    """A power loss may leave what was not synced, as real disks do; else it takes all of it."""


class SimDisk:
    def __init__(
        self, name: str, rng: random.Random, trace: Trace, faults: DiskFaults | None = None
    ) -> None:
        self.name = name
        self.faults = faults or DiskFaults()
        self._room: int | None = None
        """Of a full disk: the bytes that were freed since. None: it is not full."""
        self.slow_s = 0.0
        """What each call takes longer on average."""
        self.calls = 0
        self.crashes = 0
        self.failed: list[str] = []
        """The paths of the calls that failed on demand."""
        self._fail_at: dict[int, str] = {}
        self._rng = rng
        self._trace = trace
        self._names: dict[str, Inode] = {}
        self._durable_names: dict[str, Inode] = {}
        self._entries: dict[str, list[tuple[str, Inode | None]]] = {}
        """Per directory, the changes of entries not synced yet, in order."""
        self._locks: dict[str, Life] = {}
        self.on_change: Callable[[], None] = _nothing
        """Called in the instant after every change of what a power loss could leave."""

    @property
    def full(self) -> bool:
        """Nothing is left, but for what is deleted from now on."""
        return self._room is not None

    @full.setter
    def full(self, full: bool) -> None:
        self._room = 0 if full else None

    def mount(self, life: Life, at: str = "") -> MountedDisk:
        """`at`: a directory, made when missing, that the paths are relative to."""
        mounted = MountedDisk(self, life, at)
        if at:
            mounted.mkdir("")
        return mounted

    def fail_nth(self, nth: int, what: str = "io") -> None:
        """The nth changing call from now on fails: `io` (EIO), `full` (ENOSPC; a sync needs no
        space), `short` (EIO after half of it), or `lost`: as `io`, and a sync leaves all pages
        marked clean that never got out, which after `io` it may."""
        self._fail_at[self.calls + nth] = what

    def clear_faults(self) -> None:
        """Nothing injected comes any more."""
        self.full = False
        self.slow_s = 0.0
        self.faults.fail_chance = 0.0
        self._fail_at.clear()

    def used(self) -> int:
        return sum(len(inode.data) for inode in self._names.values())

    def crash(self) -> None:
        """Power loss: drop what was not synced, in any way that a file system may."""
        self.crashes += 1
        for directory in sorted(self._entries):
            changes = self._entries[directory]
            survivors = self._survivors(changes)
            if len(survivors) < len(changes):
                self._trace.inject(self.name, Injected.LOST_ENTRY, f"in {directory or '.'}")
            for path, inode in survivors:
                self._set_entry(self._durable_names, path, inode)
        self._entries.clear()
        self._names = reachable(self._durable_names)
        self._durable_names = dict(self._names)
        rng = self._rng if self.faults.keeps_unsynced else None
        files = [(path, inode) for path, inode in self._names.items() if inode is not FOLDER]
        lost = 0
        for path, inode in sorted(files):
            of_it = inode.crash(rng)
            lost += of_it.bytes
            if of_it.writes:
                self._trace.inject(self.name, Injected.LOST_WRITE, path)
            if of_it.torn:
                self._trace.inject(self.name, Injected.TORN_WRITE, path)
        self._locks.clear()
        self._trace.event(self.name, "disk.crash", f"lost {lost} of {self.digest()}")

    def wipe(self) -> None:
        """Lose the volume."""
        for content in (self._names, self._durable_names, self._entries, self._locks):
            content.clear()

    def image(self) -> DiskImage:
        """What is durable and what is pending, now."""
        inodes = {id(inode): inode for inode in self._durable_names.values()}
        for changes in self._entries.values():
            inodes.update((id(inode), inode) for _, inode in changes if inode is not None)
        return DiskImage(
            {path: id(inode) for path, inode in self._durable_names.items()},
            {
                directory: [(path, None if inode is None else id(inode)) for path, inode in changes]
                for directory, changes in self._entries.items()
                if changes
            },
            {key: inode.image() for key, inode in inodes.items() if inode is not FOLDER},
        )

    def restore(self, files: Mapping[str, bytes | None]) -> None:
        """Hold exactly these files, all durable; None stands for a directory."""
        self.wipe()
        for path, data in files.items():
            held = FOLDER if data is None else Inode(bytearray(data), bytearray(data))
            self._names[path] = self._durable_names[path] = held

    def holds(self, path: str) -> bool:
        """Is there such a file, whatever the power does now?"""
        return path in self._durable_names

    def lose(self, path: str) -> None:
        """Lose one file, for good; no error if there is none."""
        for names in (self._names, self._durable_names):
            names.pop(path, None)
        for changes in self._entries.values():
            changes[:] = [change for change in changes if change[0] != path]

    def digest(self) -> str:
        return f"{len(self._names)} files {self.used()} bytes"

    def _survivors(self, changes: list[tuple[str, Inode | None]]) -> list[tuple[str, Inode | None]]:
        mode = self._rng.randrange(4) if self.faults.keeps_unsynced else 0
        if mode == 0:
            return []
        if mode == 1:
            return changes
        if mode == 2:
            return changes[: self._rng.randrange(len(changes) + 1)]
        return [change for change in changes if self._rng.random() < 0.5]

    @staticmethod
    def _set_entry(names: dict[str, Inode], path: str, inode: Inode | None) -> None:
        if inode is None:
            names.pop(path, None)
        else:
            names[path] = inode

    def _change_entry(self, path: str, inode: Inode | None) -> None:
        self._set_entry(self._names, path, inode)
        self._entries.setdefault(posixpath.dirname(path), []).append((path, inode))
        self.on_change()

    def _freed(self, size: int) -> None:
        if self._room is not None:
            self._room += size

    def _is_dir(self, path: str) -> bool:
        return not path or self._names.get(path) is FOLDER

    async def _take_time(self, mean_s: float) -> None:
        rng, faults = self._rng, self.faults
        seconds = rng.random() * 2 * (mean_s + self.slow_s)
        if rng.random() < faults.stall_chance:
            self._trace.inject(self.name, Injected.STALLED)
            seconds += rng.random() * faults.stall_s
        await asyncio.sleep(seconds)

    def _fault(self, path: str, *, grows: bool, size: int = 1) -> str:
        """What happens to this changing call: nothing, or one of the kinds of `fail_nth`. One that
        needs no space never finds the disk full."""
        self.calls += 1
        fault = self._fault_of_room(size) if grows else ""
        if self._room is None and not fault:
            if self.faults.fail_chance and self._rng.random() < self.faults.fail_chance:
                fault = "io"
            else:
                fault = self._fault_on_demand(path, grows=grows)
        return self._told(path, fault)

    def _fault_of_room(self, size: int) -> str:
        if self._room is None:
            return "full" if size > self.faults.capacity - self.used() else ""
        if size > self._room:
            return "full"
        self._room -= size
        return ""

    def _told(self, path: str, fault: str) -> str:
        if fault:
            self._trace.inject(self.name, KINDS[fault], path)
        return fault

    def _fault_on_demand(self, path: str, *, grows: bool) -> str:
        fault = self._fail_at.pop(self.calls, "")
        if fault == "full" and not grows:
            return ""
        if fault:
            self.failed.append(path or ".")
        return fault


class MountedDisk:
    """The Disk port of one process."""

    def __init__(self, disk: SimDisk, life: Life, at: str) -> None:
        self._disk = disk
        self._life = life
        self._at = at

    def _path(self, path: str) -> str:
        return _normal(posixpath.join(self._at, path))

    async def open(self, path: str, *, create: bool = False) -> File:
        self._life.check()
        disk, path = self._disk, self._path(path)
        await disk._take_time(disk.faults.write_s)
        self._life.check()
        if path not in disk._names:
            if not create:
                raise IoFailed(f"{path}: no such file")
            self._refuse(path)
            self._need_dir(path)
            disk._change_entry(path, Inode())
            disk._trace.event(disk.name, "disk.create", path)
        if disk._is_dir(path):
            raise IoFailed(f"{path}: is a directory")
        return SimFile(disk, self._life, path, disk._names[path])

    def exists(self, path: str) -> bool:
        self._life.check()
        path = self._path(path)
        return path in self._disk._names or not path

    def listdir(self, path: str) -> list[str]:
        self._life.check()
        path = self._path(path)
        names = self._disk._names
        return sorted(posixpath.basename(p) for p in names if posixpath.dirname(p) == path)

    def mkdir(self, path: str) -> None:
        self._life.check()
        parts = self._path(path).split("/")
        for count in range(1, len(parts) + 1):
            place = "/".join(parts[:count])
            if not self._disk._is_dir(place):
                self._disk._change_entry(place, FOLDER)

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def read_file(self, path: str) -> bytes:
        return bytes(self._inode(path).data)

    async def write_file(self, path: str, data: bytes) -> None:
        self._life.check()
        disk, path = self._disk, self._path(path)
        self._need_dir(path)
        self._refuse(path, size=len(data))
        replaced = disk._names.get(path, FOLDER)
        fresh, temporary = Inode(), f"{path}.tmp"
        disk._change_entry(temporary, fresh)
        fresh.write(0, bytes(data))
        disk.on_change()
        await disk._take_time(disk.faults.write_s + disk.faults.sync_s)
        self._life.check()
        self._injected(path)
        fresh.synced_up_to(fresh.written)
        disk._change_entry(path, fresh)
        disk._change_entry(temporary, None)
        disk._freed(len(replaced.data))
        await disk._take_time(disk.faults.sync_s)
        self._life.check()
        self._injected(path)
        self._entries_durable(path)
        disk._trace.event(disk.name, "disk.write_file", f"{path} {len(data)}")

    async def remove(self, path: str) -> None:
        self._life.check()
        disk, given, path = self._disk, path, self._path(path)
        await disk._take_time(disk.faults.write_s / 2)
        self._life.check()
        size = len(self._inode(given).data)
        self._refuse(path, frees=True)
        disk._change_entry(path, None)
        disk._freed(size)
        disk._trace.event(disk.name, "disk.remove", path)
        # It is gone before the caller learns of it; one that is cancelled meanwhile never does.
        await disk._take_time(disk.faults.write_s / 2)

    async def sync_dir(self, path: str) -> None:
        self._life.check()
        disk, path = self._disk, self._path(path)
        if not disk._is_dir(path):
            raise IoFailed(f"{path}: no such directory")
        pending = len(disk._entries.get(path, ()))
        await disk._take_time(disk.faults.sync_s)
        self._life.check()
        self._refuse(path, frees=True)
        self._make_durable(path, pending)
        disk._trace.event(disk.name, "disk.sync_dir", path)

    def free_bytes(self) -> int:
        self._life.check()
        disk = self._disk
        left = max(0, disk.faults.capacity - disk.used())
        return left if disk._room is None else min(left, disk._room)

    def capacity_bytes(self) -> int:
        self._life.check()
        return self._disk.faults.capacity

    def lock(self, path: str) -> Lock:
        self._life.check()
        path = self._path(path)
        holder = self._disk._locks.get(path)
        if holder is not None and holder.alive:
            raise DirectoryLocked(f"{path} is locked by {holder.name} {holder.number}")
        self._disk._locks[path] = self._life
        return SimLock(self._disk, path, self._life)

    def _inode(self, path: str) -> Inode:
        self._life.check()
        inode = self._disk._names.get(self._path(path))
        if inode is None or inode is FOLDER:
            raise IoFailed(f"{path}: no such file")
        return inode

    def _need_dir(self, path: str) -> None:
        if not self._disk._is_dir(posixpath.dirname(path)):
            raise IoFailed(f"{path}: no such directory")

    def _refuse(self, path: str, *, frees: bool = False, size: int = 1) -> None:
        self._fail(path, self._disk._fault(path, grows=not frees, size=size))

    def _injected(self, path: str) -> None:
        """A later step of the same call: only what was injected on demand can fail it."""
        disk = self._disk
        disk.calls += 1
        self._fail(path, disk._told(path, disk._fault_on_demand(path, grows=True)))

    @staticmethod
    def _fail(path: str, fault: str) -> None:
        if fault in ("io", "short", "lost"):
            raise IoFailed(f"{path}: input/output error (injected)")
        if fault == "full":
            raise DiskFull(f"{path}: no space left (injected)")

    def _entries_durable(self, path: str) -> None:
        directory = posixpath.dirname(path)
        self._make_durable(directory, len(self._disk._entries.get(directory, ())))

    def _make_durable(self, directory: str, count: int) -> None:
        disk = self._disk
        changes = disk._entries.get(directory, [])
        for changed, inode in changes[:count]:
            disk._set_entry(disk._durable_names, changed, inode)
        del changes[:count]
        disk.on_change()


class SimLock:
    def __init__(self, disk: SimDisk, path: str, life: Life) -> None:
        self._disk = disk
        self._path = path
        self._life = life

    def release(self) -> None:
        if self._disk._locks.get(self._path) is self._life:
            del self._disk._locks[self._path]


def reachable(names: Mapping[str, Inode]) -> dict[str, Inode]:
    """The entries of directories that are there themselves."""
    found: dict[str, Inode] = {}
    for path in sorted(names):
        parent = posixpath.dirname(path)
        if not parent or found.get(parent) is FOLDER:
            found[path] = names[path]
    return found


def _nothing() -> None:
    """Nobody watches."""


def _normal(path: str) -> str:
    """Relative, without `.` parts; the data directory itself is the empty path."""
    clean = posixpath.normpath(path)
    return "" if clean == "." else clean.lstrip("/")
