"""Bugs that a rig of real processes and kill -9 notices, beside what CI plays (plays.py): where a
kill strikes is chance, and a rig takes minutes.

`python -m tests.planted.kills` plants them all, which `make full` does.
"""

from __future__ import annotations

from dataclasses import dataclass

PUMP, DRAINER, MEMBERSHIP = "pump", "drainer", "membership"


@dataclass(frozen=True)
class Kill:
    """`rig` is a folder of tests/integration; `says`: a regular expression of what it says then."""

    bug: str
    rig: str
    says: str


KILLS = (
    Kill("indexer-skips-records", PUMP, "loss"),
    Kill("page-without-its-last", PUMP, "loss"),
    Kill("start-cuts-a-good-record", PUMP, "loss"),
    Kill("open-forgotten-at-start", PUMP, "was not read up to|had been resolved"),
    Kill("other-bytes-than-written", PUMP, "are not what was written"),
    Kill("position-of-the-newest-message", DRAINER, "loss"),
    Kill("position-of-the-first-transaction", DRAINER, "twice|below the marker"),
    Kill("chain-begun-anew", DRAINER, "prev_commit_ts"),
    Kill("source-0-not-asked-once-trusted", MEMBERSHIP, "is not in the stream"),
    Kill("offline-before-it-is-read", MEMBERSHIP, "offline before the Drainer had read it"),
    Kill("closing-pump-let-go", MEMBERSHIP, "is not in the stream"),
)
