"""The Pump's keys: the original's forms of values (original.md A.3, C.5)."""

from __future__ import annotations

import pytest

from tidelog.errors import ConfigError
from tidelog_pump.config import parse_retention


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (7, 604800.0),
        ("7", 604800.0),
        ("168h", 604800.0),
        ("7d", 604800.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        (" 90s ", 90.0),
        ("1500ms", 1.5),
    ],
)
def test_retention_is_days_or_a_duration(value: str | int, seconds: float) -> None:
    assert parse_retention(value) == seconds


@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        "",
        "0",
        "0h",
        "-3h",
        "h",
        "7 days",
        "1h-30m",
        "1e3h",
        "nan",
        "٧",
        10**30,
        "7h x",
        "1h 2",
    ],
)
def test_nonsense_is_no_retention(value: str | int) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_retention(value)
    assert raised.value.hint
