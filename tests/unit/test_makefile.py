"""`make test` runs every test, and each once, whatever is split off into a target of its own."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARGETS = (
    "unit",
    "adapters",
    "models",
    "crash",
    "fuzz",
    "simulation",
    "kills",
    "fixtures",
    "integration",
    "faults",
    "spark",
    "console",
    "compose",
    "soak",
)
"""Of `make test`, but for those that run some tests again in another way: check, compiled."""


def files(path: Path) -> set[Path]:
    return {path} if path.is_file() else set(path.rglob("test_*.py"))


def run_by(line: str) -> set[Path]:
    """The test files of one call of pytest."""
    words = shlex.split(line)
    named = [ROOT / word for word in words if word.startswith("tests/")]
    ignored = {ROOT / w.removeprefix("--ignore=") for w in words if w.startswith("--ignore=")}
    return {file for path in named for file in files(path)} - ignored


def calls_of_pytest(*targets: str) -> list[str]:
    environ = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
    asked = ["make", "--dry-run", "--no-print-directory", *targets]
    told = subprocess.run(asked, cwd=ROOT, env=environ, capture_output=True, text=True, check=True)
    return [line for line in told.stdout.splitlines() if " -m pytest " in line]


def test_every_test_runs_once() -> None:
    lines = calls_of_pytest(*TARGETS)
    assert len(lines) == len(TARGETS)
    times = Counter(file for line in lines for file in run_by(line))
    assert times == Counter(files(ROOT / "tests"))


def test_make_test_has_all_these_targets() -> None:
    wanted = calls_of_pytest(*TARGETS, "check", "compiled")
    assert Counter(calls_of_pytest("test")) == Counter(wanted)


def test_models_are_not_among_the_quick_ones() -> None:
    asked = ["make", "--dry-run", "--no-print-directory", "models"]
    told = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for kind in ("machine", "model", "damage"):
        assert f"_{kind}.py" in told
