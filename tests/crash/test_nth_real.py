"""The n-th system call fails on a real disk: the value log on RealDisk, failing below the port."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.pump.rig import prewrite
from tidelog import record
from tidelog.errors import TidelogError
from tidelog.real.disk import RealDisk
from tidelog_pump.log.segments import Segments

PAYLOADS = [prewrite(10 + at, b"row" * at) for at in range(14)]
WAYS = [
    ("open", errno.EIO),
    ("open", errno.ENOSPC),
    ("pwritev", errno.EIO),
    ("pwritev", errno.ENOSPC),
    ("pwritev", 0),
    ("fdatasync", errno.EIO),
    ("fsync", errno.EIO),
    ("replace", errno.EIO),
]
"""A call and its error; 0: no error, but half of what was asked for is written."""


class Failing:
    """A system call whose nth use fails."""

    def __init__(self, call: str, error: int, nth: int) -> None:
        self.uses = 0
        self._real: Callable[..., Any] = getattr(os, call)
        self._error = error
        self._nth = nth

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.uses += 1
        if self.uses != self._nth:
            return self._real(*arguments, **named)
        if self._error:
            raise OSError(self._error, os.strerror(self._error))
        fd, (first, *_), offset = arguments
        return self._real(fd, [bytes(first)[: (len(first) + 1) // 2]], offset)


async def write(root: Path, acked: list[bytes]) -> None:
    segments = Segments(RealDisk(root), segment_bytes=150, sync=True)
    await segments.open()
    try:
        for at in range(0, len(PAYLOADS), 2):
            frames = [record.frame(payload) for payload in PAYLOADS[at : at + 2]]
            await segments.rotate(sum(map(len, frames)))
            await segments.append(frames, 10 + at + 1)
            acked += PAYLOADS[at : at + 2]
        await segments.finish()
    finally:
        segments.close()


async def read(root: Path) -> list[bytes]:
    segments = Segments(RealDisk(root), segment_bytes=150, sync=True)
    await segments.open()
    try:
        scanned = segments.scan(segments.start)
        return [bytes(payload) async for records in scanned for _, payload in records]
    finally:
        segments.close()


@pytest.mark.parametrize(("call", "error"), WAYS)
def test_the_nth_system_call_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    for nth in range(1, 200):
        root, acked = tmp_path / f"{nth}", list[bytes]()
        failing = Failing(call, error, nth)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing)
            failed = asyncio.run(_tried(root, acked))
        assert acked == PAYLOADS[: len(acked)]
        found = asyncio.run(read(root))
        assert found == PAYLOADS[: len(found)]
        assert len(found) >= len(acked)
        if failing.uses < nth:
            assert nth > 5
            return
        if error != errno.ENOSPC:  # there is a clean end without room for the synced offset
            assert failed == (error != 0)
    raise AssertionError("it never gets through")


async def _tried(root: Path, acked: list[bytes]) -> bool:
    """Did it end with an error?"""
    try:
        await write(root, acked)
    except TidelogError:
        return True
    return False
