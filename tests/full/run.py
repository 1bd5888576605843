"""`make full`: every suite with its whole counts, once before a release: hours of it.

What passed is recorded in ran.json, as each suite is through: a run that was broken off goes on
with those that are left for this version. Two run beside each other, but for those that measure.
What each prints is in build/full; who fails is told with its last lines, and the others go on.
`--list` shows what is left; suites that are named run again.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from tests.commit import ROOT, commit
from tests.full.record import PAGE, RECORD, Ran, load, page, save
from tests.full.suites import SUITES, Suite

LOGS = ROOT / "build/full"
TAIL = 15
WORDS = {os.EX_OK: "passed", os.EX_TEMPFAIL: "in part"}
"""By exit code; of a suite that goes on another day (the soak, with SOAK_PART) nothing is
recorded yet."""
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class Ended(NamedTuple):
    suite: Suite
    code: int
    lines: list[str]
    ran: Ran


def ended(suite: Suite, logs: Path, until: float) -> Ended | None:
    """Run it. None if it was not begun: `until`, of the monotonic clock, is over."""
    began = time.monotonic()
    if began >= until:
        return None
    print(f"{_clock()} began  {suite.name}\n", end="", flush=True)  # one write: others begin, too
    of, log = commit(), logs / f"{re.sub('[^a-z0-9]+', '-', suite.name.lower())}.log"
    with log.open("wb") as out:
        code = subprocess.run(
            [sys.executable, "-m", *suite.module.split()],
            cwd=ROOT,
            env={**os.environ, **suite.environ},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            check=False,
        ).returncode
    text = COLOURS.sub("", log.read_text(errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()] or ["it said nothing"]
    today = datetime.now(UTC).date().isoformat()
    seconds = round(time.monotonic() - began)
    return Ended(
        suite,
        code,
        lines,
        Ran(
            command=suite.command,
            on=today,
            commit=of,
            seconds=seconds,
            said=lines[-1],
            cases=suite.cases,
            judge=suite.judge,
        ),
    )


def each(suites: Sequence[Suite], jobs: int, logs: Path, until: float) -> Iterator[Ended]:
    """As they end; those that must be alone last."""
    logs.mkdir(parents=True, exist_ok=True)
    for alone in (False, True):
        pool = ThreadPoolExecutor(1 if alone else jobs)
        some = [suite for suite in suites if suite.alone is alone]
        try:
            for future in as_completed([pool.submit(ended, one, logs, until) for one in some]):
                if one := future.result():
                    yield one
        finally:  # a Ctrl-C ends those that run, and begins no other
            pool.shutdown(cancel_futures=True)


def run(suites: Sequence[Suite], jobs: int, logs: Path, path: Path, until: float) -> int:
    """How many failed. The others are in the record at `path`."""
    failed = 0
    for one in each(suites, jobs, logs, until):
        word = WORDS.get(one.code, "FAILED")
        minutes = f"{one.ran.seconds / 60:.1f} min"
        print(f"{_clock()} {word} {one.suite.name}, {minutes}: {one.ran.said}", flush=True)
        if one.code == os.EX_TEMPFAIL:
            continue
        record = load(path)
        if one.code:
            failed += 1
            record.suites.pop(one.suite.name, None)
            print(*(f"    {line}" for line in one.lines[-TAIL:]), sep="\n", flush=True)
        else:
            record.suites[one.suite.name] = one.ran
        save(record, path)
    return failed


def _clock() -> str:
    return datetime.now(UTC).strftime("%H:%M:%S")


def show() -> None:
    record = load()
    table = Table(
        "suite", "on", "commit", "min", "its last line", title=f"version {record.version}"
    )
    for suite in SUITES:
        if ran := record.of(suite):
            minutes = f"{ran.seconds / 60:.1f}"
            table.add_row(suite.name, ran.on, ran.commit, minutes, ran.said)
        else:
            table.add_row(suite.name, "–", "–", "–", record.why_left(suite))
    Console().print(table)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="what passed, and what is left")
    parser.add_argument("--write", action="store_true", help=f"the record, into {PAGE.name}")
    parser.add_argument("--jobs", type=int, default=2, help="suites beside each other")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin none after so")
    parser.add_argument("names", nargs="*", metavar="SUITE", help="only these, also once more")
    options = parser.parse_args(argv)
    by_name = {suite.name: suite for suite in SUITES}
    if unknown := set(options.names) - by_name.keys():
        parser.error(f"no such suite: {', '.join(sorted(unknown))}; --list names all")
    if options.list:
        show()
        return 0
    if options.write:
        PAGE.write_text(page(load(), SUITES))
        return 0
    chosen = [by_name[name] for name in options.names] or load().left(SUITES)
    until = time.monotonic() + 60 * options.minutes
    failed = run(chosen, options.jobs, LOGS, RECORD, until)
    left = [suite.name for suite in load().left(SUITES)]
    print(f"full: {len(SUITES) - len(left)} of {len(SUITES)} suites passed whole")
    if left:
        print(f"left: {', '.join(left)}")
    return 1 if failed or left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
