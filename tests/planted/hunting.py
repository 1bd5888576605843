"""The hunt for a bug: random histories, piece by piece, until one catches it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.planted.bug import Bug
from tests.planted.copy import planted, tell
from tests.planted.record import Hunted

BUDGET = 3000
PIECE = 250
"""Of the BUDGET's histories, after which a hunt says that it goes on."""


def hunted(whole: Path, bug: Bug, jobs: int) -> Hunted:
    """The smallest seed that catches the bug and is clean without it, and what it took."""
    tried = 0
    for told in _hunts(whole, bug, jobs):
        tried += told["tried"]
        at = told["seed"]
        if at is None:
            print(f"{'':<11} {bug.name:<34} not in {tried} histories")
        elif _unclean(whole, at):
            print(f"seed {at} is not clean without {bug.name} either: a bug that nobody planted")
        else:
            return Hunted(seed=at, found=told["found"], histories=tried, on=_today())
    return Hunted(seed=None, found=[], histories=tried, on=_today())


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _hunts(whole: Path, bug: Bug, jobs: int) -> Iterator[dict[str, Any]]:
    """Piece by piece, what was found; one goes on behind the seed that was found before."""
    first: int = 0
    with planted(bug, whole) as where:
        while first < BUDGET:
            end = min(first + PIECE, BUDGET)
            (told,) = tell(where, "tests.planted.hunt", first, end, jobs)
            yield told
            first = end if told["seed"] is None else told["seed"] + 1


def _unclean(whole: Path, seed: int) -> bool:
    (told,) = tell(whole, "tests.planted.hunt", seed, seed + 1, 1)
    return told["seed"] is not None or bool(told["unclear"])
