"""A task's typed error arrives in the driver as it was, whatever text Spark puts around it."""

from __future__ import annotations

import errno

import pytest
from pyarrow import fs

from tidelog.errors import (
    Corrupt,
    DiskFull,
    IoFailed,
    Stopped,
    TidelogError,
    Unavailable,
)
from tidelog_backfill.task_errors import TaskFailed, carried, errors_carried, unexpected


def test_a_typed_error_is_found_in_the_text() -> None:
    with pytest.raises(TaskFailed) as raised, errors_carried():
        raise Corrupt("'000001.vlog' at 77", hint="restore «it»")
    around = RuntimeError(f"Traceback ...\n  TaskFailed: {raised.value}\nat org.apache.spark")
    found = carried(around)
    assert isinstance(found, Corrupt)
    assert (found.message, found.hint) == ("'000001.vlog' at 77", "restore «it»")


def test_others_pass_as_they_are() -> None:
    with pytest.raises(KeyError), errors_carried():
        raise KeyError("x")
    assert carried(RuntimeError("an executor is gone")) is None


def test_a_full_disk_is_told_as_what_it_is() -> None:
    """Arrow's error of it, too."""
    files = fs.LocalFileSystem()
    with (
        pytest.raises(TaskFailed) as raised,
        errors_carried(),
        files.open_output_stream("/dev/full") as stream,
    ):
        stream.write(b"x")
    found = carried(raised.value)
    assert isinstance(found, DiskFull)
    assert "No space left" in found.message
    assert "give it again" in found.hint


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError(errno.EIO, "Input/output error"), IoFailed),
        (PermissionError(errno.EACCES, "Permission denied", "/lake"), IoFailed),
        (OSError("AWS Error SLOW_DOWN during PutObject operation"), Unavailable),
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), Unavailable),
        (TimeoutError(), Unavailable),
    ],
)
def test_what_the_system_refuses_is_no_bug(error: OSError, kind: type[TidelogError]) -> None:
    with pytest.raises(TaskFailed) as raised, errors_carried():
        raise error
    found = carried(raised.value)
    assert type(found) is kind
    assert found.message == (str(error) or "TimeoutError")


RAISED = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times
(TID 0): org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "worker.py", line 7, in main
    process()
  File "task.py", line 60, in _copy
AttributeError: 'NoneType' object has no attribute 'x'

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:572)
"""


def test_what_nobody_foresaw_in_a_task_is_not_tried_again() -> None:
    found = unexpected(RuntimeError(RAISED))
    assert isinstance(found, Stopped)
    assert found.message == (
        "a task failed by AttributeError: 'NoneType' object has no attribute 'x'"
    )


def test_what_spark_itself_fails_by_may_pass() -> None:
    for before in ("", "An error occurred while calling z:PythonRDD.\n: "):
        found = unexpected(RuntimeError(f"{before}Python worker exited (crashed): \n\tat org.x"))
        assert isinstance(found, Unavailable)
        assert found.message == "Spark could not do it: Python worker exited (crashed):"
