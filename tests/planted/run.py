"""`make planted`: proves of each planted bug that the tests would notice it. Two ways:

its *schedule* leads a calm cluster into the moment that the bug makes unsafe; on ten seeds it has
to catch the bug, and to be clean without it;
the *hunt* plays random histories, which know nothing of the bug, until one catches it; the smallest
such seed is recorded in caught.json. (A bug may be left out of it, where bugs.py says why.)

Each bug's line and record are written when it is through: a run that was broken off goes on with
the names of those that are left.

With `--replay`, which CI does, each schedule is played on its one seed, in a process of its own;
that takes less than 2 s. Both end with `N of M planted bugs caught`.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.planted.bugs import BUGS, Bug
from tests.planted.copy import copied, planted, tell
from tests.planted.schedules import BY_BUG

RECORD = Path(__file__).with_name("caught.json")
BUDGET = 3000
PIECE = 250
"""Of the BUDGET's histories, after which a hunt says that it goes on."""
SEEDS = range(10)
ENOUGH = 8
"""Of SEEDS, on which a schedule has to catch its bug; it has to be clean on all without it."""
JOBS = 2
Told = dict[str, Any]


def directed(whole: Path, bug: Bug | None, plays: Iterable[tuple[str, int]]) -> list[Told]:
    """The schedules of these bugs on these seeds, in a copy with one bug or none."""
    with planted(bug, whole) as where:
        return tell(where, "tests.planted.direct", *(f"{name}:{seed}" for name, seed in plays))


def catches(told: Told) -> bool:
    return BY_BUG[told["bug"]].finds in told["found"]


def clean(told: Told) -> bool:
    """Nothing was found, and every step was taken: else it proves nothing."""
    return bool(told["clean"]) and not told["left"]


def replay() -> int:
    """Each bug's schedule on its one seed, with the bug and without."""
    began = time.monotonic()
    seeds = [(bug.name, BY_BUG[bug.name].seed) for bug in BUGS]
    caught = 0
    with copied() as whole, ThreadPoolExecutor(JOBS) as pool:
        print(f"the sources copied and compiled in {time.monotonic() - began:.1f} s")
        calm = pool.submit(directed, whole, None, seeds)
        plays = pool.map(partial(_replayed, whole), BUGS)
        for without, (told, seconds) in zip(calm.result(), plays, strict=True):
            word = "caught" if catches(told) else "NOT CAUGHT"
            word = word if clean(without) else "NOT CLEAN"
            caught += word == "caught"
            found = ", ".join(told["found"]) or "nothing"
            times = f"{seconds:.1f} s from copy to verdict, {told['cpu_s']:.1f} s of processor"
            print(f"{word:<11} {told['bug']:<32} seed {told['seed']} finds {found}; {times}")
    return _last_line(caught, len(BUGS))


def _replayed(whole: Path, bug: Bug) -> tuple[Told, float]:
    """What its schedule says, and the seconds from the planting to that."""
    began, seed = time.monotonic(), BY_BUG[bug.name].seed
    try:
        (told,) = directed(whole, bug, [(bug.name, seed)])
    except LookupError as error:
        told = {"bug": bug.name, "seed": seed, "found": [str(error)], "cpu_s": 0.0}
    return told, time.monotonic() - began


def search(names: list[str]) -> int:
    """Every bug both ways, a line of the table each."""
    chosen = [bug for bug in BUGS if not names or bug.name in names]
    began = time.monotonic()
    record: Told = json.loads(RECORD.read_text()) if RECORD.exists() else {}
    print(_row("", "bug", "its schedule", "without it", "hunted by random histories"))
    with copied() as whole:
        caught = sum(_searched(whole, bug, record) for bug in chosen)
    print(f"{time.monotonic() - began:.0f} s")
    return _last_line(caught, len(chosen))


