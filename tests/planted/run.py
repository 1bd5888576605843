"""`make planted`: proves of each planted bug that the tests would notice it.

By its *schedule*, which leads a calm cluster into the moment that the bug makes unsafe: on ten
seeds it has to catch the bug, and to be clean without it. Or by its *test*, which has to fail with
the bug for the right reason, and to pass without it. Some are *hunted*, too: random histories,
which know nothing of the bug, are played until one catches it.

What caught which is recorded in caught.json, as each bug is through: a run that was broken off
goes on with the names of those that are left. `--report` prints the record.

With `--replay`, which CI does, each schedule is played on its one seed. All end with
`N of M planted bugs caught`.
"""

from __future__ import annotations

import argparse
import io
import resource
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from tests.planted import noticed, report
from tests.planted.bug import Bug
from tests.planted.bugs import BUGS
from tests.planted.copy import copied
from tests.planted.hunting import hunted
from tests.planted.plays import CATCHES, Played, directed, played, tested
from tests.planted.record import Record, load, save
from tests.planted.schedule import Schedule
from tests.planted.schedules import BY_BUG

SEEDS = range(10)
ENOUGH = 0.8
"""Of the seeds, on which a schedule has to catch its bug; it has to be clean on all without it."""


def replay(jobs: int, *, keep: bool) -> int:
    """What notices each bug, with the bug and without: a schedule on its one seed. `keep`: what
    was found is the record, where there is none of more seeds."""
    began, missed = time.monotonic(), []
    with copied() as whole, ThreadPoolExecutor(jobs) as pool:
        print(f"the sources copied and compiled in {time.monotonic() - began:.1f} s")
        calm = pool.submit(_without, whole)
        for bug, found in zip(BUGS, pool.map(partial(_replayed, whole), BUGS), strict=True):
            unclean = [one for one in calm.result() if one.bug == bug.name and not one.clean]
            record = _record(bug, [found], unclean)
            if unclean or not found.said:
                missed.append(bug.name)
            if keep and load(bug.name).plays <= 1:
                save(bug.name, record)
            word = "NOT CLEAN" if unclean else "caught" if found.said else "NOT CAUGHT"
            how = f"seed {found.seed}" if found.seed is not None else "test"
            print(f"{word:<11} {bug.name:<34} {how:<7} {found.found}: {found.said[:100]}")
    print(f"{time.monotonic() - began:.0f} s, {_used_s():.0f} s of processor")
    if missed:
        print(f"missed: {', '.join(missed)}")
    return _last_line(len(BUGS) - len(missed), len(BUGS))


def _without(whole: Path) -> list[Played]:
    """All of it in the sources as they are."""
    plays = [(bug.name, BY_BUG[bug.name].seed) for bug in BUGS if bug.name in BY_BUG]
    tests = tested(whole, *noticed.TESTS)
    return [*directed(whole, plays), *(tests._replace(bug=test.bug) for test in noticed.TESTS)]


def _replayed(whole: Path, bug: Bug) -> Played:
    catch = CATCHES[bug.name]
    seeds = [catch.seed] if isinstance(catch, Schedule) else []
    try:
        (one,) = played(whole, bug, bug.name, seeds)
    except (LookupError, RuntimeError) as error:
        return Played(bug.name, None, "", str(error), clean=False)
    return one


def search(names: list[str], jobs: int, *, hunts: bool) -> int:
    """Every bug, all seeds of its schedule; then the hunts, each of which takes all cores."""
    chosen = [bug for bug in BUGS if not names or bug.name in names]
    began, records = time.monotonic(), dict[str, Record]()
    with copied() as whole:
        pool = ThreadPoolExecutor(jobs)
        try:
            searched = pool.map(partial(_searched, whole), chosen)
            for bug, record in zip(chosen, searched, strict=True):
                records[bug.name] = _kept(bug, record)
        finally:  # a Ctrl-C ends what is played, and begins no other
            pool.shutdown(cancel_futures=True)
        for bug in chosen:
            if bug.hunted and hunts and records[bug.name].clean:
                hunt = hunted(whole, bug, jobs)
                records[bug.name] = _kept(bug, replace(records[bug.name], hunt=hunt))
    print(f"{time.monotonic() - began:.0f} s")
    return _last_line(sum(record.caught for record in records.values()), len(chosen))


def _searched(whole: Path, bug: Bug) -> Record:
    """But for its hunt: the last one counts until there is a new one."""
    try:
        found, without = (played(whole, which, bug.name, SEEDS) for which in (bug, None))
    except (LookupError, RuntimeError) as error:
        return Record(said=str(error)[:160], hunt=load(bug.name).hunt)
    return _record(bug, found, [one for one in without if not one.clean])


def _kept(bug: Bug, record: Record) -> Record:
    save(bug.name, record := _judged(bug, record))
    print(f"{'caught' if record.caught else 'NOT CAUGHT':<11} {bug.name:<34} {record.line}")
    return record


def _record(bug: Bug, found: list[Played], unclean: list[Played]) -> Record:
    shown = [one for one in found if one.said]
    record = Record(
        clean=not unclean,
        shown=len(shown),
        plays=len(found),
        seed=shown[0].seed if shown else None,
        said=shown[0].said[:160] if shown else "",
        hunt=load(bug.name).hunt,
    )
    return _judged(bug, record)


def _judged(bug: Bug, record: Record) -> Record:
    missed = bug.hunted and (record.hunt is None or record.hunt.seed is None)
    enough = record.plays > 0 and record.shown >= ENOUGH * record.plays
    return replace(record, caught=enough and record.clean and not missed)


def _used_s() -> float:
    """Of the processor, by this process and those that it ran."""
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def _last_line(caught: int, of: int) -> int:
    print(f"{caught} of {of} planted bugs caught")
    return 0 if caught == of else 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replay", action="store_true", help="each once, a schedule on one seed")
    parser.add_argument("--record", action="store_true", help="with --replay: note what it finds")
    parser.add_argument("--report", action="store_true", help="the record, as a table")
    parser.add_argument("--write", action="store_true", help=f"the report, into {report.PAGE.name}")
    parser.add_argument("--no-hunt", action="store_true", help="no random histories")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("names", nargs="*", help="only these bugs")
    options = parser.parse_args()
    if unknown := set(options.names) - CATCHES.keys():
        parser.error(f"no such bug: {', '.join(sorted(unknown))}")
    if options.write:
        report.PAGE.write_text(report.page())
        return 0
    if options.report:
        print(report.table())
        return 0
    assert isinstance(sys.stdout, io.TextIOWrapper)
    sys.stdout.reconfigure(line_buffering=True)  # each line as it comes, into a file too
    if options.replay:
        return replay(options.jobs, keep=options.record)
    return search(options.names, options.jobs, hunts=not options.no_hunt)


if __name__ == "__main__":
    sys.exit(main())
