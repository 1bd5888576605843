"""A plugin of pytest for the measurement: tracing goes on after a test that ended it.

Python drops the trace function of a thread where it raises, as coverage's does within a recursion
that went too deep: without this, nothing that ran later in that process would count.
"""

from __future__ import annotations

import sys

import coverage
import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    measured = coverage.Coverage.current()
    if measured is not None and sys.gettrace() is None:
        measured.stop()
        measured.start()
