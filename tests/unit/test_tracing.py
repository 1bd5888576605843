"""The measurement goes on behind a test that ended it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.unit.test_tidy import ROOT

TEST = """
import sys
import measured

def test_first():
    sys.settrace(None)

def test_second():
    measured.later()
"""


def lines_run(directory: Path, *options: str) -> list[int]:
    (directory / "measured.py").write_text("def later():\n    return 1\n")
    (directory / "test_it.py").write_text(TEST)
    data, report = directory / "data", directory / "report.json"
    environ = {
        **os.environ, "COVERAGE_FILE": str(data), "PYTHONPATH": f"{directory}:{ROOT}",
    }  # fmt: skip
    for asked in (
        ["run", "--source", str(directory), "-m", "pytest", "-q", *options, "test_it.py"],
        ["json", "-q", "-o", str(report)],
    ):
        command = [sys.executable, "-m", "coverage", *asked]
        subprocess.run(command, cwd=directory, env=environ, check=True, capture_output=True)
    found: list[int] = json.loads(report.read_text())["files"]["measured.py"]["executed_lines"]
    return found


def test_what_runs_behind_a_test_that_ended_the_tracing_counts(tmp_path: Path) -> None:
    assert lines_run(tmp_path) == [1]
    assert lines_run(tmp_path, "-p", "tests.coverage.tracing") == [1, 2]
