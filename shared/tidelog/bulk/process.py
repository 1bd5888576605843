"""A bulk job in a process of its own, which Spark needs: a JVM beside it, and a memory that ends
with the job. The process is the backfill service's `run`; who starts it knows it by its lines."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tidelog.bulk.jobs import Job, encode_job
from tidelog.bulk.told import Failed, Line, Progress, Report, decode_line
from tidelog.errors import Unavailable
from tidelog.ports import Clock, Disk, File, Process, Processes

POLL_S = 0.2
STOP_S = 8.0
"""Before a supervisor is out of patience with whoever waits for that (END_S)."""
READ_BYTES = 1 << 20
PROGRAM = (sys.executable, "-m", "tidelog_backfill", "run")


class JobProcessEnded(Unavailable):
    """The process ended without a word: killed, perhaps for want of memory."""


class JobProcesses:
    """Runs jobs, each from its own files in `home`, the directory behind `disk`: `<id>.json` is the
    job, `<id>.told` its lines, `<id>.log` what Spark and Python wrote beside them."""

    def __init__(
        self,
        processes: Processes,
        disk: Disk,
        clock: Clock,
        home: Path,
        *,
        env: Mapping[str, str] | None = None,
        program: tuple[str, ...] = PROGRAM,
    ) -> None:
        self._processes = processes
        self._disk = disk
        self._clock = clock
        self._home = home
        self._env = dict(env or {})
        self._program = program

    async def run(self, job_id: str, job: Job, told: Callable[[Progress], None]) -> Report:
        """To its end. Cancelled, it ends the process first: a job that is run again goes on where
        it was. Raises what the job failed by, JobProcessEnded."""
        await self._disk.write_file(f"{job_id}.json", encode_job(job))
        process = await self._processes.start(
            [*self._program, str(self._home / f"{job_id}.json")],
            env=self._env,
            log_path=str(self._home / f"{job_id}.log"),
            out_path=str(self._home / f"{job_id}.told"),
        )
        try:
            with contextlib.closing(Lines(await self._disk.open(f"{job_id}.told"))) as lines:
                last: Line | None = None
                while True:
                    code = process.returncode  # before what it wrote last is read
                    for line in lines.read():
                        last = line
                        if isinstance(line, Progress):
                            told(line)
                    if code is not None:
                        return self._outcome(job_id, last, code)
                    await self._clock.sleep(POLL_S)
        finally:
            await self._end(process)

    def _outcome(self, job_id: str, last: Line | None, code: int) -> Report:
        match last:
            case Report():
                return last
            case Failed():
                raise last.error()
            case Progress() | None:
                how = f"by signal {-code}" if code < 0 else f"with {code}"
                raise JobProcessEnded(
                    f"the process of job {job_id} ended {how} and told no result",
                    hint=f"{self._home / job_id}.log has its last words",
                )

    async def _end(self, process: Process) -> None:
        if process.returncode is not None:
            return
        process.terminate()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(STOP_S):
                    await process.wait()
        finally:  # of another one's patience, too: none runs beside the next
            if process.returncode is None:
                process.kill()
        await process.wait()

    async def forget(self, job_id: str) -> None:
        """Remove its files; those that are there."""
        for kind in ("json", "told", "log"):
            if self._disk.exists(name := f"{job_id}.{kind}"):
                await self._disk.remove(name)


class Lines:
    """Whole lines of a file that is being written, as they come."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._offset = 0
        self._rest = b""

    def read(self) -> list[Line]:
        """Those that came since. Raises UnparsablePayload."""
        found: list[Line] = []
        while data := self._file.read(self._offset, READ_BYTES):
            self._offset += len(data)
            *whole, self._rest = (self._rest + data).split(b"\n")
            found += map(decode_line, whole)
        return found

    def close(self) -> None:
        self._file.close()