def _searched(whole: Path, bug: Bug, record: Told) -> bool:
    """Is it caught both ways? Notes the hunt's seed."""
    began = time.monotonic()
    try:
        does, is_clean = _robustness(whole, bug)
    except LookupError as error:
        print(_row("NOT CAUGHT", bug.name, str(error), "", ""))
        return False
    if is_clean < len(SEEDS):
        print(_row("NOT CLEAN", bug.name, "", f"{is_clean} of {len(SEEDS)} clean", "not hunted"))
        return False
    found = _hunted(whole, bug) if bug.hunted else None
    record.pop(bug.name, None)
    if found is not None and found["seed"] is not None:
        record[bug.name] = {"seed": found["seed"], "found": found["found"]}
    RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
    both = does >= ENOUGH and (found is None or found["seed"] is not None)
    print(
        _row(
            "caught" if both else "NOT CAUGHT",
            bug.name,
            f"{does} of {len(SEEDS)} find {BY_BUG[bug.name].finds}",
            f"{is_clean} of {len(SEEDS)} clean",
            f"{_said(found)}; {time.monotonic() - began:.0f} s in all",
        )
    )
    return both


def _robustness(whole: Path, bug: Bug) -> tuple[int, int]:
    """On how many seeds the schedule catches its bug, and on how many it is clean without it."""
    plays = [(bug.name, seed) for seed in SEEDS]
    with ThreadPoolExecutor(JOBS) as pool:
        found, without = pool.map(lambda which: directed(whole, which, plays), (bug, None))
    return sum(map(catches, found)), sum(map(clean, without))


def _hunted(whole: Path, bug: Bug) -> Told:
    """The smallest seed that catches the bug and is clean without it, and what it took."""
    tried, unclear, seconds = 0, 0, 0.0
    found: Told = {"seed": None, "found": []}
    for told in _hunts(whole, bug):
        tried, unclear = tried + told["tried"], unclear + told["unclear"]
        seconds += told["seconds"]
        at = told["seed"]
        if at is None:
            print(f"{'':<11} {bug.name:<32} not in {tried} histories, {seconds:.0f} s")
        elif _unclean(whole, at):
            print(f"seed {at} is not clean without {bug.name} either: a bug that nobody planted")
        else:
            found = told
            break
    return found | {"tried": tried, "unclear": unclear, "seconds": seconds}


def _hunts(whole: Path, bug: Bug) -> Iterator[Told]:
    """Piece by piece, what was found; one goes on behind the seed that was found before."""
    first: int = 0
    with planted(bug, whole) as where:
        while first < BUDGET:
            end = min(first + PIECE, BUDGET)
            (told,) = tell(where, "tests.planted.hunt", first, end, JOBS)
            yield told
            first = end if told["seed"] is None else told["seed"] + 1


def _unclean(whole: Path, seed: int) -> bool:
    (told,) = tell(whole, "tests.planted.hunt", seed, seed + 1, 1)
    return told["seed"] is not None or bool(told["unclear"])


def _row(word: str, bug: str, schedule: str, without: str, hunt: str) -> str:
    return f"{word:<11} {bug:<32} {schedule:<18} {without:<12} {hunt}"


def _said(found: Told | None) -> str:
    if found is None:
        return "not hunted"
    what = "nothing" if found["seed"] is None else f"seed {found['seed']}: "
    passed = f", {found['unclear']} unclear" if found["unclear"] else ""
    return (
        f"{what}{', '.join(found['found'])} ({found['tried']} in {found['seconds']:.0f} s{passed})"
    )


def _last_line(caught: int, of: int) -> int:
    print(f"{caught} of {of} planted bugs caught")
    return 0 if caught == of else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replay", action="store_true", help="only the schedules, one seed each")
    parser.add_argument("names", nargs="*", help="only these bugs")
    options = parser.parse_args()
    if unknown := set(options.names) - BY_BUG.keys():
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # each line as it comes, into a file too
    return replay() if options.replay else search(options.names)


if __name__ == "__main__":
    sys.exit(main())
