"""A job's process, as who started it sees it. Stand-ins: real processes without Spark."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tidelog.bulk import process
from tidelog.bulk.jobs import ReplayJob, decode_job
from tidelog.bulk.process import JobProcessEnded, JobProcesses
from tidelog.bulk.told import Failed, Line, Progress, Report, encode_line
from tidelog.errors import Corrupt
from tidelog.ports import File, Process
from tidelog.real.clock import RealClock
from tidelog.real.disk import RealDisk
from tidelog.real.processes import RealProcesses

JOB = ReplayJob(inputs=("relay",), parquet="out")
PROGRESS = Progress("reading", 1, 2, "chunks")


class Told(list[Progress]):
    def __call__(self, progress: Progress) -> None:
        self.append(progress)


def processes(home: Path, script: str) -> JobProcesses:
    program = (sys.executable, "-c", script)
    return JobProcesses(
        RealProcesses(), RealDisk(home), RealClock(), home, env={"X": "y"}, program=program
    )


class Keeps(RealProcesses):
    """What it started can be looked at."""

    def __init__(self) -> None:
        self.started: list[Process] = []

    async def start(self, *args: Any, **named: Any) -> Process:
        self.started.append(await super().start(*args, **named))
        return self.started[-1]


def telling(*lines: Line, then: str = "") -> str:
    text = b"".join(map(encode_line, lines)).decode()
    return f"import os, sys, time\nsys.stdout.write({text!r})\nsys.stdout.flush()\n{then}"


def test_its_lines_are_told_and_the_last_one_is_the_outcome(tmp_path: Path) -> None:
    told = Told()
    script = telling(PROGRESS, PROGRESS, Report(7, rows=3), then="print('noise', file=sys.stderr)")
    assert asyncio.run(processes(tmp_path, script).run("a", JOB, told)) == Report(7, rows=3)
    assert told == [PROGRESS, PROGRESS]
    assert decode_job((tmp_path / "a.json").read_bytes()) == JOB
    assert (tmp_path / "a.log").read_text() == "noise\n"


def test_its_error_comes_typed(tmp_path: Path) -> None:
    script = telling(Failed.of(Corrupt("000001.vlog at 77")), then="sys.exit(70)")
    with pytest.raises(Corrupt, match="at 77"):
        asyncio.run(processes(tmp_path, script).run("a", JOB, Told()))


def test_one_that_says_nothing_at_its_end_is_no_success(tmp_path: Path) -> None:
    script = telling(PROGRESS, then="os.kill(os.getpid(), 9)")
    with pytest.raises(JobProcessEnded, match=r"ended by signal 9 .*a\.log"):
        asyncio.run(processes(tmp_path, script).run("a", JOB, Told()))


def test_a_second_run_reads_its_own_lines_only(tmp_path: Path) -> None:
    asyncio.run(processes(tmp_path, telling(Report(7))).run("a", JOB, Told()))
    with pytest.raises(JobProcessEnded):
        asyncio.run(processes(tmp_path, "").run("a", JOB, Told()))


def test_cancelled_it_is_ended_first(tmp_path: Path) -> None:
    # The child never ends by itself: ending it is what is tested.
    script = telling(Progress("at", note="x"), then="time.sleep(600)")

    async def cancelled() -> Told:
        told, begun = Told(), asyncio.Event()

        def tell(progress: Progress) -> None:
            told(progress)
            begun.set()

        work = processes(tmp_path, f"{script}").run("a", JOB, tell)
        task = asyncio.create_task(work)
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        return told

    assert asyncio.run(cancelled()) == [Progress("at", note="x")]
    assert not _running("time.sleep(600)")


def _running(what: str) -> bool:
    """Whether a child of ours has that on its command line."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return any(what.encode() in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children)


def test_cancelled_before_its_lines_are_there_to_be_read_it_is_ended(tmp_path: Path) -> None:
    """On a disk that takes a moment."""

    async def cancelled() -> int | None:
        begun = asyncio.Event()
        keeps = Keeps()

        class Slow(RealDisk):
            async def open(self, path: str, *, create: bool = False) -> File:
                begun.set()
                await asyncio.Event().wait()
                raise AssertionError

        program = (sys.executable, "-c", "import time; time.sleep(600)")
        jobs = JobProcesses(keeps, Slow(tmp_path), RealClock(), tmp_path, program=program)
        task = asyncio.create_task(jobs.run("a", JOB, Told()))
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        return keeps.started[0].returncode

    assert asyncio.run(cancelled()) is not None


def test_its_files_go_when_it_is_forgotten(tmp_path: Path) -> None:
    job = processes(tmp_path, telling(Report(7)))
    asyncio.run(job.run("a", JOB, Told()))
    asyncio.run(job.forget("a"))
    assert list(tmp_path.iterdir()) == []
    asyncio.run(job.forget("a"))


def test_one_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "STOP_S", 0.05)
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    # Nor does this one, and it hears no SIGTERM.
    script = deaf + telling(PROGRESS, then="time.sleep(600)")

    async def cancelled() -> None:
        begun = asyncio.Event()
        work = processes(tmp_path, script).run("a", JOB, lambda _: begun.set())
        task = asyncio.create_task(work)
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(cancelled())
    assert not _running("SIG_IGN")


def test_one_that_does_not_end_is_killed_also_by_who_has_no_patience(tmp_path: Path) -> None:
    """A job that is cancelled twice leaves nothing that runs beside the next."""
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    script = deaf + telling(PROGRESS, then="time.sleep(601)")

    async def cancelled() -> None:
        begun, keeps = asyncio.Event(), Keeps()
        program = (sys.executable, "-c", script)
        jobs = JobProcesses(keeps, RealDisk(tmp_path), RealClock(), tmp_path, program=program)
        task = asyncio.create_task(jobs.run("a", JOB, lambda _: begun.set()))
        await begun.wait()
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await asyncio.wait([task])
        async with asyncio.timeout(20):
            assert await keeps.started[0].wait() == -signal.SIGKILL

    asyncio.run(cancelled())
