"""A bulk job as a process of its own: what it tells, and how it and its workers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tidelog.bulk.told import Progress, Report, decode_line

ROOT = Path(__file__).parents[2]
PROGRAM = ("tidelog_backfill", "run")
WAIT_S = 240.0
LOST = b"Python worker exited unexpectedly"
"""What Spark says of a task whose worker died."""


class Life:
    """From the process's start to its end. `program`: the module and its arguments before the
    job's file."""

    def __init__(self, job: Path, log: Path, program: Sequence[str] = PROGRAM) -> None:
        self._log = log
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *program, str(job)],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        self.report: Report | None = None

    def lines(self) -> Iterator[Progress]:
        """Until its end."""
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            line = decode_line(raw)
            if isinstance(line, Report):
                self.report = line
            elif isinstance(line, Progress):
                yield line

    def ended(self) -> Report:
        """Raises AssertionError if it did not do the job."""
        self.process.wait(WAIT_S)
        assert self.report is not None, f"exit {self.process.returncode}: {self.log()[-3000:]!r}"
        return self.report

    def kill(self) -> bool:
        """Driver and JVM; False if it had ended. Workers outlive them for a moment, in a group of
        their own."""
        if self.process.poll() is not None:
            return False
        os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait() == -signal.SIGKILL

    def kill_workers(self) -> None:
        """All of them: those that have a task, and those that wait for one."""
        for pid in workers(self.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def log(self) -> bytes:
        return self._log.read_bytes()

    @property
    def lost_tasks(self) -> int:
        """Whose worker died: one that waits for a task is missed by nobody."""
        return self.log().count(LOST)


@contextmanager
def life(job: Path, log: Path, program: Sequence[str] = PROGRAM) -> Iterator[Life]:
    found = Life(job, log, program)
    try:
        yield found
    finally:
        found.kill()
        found.process.wait()
        assert found.process.stdout is not None
        found.process.stdout.close()


def pause(seconds: float) -> None:
    """The moment of a kill is drawn, not waited for."""
    threading.Event().wait(seconds)


def workers(driver: int) -> list[int]:
    """The Python processes that do a driver's tasks, or wait for one."""
    return [pid for pid in below(driver) if _is_worker(pid)]


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:  # it has just ended
                continue
            found[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    return found


def below(pid: int) -> list[int]:
    parents = _parents()
    found, new = list[int](), [pid]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def _is_worker(pid: int) -> bool:
    """Forked from Spark's daemon, which is no worker itself."""
    parent = _parents().get(pid, 0)
    return all(b"pyspark.daemon" in command(one) for one in (pid, parent))


def command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
