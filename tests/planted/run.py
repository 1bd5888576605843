"""`make planted`: plants each bug into a copy of the sources and hunts it with seeded histories.

With `--replay` each bug's recorded seed is played, which CI does; the seed that catches a bug is
clean without it, or it proves nothing. Ends with `N of M planted bugs caught`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.planted.bugs import BUGS, Bug

ROOT = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("caught.json")
BUDGET = 3000
WINDOW = 100
"""A change of the sources may make another history of a recorded seed; that doesn't lose a bug
that one of the first seeds still catches. Which one is said, to be recorded anew."""
ROOMS = ("shared", "services", "cli", "tests")
PATHS = (
    "",
    "shared",
    *(f"services/{s}" for s in ("registry", "pump", "drainer", "applier")),
    "cli",
)


def plant(bug: Bug | None, where: Path) -> None:
    """Copy the sources and edit them. Raises LookupError if an edit does not fit any more."""
    skip = shutil.ignore_patterns("__pycache__", "*.so", "data", ".hypothesis")
    for room in ROOMS:
        shutil.copytree(ROOT / room, where / room, ignore=skip)
    for edit in bug.edits if bug else ():
        path = where / edit.path
        text = path.read_text()
        if text.count(edit.old) != 1:
            raise LookupError(f"{bug and bug.name}: the edit of {edit.path} does not fit any more")
        path.write_text(text.replace(edit.old, edit.new))


def hunt(bug: Bug | None, first: int, end: int, jobs: int) -> dict[str, Any]:
    """The first unclean history of the seeds, played on the edited copy."""
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        where = Path(directory)
        plant(bug, where)
        path = os.pathsep.join(str(where / part) for part in PATHS)
        done = subprocess.run(
            [sys.executable, "-m", "tests.planted.hunt", str(first), str(end), str(jobs)],
            cwd=where,
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode not in (0, 1) or not done.stdout:
        raise RuntimeError(f"{bug.name if bug else 'no bug'}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def search(names: list[str]) -> int:
    """Hunt every bug from seed 0 on, and record the smallest seed that catches it."""
    record: dict[str, Any] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    caught = 0
    chosen = [bug for bug in BUGS if not names or bug.name in names]
    for bug in chosen:
        began = time.monotonic()
        found = hunt(bug, 0, BUDGET, 2)
        while (
            found["seed"] is not None and hunt(None, (at := found["seed"]), at + 1, 1)["seed"] == at
        ):
            print(f"seed {at} is not clean without {bug.name} either: a bug that nobody planted")
            found = hunt(bug, at + 1, BUDGET, 2)
        seconds = time.monotonic() - began
        if found["seed"] is None:
            print(f"NOT CAUGHT  {bug.name} in {BUDGET} histories, {seconds:.0f} s")
            record.pop(bug.name, None)
            continue
        caught += 1
        record[bug.name] = {"seed": found["seed"], "found": found["found"]}
        what = ", ".join(found["found"])
        print(f"caught  {bug.name}: seed {found['seed']}, {seconds:.0f} s: {what}", flush=True)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    print(f"{caught} of {len(chosen)} planted bugs caught")
    return 0 if caught == len(chosen) else 1


def replay() -> int:
    """Each recorded seed catches its bug again, and is clean without it."""
    record: dict[str, Any] = json.loads(RECORD.read_text())
    missing = [bug.name for bug in BUGS if bug.name not in record]

    def play(bug: Bug) -> tuple[dict[str, Any], dict[str, Any]]:
        seed = int(record[bug.name]["seed"])
        planted = hunt(bug, seed, seed + 1, 1)
        if planted["seed"] is None:
            planted = hunt(bug, 0, WINDOW, 1)
            seed = seed if planted["seed"] is None else planted["seed"]
        return planted, hunt(None, seed, seed + 1, 1)

    recorded = [bug for bug in BUGS if bug.name in record]
    caught = 0
    with ThreadPoolExecutor(2) as pool:
        for bug, (planted, without) in zip(recorded, pool.map(play, recorded), strict=True):
            seed = record[bug.name]["seed"]
            times = f"{planted['seconds']:.1f} s with it, {without['seconds']:.1f} s without"
            if planted["seed"] is None:
                print(f"NOT CAUGHT  {bug.name} by seed {seed} nor one below {WINDOW}, {times}")
            elif without["seed"] is not None:
                print(f"NOT CLEAN   seed {without['seed']} without {bug.name}, {times}")
            else:
                caught += 1
                print(f"caught  {bug.name} by seed {planted['seed']}, {times}")
                if planted["seed"] != seed:
                    print(f"        no longer by seed {seed}: record it by make planted")
    print(*(f"NOT RECORDED  {name}" for name in missing), sep="\n", end="\n" if missing else "")
    print(f"{caught} of {len(BUGS)} planted bugs caught")
    return 0 if caught == len(BUGS) else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replay", action="store_true", help="only the recorded seeds")
    parser.add_argument("names", nargs="*", help="only these bugs")
    options = parser.parse_args()
    return replay() if options.replay else search(options.names)


if __name__ == "__main__":
    sys.exit(main())
