"""Bugs that real processes and kill -9 show, beside what CI plays (plays.py): where a kill strikes
is chance, and a rig takes minutes.

`python -m tests.planted.kills` plants them all, which `make full` does.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PUMP, DRAINER, MEMBERSHIP = "pump", "drainer", "membership"
"""Who dies in the kill rig; or the rig in which Pumps come and go."""


@dataclass(frozen=True)
class Kill:
    """`says`: a regular expression of what a rig says then. A rig that is stuck tells what each
    service says of itself: that must not do."""

    bug: str
    dies: str
    says: str

    def shown_by(self, said: str) -> bool:
        return bool(re.search(self.says, said))


KILLS = (
    Kill("indexer-skips-records", PUMP, "^lost: "),
    Kill("page-without-its-last", PUMP, "^lost: "),
    Kill("start-cuts-a-good-record", PUMP, "^lost: "),
    Kill("open-forgotten-at-start", PUMP, "^lost: "),
    Kill(
        "other-bytes-than-written",
        PUMP,
        "^other: .* is not what was written|its bytes or its table",
    ),
    Kill("position-of-the-newest-message", DRAINER, "^lost: "),
    Kill("position-of-the-first-transaction", DRAINER, "twice|below the marker"),
    Kill("chain-begun-anew", DRAINER, "prev_commit_ts"),
    Kill("source-0-not-asked-once-trusted", MEMBERSHIP, "is not in the stream"),
    Kill("offline-before-it-is-read", MEMBERSHIP, "offline before the Drainer had read it"),
    Kill("closing-pump-let-go", MEMBERSHIP, "is not in the stream"),
)
