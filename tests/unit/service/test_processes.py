"""The Processes port on this machine."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import pytest

from tidelog.errors import ConfigError
from tidelog.real.processes import RealProcesses


def test_a_program_that_is_not_there_is_a_matter_of_configuration() -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ConfigError, match="no-such-program can't be started"):
        asyncio.run(RealProcesses().start(["no-such-program"]))
    assert len(os.listdir("/proc/self/fd")) == len(before)


def test_one_that_is_gone_takes_no_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        process = await RealProcesses().start([sys.executable, "-c", "input()"])
        assert await process.wait() != 0  # Nothing is there to be read.
        process.terminate()
        # It ended, and nobody has told us yet.
        # Lives until it is ended: that it does not end by itself is the point.
        other = await RealProcesses().start([sys.executable, "-c", "import time; time.sleep(600)"])
        sent: list[int] = []

        def gone(number: int) -> None:
            sent.append(number)
            raise ProcessLookupError

        with monkeypatch.context() as patch:
            patch.setattr(other._process, "send_signal", gone)  # type: ignore[attr-defined]
            other.terminate()
            other.kill()
        assert sent == [signal.SIGTERM, signal.SIGKILL]
        assert other.returncode is None
        other.kill()
        assert await other.wait() == -signal.SIGKILL
        assert other.returncode == -signal.SIGKILL

    asyncio.run(main())
