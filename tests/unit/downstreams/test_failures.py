"""The table of the servers' error numbers."""

from __future__ import annotations

import pytest

from tidelog.downstreams.failures import TABLE, Course, failure


@pytest.mark.parametrize(
    ("code", "course"),
    [
        (0, Course.RETRY),  # no number: the connection
        (28, Course.RETRY),  # the operating system's: no space left
        (1021, Course.RETRY),
        (1037, Course.RETRY),  # no memory
        (1040, Course.RETRY),
        (1045, Course.STOP),
        (1142, Course.STOP),
        (1135, Course.RETRY),  # no thread
        (1153, Course.POLICY),
        (1197, Course.POLICY),  # larger than the binlog's cache
        (1205, Course.RETRY),
        (1213, Course.RETRY),
        (1290, Course.RETRY),
        (1406, Course.POLICY),
        (2006, Course.RETRY),
        (2013, Course.RETRY),
        (2026, Course.STOP),
        (2099, Course.RETRY),
        (3100, Course.RETRY),  # the group does not take it now
        (8004, Course.POLICY),  # larger than a transaction of TiDB's
        (8005, Course.RETRY),
        (8176, Course.RETRY),  # TiDB's memory is used by others
        (8252, Course.RETRY),
        (9007, Course.RETRY),
        (65535, Course.POLICY),  # one that nobody knows: the statement's
    ],
)
def test_a_number_decides(code: int, course: Course) -> None:
    assert failure(code).course is course


def test_every_failure_says_what_to_do() -> None:
    assert all(failure(code).hint for code in (*TABLE, 0, 5, 1999, 2000, 5000))


def test_only_what_is_about_a_value_may_be_tried_without_strictness() -> None:
    about_data = {code for code in TABLE if failure(code).about_data}
    assert about_data == {1264, 1265, 1292, 1366, 1406}
