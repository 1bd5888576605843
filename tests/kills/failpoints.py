"""Every failpoint fires (reliability R5): `python -m tests.kills.failpoints --actions 1 --seed 1`.

The list is read from the sources. Each point is passed in some simulated history of a whole
cluster; there it kills its node, fails its call or holds its task up, at a passage drawn by the
seed, and the history's verdict must be clean all the same. `--actions 1`: one of the three, spread
over the points; 3: each. A point that is not passed, or does not fire, fails the run. Those that
only a process can fire are the kill rig's (`tests.kills.rig --points`).
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from multiprocessing.pool import Pool

from tests.kills.points import ELSEWHERE, LEAST, discovered, needs_a_process
from tests.kills.simulated import ACTIONS, SCENES, Case, Outcome, Reach, fire, reach
from tests.last_line import verdict
from tests.quiet import quiet
from tests.simulation.cluster import History

ROUNDS = 6
"""Seeds of each scene that are tried until every point was passed in one of them."""
SEEDS = 1000


def simulated(actions: int, seed: int) -> list[tuple[str, str]]:
    """Point and action; with one action it is another one for each seed."""
    wanted: list[tuple[str, str]] = []
    for number, point in enumerate(sorted(discovered().keys() - ELSEWHERE.keys())):
        turned = [ACTIONS[(number + seed + turn) % len(ACTIONS)] for turn in range(len(ACTIONS))]
        possible = [action for action in turned if not needs_a_process(point, action)]
        wanted += [(point, action) for action in possible[:actions]]
    return wanted


def reached(pool: Pool, points: Iterable[str], seed: int) -> list[Reach]:
    """Histories that together pass all the points, at least one of each scene; or as many as they
    pass."""
    found: list[Reach] = []
    for turn in range(ROUNDS):
        number = seed * SEEDS + turn
        found += pool.starmap(reach, [(scene, number) for scene in range(len(SCENES))])
        if all(any(one.hits[point] for one in found) for point in points):
            break
    return found


def cases(wanted: Sequence[tuple[str, str]], found: Sequence[Reach], seed: int) -> Iterator[Case]:
    """Where each fires; nothing of one that no history passes."""
    rng = random.Random(f"failpoints/{seed}")
    for point, action in wanted:
        passing = [one for one in found if one.hits[point]]
        if passing:
            one = rng.choice(passing)
            yield Case(point, action, one.scene, one.seed, rng.randint(1, one.hits[point]))


def again(case: Case) -> str:
    named = f"{case.point}:{case.action}:{case.scene}:{case.seed}:{case.at}"
    return f"python -m tests.kills.failpoints --only {named}"


def play_all(actions: int, seed: int, jobs: int) -> int:
    began = time.monotonic()
    wanted = simulated(actions, seed)
    points = {point for point, _ in wanted}
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=quiet) as pool:
        found = reached(pool, points, seed)
        made = list(cases(wanted, found, seed))
        done = [_told(outcome) for outcome in pool.imap_unordered(fire, made, chunksize=4)]
    never = sorted(points - {case.point for case in made})
    if never:
        print(f"NEVER PASSED: {', '.join(never)}")
    for one in found:
        if not one.history.findings.clean:
            print(one.history.findings.text(f"{one.seed} of {SCENES[one.scene].__name__}"))
    histories = [*(one.history for one in done), *(one.history for one in found)]
    fired, seconds = sum(one.fired for one in done), time.monotonic() - began
    print(f"failpoints: {len(points)} points x {actions} actions, {fired} fired, ", end="")
    wrong = counted(histories, len(points), len(wanted) - fired)
    print(f"{verdict(wrong, len(histories))} (seed {seed}, {seconds:.0f} s)")
    return 1 if +wrong else 0


def counted(histories: Sequence[History], points: int, not_fired: int) -> Counter[str]:
    """All that is wrong with a run, by kind: what its histories found, and where it tried less than
    it should."""
    wrong: Counter[str] = Counter()
    for history in histories:
        wrong.update({kind: len(said) for kind, said in history.findings.kinds().items()})
    wrong["NOT FIRED"] = not_fired
    wrong["POINTS TOO FEW"] = max(0, LEAST - points)
    wrong["WITHOUT TRAFFIC"] = sum(not history.transactions for history in histories)
    return wrong


def _told(outcome: Outcome) -> Outcome:
    findings = outcome.history.findings
    if not (outcome.fired and findings.clean):
        print(findings.text(outcome.case) if outcome.fired else f"NOT FIRED: {outcome.case}")
        print(f"  again: {again(outcome.case)}", flush=True)
    return outcome


def play_one(text: str) -> int:
    """One case with its findings."""
    point, action, scene, seed, at = text.split(":")
    outcome = _told(fire(Case(point, action, int(scene), int(seed), int(at))))
    for failure, times in sorted(outcome.history.failures.items()):
        print(f"  {times} times {failure}")
    print(f"fired: {outcome.fired}, clean: {outcome.history.findings.clean}")
    return 0 if outcome.fired and outcome.history.findings.clean else 1


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--actions", type=int, choices=range(1, len(ACTIONS) + 1), default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="", metavar="POINT:ACTION:SCENE:SEED:AT")
    options = parser.parse_args(argv)
    if options.only:
        quiet()
        return play_one(options.only)
    return play_all(options.actions, options.seed, options.jobs)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
