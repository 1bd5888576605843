"""A bulk job in a process beside the command: what an operator reads when it ends early."""

from __future__ import annotations

import asyncio
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest

from tidelog.bulk.jobs import ReplayJob
from tidelog.bulk.process import JobProcessEnded, JobProcesses
from tidelog.bulk.told import Progress, encode_line
from tidelog_cli import bulk

JOB = ReplayJob(inputs=("relay",), downstream="mysql://db/")


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def runs(monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = (sys.executable, "-c", script)
    monkeypatch.setattr(bulk, "JobProcesses", partial(JobProcesses, program=program))


def test_the_last_words_of_one_that_died_are_shown_and_its_files_go(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    lines = "".join(f"line {n}\\n" for n in range(20))
    runs(monkeypatch, f"import os, sys; sys.stderr.write('{lines}'); os._exit(137)")
    with pytest.raises(JobProcessEnded, match="ended with 137") as caught:
        asyncio.run(bulk.do_here(JOB, lambda _: None))
    # gRPC, where a test before this one has used it, has its own words for a fork.
    said = [line for line in capfd.readouterr().err.splitlines() if "fork_posix" not in line]
    assert said == [f"line {n}" for n in range(20 - bulk.LAST_WORDS, 20)]
    assert "stand above" in caught.value.hint
    assert "job.log" not in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_left_by_ctrl_c_it_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = encode_line(Progress("replaying")).decode()
    runs(monkeypatch, f"import time; print({line!r}, end='', flush=True); time.sleep(600)")

    async def left() -> None:
        begun = asyncio.Event()
        task = asyncio.ensure_future(bulk.do_here(JOB, lambda _: begun.set()))
        async with asyncio.timeout(60):
            await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    asyncio.run(left())
    assert "the same command goes on where it was" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []
