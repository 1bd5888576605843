"""What a log means, said a second time: from its payloads alone, without the Pump's code. Pure.

`follow` is the rule for W, so the log is all there is to know (design section 7).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidelog_proto.binlog_pb2 import Binlog


@dataclass
class Meaning:
    """`commits`: (commit_ts, start_ts) -> the Prewrite's payload. `bounds`: open start_ts -> bound.
    `over`: start_ts -> commit_ts, 0 if rolled back."""

    high: int = 0
    commits: dict[tuple[int, int], bytes] = field(default_factory=dict)
    bounds: dict[int, int] = field(default_factory=dict)
    over: dict[int, int] = field(default_factory=dict)

    @property
    def resolved(self) -> int:
        return min([self.high, *self.bounds.values()])


def meaning(payloads: Sequence[bytes]) -> Meaning:
    """Of a log with each Prewrite before its end."""
    found = Meaning()
    waiting: dict[int, bytes] = {}
    for payload in payloads:
        binlog = Binlog.FromString(payload)
        start, commit = binlog.start_ts, binlog.commit_ts
        found.high = max(found.high, start, commit) if binlog.tp < 2 else found.high
        if binlog.tp == 0:
            if start not in found.over and start not in waiting:
                waiting[start] = payload
                found.bounds[start] = max(start, found.high)
        elif start not in found.over:
            prewrite = waiting.pop(start)
            del found.bounds[start]
            found.over[start] = commit
            if commit:
                found.commits[commit, start] = prewrite
    return found
