"""Timestamps as people read them."""

from __future__ import annotations

from tidelog.timestamps import TS_MAX, compose, moment


def test_when_a_timestamp_was_allocated() -> None:
    assert moment(compose(1_600_000_000_000)) == "2020-09-13 12:26:40"
    assert moment(0) == ""
    assert moment(TS_MAX) == "3084-12-12 12:41:28"
    assert moment(1 << 80) == "", "no calendar goes so far"
