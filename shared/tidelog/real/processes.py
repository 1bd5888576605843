"""The Processes port: children of ours, which never outlive us."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tidelog.errors import ConfigError
from tidelog.ports import Process

PR_SET_PDEATHSIG = 1
WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
# Loaded before any fork: between fork and exec only async-signal-safe calls are allowed.
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None


def _die_with_parent() -> None:
    if _LIBC is not None:
        _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


class RealProcess:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    async def wait(self) -> int:
        return await self._process.wait()

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        if self._process.returncode is None:
            try:
                self._process.send_signal(number)
            except ProcessLookupError:
                return


class RealProcesses:
    """Children get a session of their own, so that a Ctrl-C at the terminal reaches only us, and
    are killed by the kernel when our process is gone."""

    async def start(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        log_path: str = "",
        out_path: str = "",
    ) -> Process:
        log = os.open(Path(log_path or os.devnull), WRITTEN | os.O_APPEND, 0o600)
        out = os.open(Path(out_path), WRITTEN | os.O_TRUNC, 0o600) if out_path else os.dup(log)
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                env=os.environ | dict(env or {}),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=out,
                stderr=log,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        except OSError as error:
            raise ConfigError(f"{argv[0]} can't be started: {error}") from error
        finally:
            os.close(log)
            os.close(out)
        return RealProcess(process)
