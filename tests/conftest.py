"""For all tests."""

from __future__ import annotations

import os
import signal

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tidelog.leftovers import settle

# As an application that sets up its own logs: else the first client that a test makes does it.
structlog.configure()

# A shell that starts a command in the background has it ignore Ctrl-C, and so all that it starts;
# `nohup` does the same with the other.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

FULL = "TIDELOG_TEST_FULL"
"""Set by `make full`, which runs what is marked `full`: more of what a sibling has in CI."""


def pytest_collection_finish() -> None:
    settle()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [] if FULL in os.environ else [item for item in items if item.get_closest_marker("full")]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in left]


# How long an example takes is the machine's and its other work's affair.
settings.register_profile(
    "tidelog", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("tidelog")
