"""`python -m bench [NAME…] [--runs N] [--share S] [--json FILE] [--profile SERVICE]`.

Measures what is named, beside the limits of this machine. Of several runs the one in the middle is
shown, with the least and the most. `--report` measures what docs/figures.md shows: `make
bench-report`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from bench import report, result
from bench.about import ROOT, about, busy_cores
from bench.course import LIMITS, STEPS, Course
from bench.outlook import Outlook
from bench.replay_cases import CASES
from bench.result import Result
from bench.runs import merged, merged_limits
from bench.stage import OUT
from tidelog.logs import configure

KEPT = ROOT / "bench" / "figures.json"
"""What docs/figures.md is rendered from."""
QUICK = 0.25
WIDTH = 170
"""Of the tables in a log."""


def arguments(argv: list[str]) -> Namespace:
    parser = ArgumentParser("python -m bench", formatter_class=ArgumentDefaultsHelpFormatter)
    common = [step.name for step in STEPS if not step.seldom]
    seldom = [step.name for step in STEPS if step.seldom]
    listed = f"of {LIMITS}, {', '.join(common)}: all if none"
    minutes = f"or {', '.join(seldom)}, which take minutes"
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{listed}; {minutes}")
    parser.add_argument("--report", action="store_true", help="what docs/figures.md shows")
    parser.add_argument("--runs", type=int, default=1, help="how often all of it")
    share = parser.add_mutually_exclusive_group()
    share.add_argument("--share", type=float, default=1.0, help="of the time that it takes")
    share.add_argument(
        "--quick", dest="share", action="store_const", const=QUICK, help=f"--share {QUICK}"
    )
    parser.add_argument(
        "--changes", type=int, default=0, help="of `replay`, in its first log; 0 = 5 million"
    )
    parser.add_argument("--json", type=Path, default=OUT / "bench.json", help="where to")
    parser.add_argument("--dir", type=Path, help="where to put the servers' data (a real disk)")
    parser.add_argument(
        "--profile", default="", metavar="SERVICE", help="watch pump, drainer or applier by py-spy"
    )
    chosen = parser.parse_args(argv)
    unknown = set(chosen.names) - {LIMITS, *common, *seldom}
    if unknown:
        known = ", ".join([LIMITS, *common, *seldom])
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {known}")
    if chosen.report and chosen.runs % 2 == 0:
        parser.error("an odd number of runs: the one in the middle is shown")
    if chosen.profile and shutil.which("py-spy") is None:
        parser.error("--profile needs py-spy in PATH (pip install py-spy)")
    return chosen


def shares(args: Namespace) -> dict[str, float]:
    """Of the limits and each step that is asked for."""
    if args.report:
        wanted = {step.name: step.report for step in STEPS if step.report and not args.names}
        wanted |= {step.name: step.report for step in STEPS if step.name in args.names}
        return {LIMITS: 0.5} | {name: share * args.share for name, share in wanted.items()}
    names = args.names or [step.name for step in STEPS if not step.seldom]
    found = {LIMITS: args.share} | dict.fromkeys(names, args.share)
    if args.changes and "replay" in found:
        found["replay"] = args.changes / CASES[0].shape.changes
    return found


async def main(args: Namespace, console: Console) -> int:
    """1 if more memory was used than may be; rates are no reason to fail."""
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=args.dir) as place:
        found = about(Path(place))
        if found.busy:
            console.print(f"[red]{found.others:.1f} cores are busy: no figures for a page[/]")
        wanted = shares(args)
        before = result.read(KEPT).sections if KEPT.exists() else ()
        outlook = Outlook(args.runs, wanted, before)
        console.print(outlook.at_start())

        def tell(name: str) -> None:
            console.print(f"[dim]{outlook.begins(name)} …[/]", highlight=False)

        courses: list[Course] = []
        try:
            for run in range(args.runs):
                if run:
                    found = msgspec.structs.replace(found, others=max(found.others, busy_cores()))
                place_of = Path(place) / f"run-{run + 1}"
                courses.append(Course(place_of, wanted, tell, outlook.took, args.profile))
                await courses[-1].run()
        finally:
            # What was measured before an error is worth having.
            limits = merged_limits([course.limits.values() for course in courses])
            figures = merged([course.figures for course in courses])
            result.write(args.json, Result(found, args.runs, outlook.sections(), limits, figures))
            report.show(console, limits, figures)
    return 1 if any(figure.exceeded for figure in figures) else 0


if __name__ == "__main__":
    configure("auto", "warning")
    terminal = Console()
    wide = terminal if terminal.is_terminal else Console(width=WIDTH)
    sys.exit(uvloop.run(main(arguments(sys.argv[1:]), wide)))
