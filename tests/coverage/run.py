"""What the tests run of the product: `python -m tests.coverage.run`.

Unit tests (but for the models, which try much of the same), those of the ports and of the adapters
at them, and fifty simulated histories are measured and held against the bars of `rule.py`; what
falls short is printed, and the exit code is 1. `--with PATH` measures one more suite, of those that
start services: what it runs is kept beside until `--forget`, counts for no bar, and is told of
`except` bodies that nothing else runs. `--report` measures nothing and tells again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.coverage.rule import BAR, WHOLE, Ran, below, by_room, never_run, of, together

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "build" / "coverage"
QUICK, MORE = "quick", "more"
"""The two piles: what the bars are for, and what else runs an `except` body."""

MODELS = tuple(f"--ignore-glob=*/test_*_{kind}.py" for kind in ("machine", "model", "damage"))
PLACES = ("tests/unit", "tests/conformance", "tests/adapters")
PYTEST = ("pytest", "-q", "-n", "2", "--dist", "loadfile")
UNIT = (*PYTEST, "--timeout", "600", *PLACES, *MODELS)
SEEDS = ("tests.simulation.run", "--seeds", "0:50", "--jobs", "2")


def measure(pile: str, module: Sequence[str]) -> int:
    """Run a Python module with what it starts. What each process ran becomes a file of the pile."""
    KEPT.mkdir(parents=True, exist_ok=True)
    environ = {**os.environ, "COVERAGE_FILE": str(KEPT / pile)}
    return subprocess.run(
        [sys.executable, "-m", "coverage", "run", "-m", *module], cwd=ROOT, env=environ, check=False
    ).returncode


def forget(pile: str) -> None:
    for path in KEPT.glob(f"{pile}*"):
        path.unlink()


def told(*piles: str) -> dict[str, Any]:
    """coverage.py's own report of piles, by file."""
    parts = [str(path) for pile in piles for path in sorted(KEPT.glob(f"{pile}*"))]
    with tempfile.TemporaryDirectory() as place:
        data, report = Path(place) / "all", Path(place) / "report.json"
        environ = {**os.environ, "COVERAGE_FILE": str(data)}
        for asked in (["combine", "-q", "--keep", *parts], ["json", "-q", "-o", str(report)]):
            command = [sys.executable, "-m", "coverage", *asked]
            subprocess.run(command, cwd=ROOT, env=environ, check=True)
        files: dict[str, Any] = json.loads(report.read_text())["files"]
    return files


def ran(summary: Mapping[str, int]) -> Ran:
    return Ran(
        summary["num_statements"],
        summary["covered_lines"],
        summary["num_branches"],
        summary["covered_branches"],
    )


def unrun_handlers(report: Mapping[str, Any]) -> list[str]:
    """`file:line` of each `except` body that nothing ran."""
    return [
        f"{path}:{line}"
        for path, file in sorted(report.items())
        for line in never_run((ROOT / path).read_text(), file["executed_lines"])
    ]


def line(name: str, one: Ran) -> str:
    return (
        f"{name:<36}{one.statements:>8}{one.share:>9.1%}{one.branches:>9}{one.branch_share:>9.1%}"
    )


def show(report: Mapping[str, Any]) -> None:
    """Print the table, and what is missing in rooms that have to be whole."""
    files = {path: ran(file["summary"]) for path, file in report.items()}
    print(f"{'room':<36}{'lines':>8}{'run':>9}{'branches':>9}{'run':>9}")
    for name, one in by_room(files).items():
        print(line(name, one))
    print(line(f"all, wanted is {BAR:.0%}", together(files.values())))
    for name in WHOLE:
        print(line(f"{name}, wanted is all", together(of(name, files).values())))
    for name in WHOLE:
        for path in of(name, files):
            for what in ("missing_lines", "missing_branches"):
                if report[path][what]:
                    print(f"{path}: {what.replace('_', ' ')} {report[path][what]}")


def verdict() -> int:
    report = told(QUICK)
    show(report)
    unrun = unrun_handlers(report)
    by_none = unrun_handlers(told(QUICK, MORE))
    for place in unrun:
        who = "no test" if place in by_none else "only what --with added"
        print(f"{place}: {who} runs this `except` body")
    files = {path: ran(file["summary"]) for path, file in report.items()}
    short, all_of = below(files, len(unrun)), together(files.values())
    for one in short:
        print(f"TOO LITTLE: {one}")
    print(
        f"coverage: {all_of.share:.1%} of lines, {all_of.branch_share:.1%} of branches,"
        f" {len(short)} bars missed, {len(unrun)} `except` bodies never run"
    )
    return 1 if short else 0


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--with", dest="more", nargs="+", metavar="PATH", help="suites to add")
    parser.add_argument("--report", action="store_true", help="measure nothing, tell again")
    parser.add_argument("--forget", action="store_true", help="drop what suites added")
    options = parser.parse_args(argv)
    if options.forget:
        forget(MORE)
    if options.more:
        return measure(MORE, (*PYTEST, *options.more))
    if not options.report:
        forget(QUICK)
        if failed := [module for module in (SEEDS, UNIT) if measure(QUICK, module)]:
            print(f"FAILED: {failed}: what they run is not counted")
            return 1
    return verdict()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
