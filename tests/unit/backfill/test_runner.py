"""The process of a job: its last line says how it ended, and so does its exit code."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from tidelog.bulk.jobs import BackfillJob, encode_job
from tidelog.bulk.told import Failed, Line, Progress, decode_line
from tidelog.errors import EXIT_CONFIG, EXIT_RESTART, EXIT_USAGE, ConfigError, Corrupt
from tidelog_backfill.jobs import runner
from tidelog_backfill.jobs.runner import carry_out, run_job
from tidelog_backfill.task_errors import TaskFailed

JOB = BackfillJob(source="/dump", parquet="/lake")


@pytest.fixture(autouse=True)
def _logs_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.logs.configure", lambda **_: None)


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.json"
    path.write_bytes(encode_job(JOB))
    return str(path)


def lines(capfd: pytest.CaptureFixture[str]) -> list[Line]:
    """Of standard output, which nothing else is on."""
    return [decode_line(line.encode()) for line in capfd.readouterr().out.splitlines()]


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        ([], EXIT_USAGE, "one job file is needed"),
        (["a.json", "b.json"], EXIT_USAGE, "one job file is needed"),
        (["/nowhere/job.json"], EXIT_CONFIG, "/nowhere/job.json can't be read"),
        ([__file__], EXIT_CONFIG, "test_runner.py is not a job: "),
    ],
)
def test_without_a_job_it_fails_by_a_line(
    capfd: pytest.CaptureFixture[str], argv: list[str], code: int, says: str
) -> None:
    assert run_job(argv) == code
    (failed,) = lines(capfd)
    assert isinstance(failed, Failed)
    assert says in failed.message
    assert failed.exit_code == code


def test_what_a_task_failed_by_is_told_as_what_it_was(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    def fails(*_: object) -> NoReturn:
        os.write(1, b"of the JVM")
        raise RuntimeError(f"Job aborted: {TaskFailed(Corrupt('bad', hint='restore it'))}")

    monkeypatch.setattr(runner, "carry_out", fails)
    assert run_job([job]) == EXIT_RESTART
    began, failed = lines(capfd)
    assert isinstance(began, Progress)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.message, failed.hint) == ("Corrupt", "bad", "restore it")


def test_a_full_disk_of_the_drivers_is_told_as_what_it_is(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    def fails(*_: object) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device", "/lake/_replay.json")

    monkeypatch.setattr(runner, "carry_out", fails)
    assert run_job([job]) == 1
    *_, failed = lines(capfd)
    assert isinstance(failed, Failed)
    assert (failed.code, failed.exit_code) == ("DiskFull", 1)
    assert "/lake/_replay.json" in failed.message


def test_what_nobody_foresaw_is_told_and_its_traceback_logged(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, job: str
) -> None:
    def fails(*_: object) -> NoReturn:
        raise KeyError("x")

    monkeypatch.setattr(runner, "carry_out", fails)
    with pytest.raises(KeyError):
        run_job([job])
    *_, failed = lines(capfd)
    assert isinstance(failed, Failed)
    assert (failed.message, failed.exit_code) == ("KeyError: 'x'", 1)


def test_where_spark_is_not_installed_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("cluster", "session"):
        monkeypatch.delitem(sys.modules, f"tidelog_backfill.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "py4j.protocol", None)
    with pytest.raises(ConfigError, match=r"py4j\.protocol is not installed") as raised:
        carry_out(JOB, lambda _: None)
    assert raised.value.hint == "pip install '.[backfill]' in a checkout of Tidelog"
