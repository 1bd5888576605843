"""No log lines of ten thousand starts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import structlog

from tests.quiet import quiet


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = structlog.get_config()
    quiet()
    yield
    structlog.configure(**before)
