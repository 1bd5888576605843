"""What a service's process ends with, for whoever starts it again."""

from __future__ import annotations

import pytest

from tidelog.errors import (
    EXIT_CONFIG,
    EXIT_RESTART,
    EXIT_UNAVAILABLE,
    ConfigError,
    DiskFull,
    InvariantBroken,
    TidelogError,
    Unavailable,
)
from tidelog.service import report


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("a wrong key"), EXIT_CONFIG),
        (Unavailable("nobody answers"), EXIT_UNAVAILABLE),
        (InvariantBroken("a bug"), EXIT_RESTART),
        (DiskFull("four times in a row"), EXIT_RESTART),
        (TidelogError("as often"), EXIT_RESTART),
        (ValueError("a bug, as often"), EXIT_RESTART),
    ],
)
def test_what_crashed_too_often_is_started_again(error: Exception, code: int) -> None:
    assert report("pump", error) == code
