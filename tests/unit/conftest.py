"""Logs as they were before: a command configures those of its process, to a stream that ends with
its test, and above what the next test looks for."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    structlog.configure(**before)
