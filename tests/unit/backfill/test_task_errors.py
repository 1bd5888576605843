"""A task's typed error arrives in the driver as it was, whatever text Spark puts around it."""

from __future__ import annotations

import pytest

from tidelog.errors import Corrupt, Stopped, Unavailable
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
