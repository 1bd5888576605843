"""A start that spares itself what it does not need."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from tidelog.imports import spare_tracebacks

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


COMMAND = """
import sys
import tidelog_cli.__main__
loaded = [name for name in ("structlog.dev", "pydantic", "rich.traceback") if name in sys.modules]
import rich.traceback
print(*loaded)
"""


def test_a_command_starts_without_what_checks_types_and_draws_tracebacks() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["structlog.dev"]


def test_a_traceback_of_rich_that_is_there_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = ModuleType("rich.traceback")
    monkeypatch.setitem(sys.modules, "rich.traceback", theirs)
    spare_tracebacks()
    assert sys.modules["rich.traceback"] is theirs
