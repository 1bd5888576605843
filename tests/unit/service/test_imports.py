"""A start that spares itself what it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

STARTED = """
import runpy, sys
sys.argv = ["tidelog_{name}", "--help"]
try:
    runpy.run_module("tidelog_{name}", run_name="__main__")
except SystemExit as end:
    assert not end.code
assert "structlog.dev" in sys.modules
print(*(name for name in ("rich.traceback", "pygments") if name in sys.modules))
"""


@pytest.mark.parametrize("name", ["pump", "drainer", "registry", "applier", "backfill"])
def test_a_service_starts_without_what_draws_for_people(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTED.format(name=name)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""
