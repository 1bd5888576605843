"""How far a bench is, and how long it still takes: by what each step took the last time. Pure but
for the time that has passed."""

from __future__ import annotations

import time
from collections.abc import Sequence

from bench.figure import median
from bench.result import Section

FIXED = 0.4
"""Of a step's time, so much does not depend on its share: servers that start, tables that fill."""


class Outlook:
    """`before`: the sections of an earlier result."""

    def __init__(self, runs: int, wanted: dict[str, float], before: Sequence[Section]) -> None:
        self._runs = runs
        self._wanted = wanted
        self._known = {s.name: _scaled(s, wanted[s.name]) for s in before if s.name in wanted}
        self._taken: dict[str, list[float]] = {name: [] for name in wanted}
        self._began = time.monotonic()
        self._count = 0

    def begins(self, name: str) -> str:
        """The line to say, when a step begins."""
        run, at = divmod(self._count, len(self._wanted))
        self._count += 1
        passed = (time.monotonic() - self._began) / 60
        return (
            f"run {run + 1} of {self._runs}, {at + 1} of {len(self._wanted)}: {name}"
            f" ({passed:.0f} min so far, {self._to_go()} to go)"
        )

    def took(self, name: str, seconds: float) -> None:
        self._taken[name].append(seconds)

    def at_start(self) -> str:
        steps = f"{len(self._wanted)} measurements, {self._runs} times"
        return f"{steps}: {self._to_go()}"

    def sections(self) -> list[Section]:
        """What was measured, and what one run of it took."""
        return [
            Section(name, self._wanted[name], round(median(taken), 1))
            for name, taken in self._taken.items()
            if taken
        ]

    def _to_go(self) -> str:
        seconds, unknown = 0.0, []
        for name, taken in self._taken.items():
            each = median(taken) if taken else self._known.get(name)
            if each is None:
                unknown.append(name)
            else:
                seconds += each * (self._runs - len(taken))
        text = f"about {seconds / 60:.0f} min"
        return f"{text}, and {', '.join(unknown)}" if unknown else text


def _scaled(section: Section, share: float) -> float:
    """What it would take with another share."""
    return section.seconds * (FIXED + (1 - FIXED) * share / section.share)
