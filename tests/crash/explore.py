"""The explorer: from a scenario's moments to states, from each state to a verdict.

Half of the states are what a power loss leaves of a scenario, half what a second one leaves of the
recovery from those. A state is named `scenario:moment:number`, with a `+` for the second power loss
after it; the name is enough to meet it again.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.crash.recorder import Moment, State, states
from tests.crash.scenarios import Scenario, named


class Failure(NamedTuple):
    name: str
    error: str


@dataclass
class Report:
    """Of one scenario. `twice`: how many of the states are of a second power loss."""

    scenario: str
    protocol: str
    prefixes: int = 0
    states: int = 0
    twice: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def line(self) -> str:
        return (
            f"{self.scenario:<12} {self.prefixes:>6} prefixes {self.states:>8} states"
            f" ({self.twice} of a second power loss) {len(self.failures)} failures"
            f" {self.seconds:.1f} s"
        )


def met(scenario: Scenario, moments: list[Moment], quota: int) -> Iterator[tuple[str, State]]:
    """`quota` states of every moment: one of each, then the next of each."""
    rounds = [
        enumerate(states(moment, random.Random(f"{scenario.name}/{at}/{quota}"), quota))
        for at, moment in enumerate(moments)
    ]
    for _ in range(quota):
        for at, left in enumerate(rounds):
            for number, state in itertools.islice(left, 1):
                yield f"{scenario.name}:{at}:{number}:{quota}", state


def explore(scenario: Scenario, wanted: int, stop_at: int = 5) -> Report:
    """About `wanted` distinct states; ends early after `stop_at` failures."""
    begun = time.perf_counter()
    report, seen = Report(scenario.name, scenario.protocol), set[bytes]()
    try:
        moments = scenario.record()
    except Exception as error:  # noqa: BLE001 (it ends without a power loss already)
        report.failures.append(Failure(f"{scenario.name}:life", f"{type(error).__name__}: {error}"))
        return report
    report.prefixes = len(moments)
    quota = 2 + wanted // (2 * len(moments))
    while len(seen) < wanted and len(report.failures) < stop_at and quota < 1 << 16:
        # Each round doubles what is taken of a moment: those that have few states have few.
        for name, state in met(scenario, moments, quota):
            if len(seen) >= wanted or len(report.failures) >= stop_at:
                break
            _meet(report, scenario, name, state, seen)
        quota *= 2
    report.seconds = time.perf_counter() - begun
    return report


def _meet(report: Report, scenario: Scenario, name: str, state: State, seen: set[bytes]) -> None:
    key = state.key
    if key in seen:
        return
    seen.add(key)
    report.states += 1
    try:
        after = again(scenario.check(state), random.Random(key))
        name += "+"
        if after.key not in seen:
            seen.add(after.key)
            report.states += 1
            report.twice += 1
            scenario.check(after)
    except Exception as error:  # noqa: BLE001 (whatever a start ends with, it should not)
        report.failures.append(Failure(name, f"{type(error).__name__}: {error}"))


def again(moments: list[Moment], rng: random.Random) -> State:
    """One power loss during the recovery or after it, often at its end, when all is acked."""
    moment = moments[-1] if rng.random() < 0.3 else rng.choice(moments)
    options = list(states(moment, rng, 12))
    return rng.choice(options)


def replay(name: str) -> None:
    """Meet one state again. Raises what is wrong with it."""
    title, at, number, quota = name.rstrip("+").split(":")
    scenario = named(title)
    moment = scenario.record()[int(at)]
    rng = random.Random(f"{title}/{at}/{quota}")
    state = next(s for n, s in enumerate(states(moment, rng, int(quota))) if n == int(number))
    moments = scenario.check(state)
    if name.endswith("+"):
        scenario.check(again(moments, random.Random(state.key)))
