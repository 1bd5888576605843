"""A service's process as `up` keeps it: one that hears no SIGTERM is ended all the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from tests.processes import until
from tidelog.ports import Process, Processes
from tidelog.real.processes import RealProcesses
from tidelog_cli import child
from tidelog_cli.child import Child, Service

DEAF = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
time.sleep(600)
"""


class Other:
    """Starts another program than the one that it is asked for."""

    def __init__(self, *argv: str) -> None:
        self._argv = argv

    async def start(self, argv: Sequence[str], **more: Any) -> Process:
        return await RealProcesses().start(self._argv, **more)


def test_one_that_does_not_end_in_time_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "STOP_S", 0.05)
    deaf = tmp_path / "deaf"
    other = cast(Processes, Other(sys.executable, "-c", DEAF, str(deaf)))
    said: list[str] = []

    async def kept() -> Child:
        one = Child(Service("pump-1", "tidelog_pump", {}), tmp_path, other, said.append)
        keeping = asyncio.ensure_future(one.keep(lambda: None))
        await asyncio.to_thread(until, deaf.exists, "it hears nothing", 30)
        async with asyncio.timeout(60):
            await one.stop()
            await keeping
        return one

    one = asyncio.run(kept())
    assert one.process is not None
    assert one.process.returncode == -9
    assert (said, one.restarts) == ([], 0)
