"""A task's typed error arrives in the driver as it was, whatever text Spark puts around it."""

from __future__ import annotations

import pytest

from tidelog.errors import Corrupt
from tidelog_backfill.task_errors import TaskFailed, carried, errors_carried


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
