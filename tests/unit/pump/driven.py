"""The value log on a simulated disk that takes no time: no loop, thousands of openings a second."""

from __future__ import annotations

import random
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest
from crc32c import crc32c

from tidelog.sim.disk import DiskFaults, MountedDisk, SimDisk
from tidelog.sim.file import SimFile
from tidelog.sim.life import Life
from tidelog.sim.trace import Trace
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments

T = TypeVar("T")
START = Pointer(0, 0)


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run what waits for nothing but the loop's next turn."""
    while True:
        try:
            waited_for = work.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result
        assert waited_for is None, waited_for


def interrupted(work: Coroutine[Any, Any, object], turns: int) -> bool:
    """Give it some turns of the loop; True if it wasn't done by then, and is no more."""
    for _ in range(turns):
        try:
            work.send(None)
        except StopIteration:
            return False
    work.close()
    return True


class QuietTrace(Trace):
    def event(self, node: str, what: str, detail: object = "", data: bytes = b"") -> None:
        """Nobody compares these runs."""


class Machine:
    """A disk, and the processes that use it one after the other."""

    def __init__(self, seed: int = 0, segment_bytes: int = 1 << 30, *, sync: bool = True) -> None:
        faults = DiskFaults(write_s=0, sync_s=0, stall_chance=0)
        self.disk = SimDisk("d", random.Random(seed), QuietTrace(lambda: 0.0), faults)
        self.segment_bytes = segment_bytes
        self.sync = sync
        self._life = Life("p")

    def mount(self) -> MountedDisk:
        """Of a fresh process; the one before is dead."""
        self._life.alive = False
        self._life = Life("p", self._life.number + 1)
        return self.disk.mount(self._life)

    def segments(self) -> Segments:
        return Segments(self.mount(), segment_bytes=self.segment_bytes, sync=self.sync)

    def opened(self) -> Segments:
        segments = self.segments()
        drive(segments.open())
        return segments

    def files(self) -> dict[str, bytes | None]:
        """Everything in `value/`, as `SimDisk.restore` takes it."""
        mounted = self.disk.mount(Life("look"))
        names = [f"value/{entry}" for entry in mounted.listdir("value")]
        return {"value": None, **{path: mounted.read_file(path) for path in names}}


def append(segments: Segments, payloads: list[bytes], max_ts: int) -> list[Pointer]:
    frames = [framed(payload) for payload in payloads]
    drive(segments.rotate(sum(map(len, frames))))
    fid, offset = drive(segments.append(frames, max_ts))
    pointers = []
    for frame in frames:
        pointers.append(Pointer(fid, offset))
        offset += len(frame)
    return pointers


def framed(payload: bytes) -> bytes:
    """By the field's own words (original.md B.1), not by the code under test."""
    magic, length = 0x823A56E8, len(payload)
    check = crc32c(payload)
    return b"".join(
        [magic.to_bytes(4, "little"), length.to_bytes(8, "little"), check.to_bytes(4, "little")]
    ) + bytes(payload)


def footed(max_ts: int) -> bytes:
    return max_ts.to_bytes(8, "little") + (0x123AB922).to_bytes(4, "little")


def scanned(
    segments: Segments, start: Pointer = START
) -> tuple[list[tuple[Pointer, bytes]], Exception | None]:
    """What a scan gives, and the error it ends with, if any."""
    found: list[tuple[Pointer, bytes]] = []

    async def main() -> None:
        async for step in segments.scan(start):
            found.extend((pointer, bytes(payload)) for pointer, payload in step)

    try:
        drive(main())
    except Exception as error:  # noqa: BLE001 (the caller judges it)
        return found, error
    return found, None


@contextmanager
def counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, int]]:
    """Bytes read of each file meanwhile."""
    reads: dict[str, int] = {}
    read = SimFile.read

    def watched(self: SimFile, offset: int, length: int) -> bytes:
        data = read(self, offset, length)
        reads[self._path] = reads.get(self._path, 0) + len(data)
        return data

    with monkeypatch.context() as patch:
        patch.setattr(SimFile, "read", watched)
        yield reads
