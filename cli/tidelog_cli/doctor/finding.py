"""What a check found. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from tidelog.errors import TidelogError

Verdict = Literal["ok", "warning", "wrong", "unknown"]
OK: Final = "ok"
WARNING: Final = "warning"
WRONG: Final = "wrong"
UNKNOWN: Final = "unknown"
"""It could not be looked at from here; the hint says how to."""
VERDICTS: tuple[Verdict, ...] = (WRONG, WARNING, UNKNOWN, OK)
"""The worst first."""


class Finding(msgspec.Struct, frozen=True):
    """`check`: what was looked at; `about`: of whom ("" = of all); `says`: one sentence; `hint`:
    what to do, with the exact command."""

    check: str
    about: str
    verdict: Verdict
    says: str
    hint: str = ""


class Found(msgspec.Struct, frozen=True):
    """The documented JSON form."""

    well: bool
    """Nothing is wrong; there may be warnings."""
    counts: dict[Verdict, int]
    findings: list[Finding]


class About:
    """Findings of one check about one thing."""

    def __init__(self, check: str, about: str = "") -> None:
        self._check = check
        self._about = about

    def ok(self, says: str) -> Finding:
        return Finding(self._check, self._about, OK, says)

    def warning(self, says: str, hint: str) -> Finding:
        return Finding(self._check, self._about, WARNING, says, hint)

    def wrong(self, says: str, hint: str) -> Finding:
        return Finding(self._check, self._about, WRONG, says, hint)

    def unknown(self, says: str, hint: str) -> Finding:
        return Finding(self._check, self._about, UNKNOWN, says, hint)

    def failed(self, error: TidelogError) -> Finding:
        return self.wrong(error.message, error.hint)


def found(findings: Iterable[Finding]) -> Found:
    """In the order of the checks, each check's worst first."""
    given = list(findings)
    places = {check: place for place, check in enumerate(dict.fromkeys(f.check for f in given))}
    ordered = sorted(given, key=lambda f: (places[f.check], VERDICTS.index(f.verdict)))
    verdicts = [f.verdict for f in ordered]
    counts = {verdict: verdicts.count(verdict) for verdict in VERDICTS}
    return Found(not counts[WRONG], counts, ordered)


def named(names: Iterable[str], most: int = 5) -> str:
    """A few of them, and how many more there are."""
    given = list(names)
    more = f" and {len(given) - most} more" if len(given) > most else ""
    return ", ".join(given[:most]) + more
