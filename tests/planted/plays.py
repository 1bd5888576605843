"""What notices a bug, played in a copy of the sources that has the bug, or has none: its schedule,
on some seeds, or its test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tests.planted import noticed, schedules
from tests.planted.bug import Bug
from tests.planted.copy import PATHS, planted, tell
from tests.planted.noticed import Noticed
from tests.planted.schedule import Schedule

Catch = Schedule | Noticed
CATCHES: dict[str, Catch] = {**schedules.BY_BUG, **noticed.BY_BUG}
"""By the bug's name. CI plays each."""
PASSED, FAILED = 0, 1
"""What pytest ends with."""


class Played(NamedTuple):
    """`said`: what shows the bug, "" if nothing does; `found`: all kinds of findings, or how a test
    ended. `clean`: nothing was found, and that proves something."""

    bug: str
    seed: int | None
    said: str
    found: str
    clean: bool


def played(whole: Path, bug: Bug | None, name: str, seeds: Sequence[int]) -> list[Played]:
    """What notices the bug `name`, in a copy with `bug`, or with none. A test knows no seeds.

    Raises LookupError if an edit does not fit, RuntimeError if it can't be played."""
    catch = CATCHES[name]
    with planted(bug, whole) as where:
        if isinstance(catch, Noticed):
            return [tested(where, catch)]
        return directed(where, [(name, seed) for seed in seeds])


def directed(where: Path, plays: Sequence[tuple[str, int]]) -> list[Played]:
    """Schedules on seeds, in one process."""
    if not plays:
        return []
    found = []
    for told in tell(where, "tests.planted.direct", *(f"{name}:{seed}" for name, seed in plays)):
        said = schedules.BY_BUG[told["bug"]].caught_by(told["found"])
        clean = told["clean"] and not told["left"]
        kinds = ", ".join(told["found"]) or "nothing"
        found.append(Played(told["bug"], told["seed"], said, kinds, clean))
    return found


def tested(where: Path, *tests: Noticed) -> Played:
    """Tests in one process, until the first that fails."""
    done = _pytest(where, [f"tests/{test.node}" for test in tests])
    if done.returncode not in (PASSED, FAILED):
        raise RuntimeError(f"{tests[0].node}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    failed = done.returncode == FAILED
    said = tests[0].caught_by(done.stdout.splitlines()) if failed else ""
    found = "a failed test" if failed else "nothing"
    return Played(tests[0].bug, None, said.strip(), found, not failed)


def _pytest(where: Path, nodes: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """With the assertions as they stand: to rewrite them takes longer than most of these tests."""
    options = ["-q", "-x", "--tb=short", "--assert=plain", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", str(where), *dict.fromkeys(nodes)],
        cwd=where,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(where / part) for part in PATHS)},
        capture_output=True,
        text=True,
        check=False,
    )
