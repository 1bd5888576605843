"""How far behind the clock positions are, and what that was over the last while. Pure.

A position is a word of some moment: its lag is taken at that moment, so that a heartbeat each 2 s
makes no saw teeth, and grows with the clock only when no further word comes.
"""

from __future__ import annotations

from collections import deque

import msgspec

from tidelog.messages import Nodes, NodeStatus
from tidelog.timestamps import physical_ms
from tidelog_registry.console.shown import Lags, Past

PATIENCE_MS = 5000
"""So long a position may stay untold before its lag grows: two heartbeats."""
STEP_MS = 2000
SPAN_MS = 15 * 60_000

Key = tuple[str, str]
"""Kind and node id."""


class Heard(msgspec.Struct, frozen=True):
    """A position as it was told, and when; `clock_ms`: what time it was then."""

    ts: int = 0
    clock_ms: int = 0

    def later(self, other: Heard) -> Heard:
        """Of two words on one position the larger; of equal ones this."""
        return self if self.ts >= other.ts else other

    def lag_ms(self, clock_ms: int) -> int | None:
        """None: it is not known."""
        if not self.ts:
            return None
        behind = max(0, self.clock_ms - physical_ms(self.ts))
        return behind + max(0, clock_ms - self.clock_ms - PATIENCE_MS)


class Words:
    """When each node told what it told last, by the clock that lags are taken by."""

    def __init__(self) -> None:
        self._at: dict[Key, tuple[int, int]] = {}

    def take(self, found: Nodes, clock_ms: int, *, by_wall: bool) -> None:
        """`by_wall`: the clock is the registry's, which dated each word."""
        known, self._at = self._at, {}
        for node in found.nodes:
            key = (node.kind, node.nodeId)
            told, at = known.get(key, (0, 0))
            if by_wall:
                at = physical_ms(node.updateTS)
            elif told != node.updateTS:
                at = clock_ms
            self._at[key] = node.updateTS, at

    def of(self, node: NodeStatus) -> Heard:
        """Its position as it told it last."""
        return Heard(node.resolvedTS, self._at[node.kind, node.nodeId][1])


class Series:
    """Samples of the last SPAN_MS, one each STEP_MS."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, Lags, float, float]] = deque(maxlen=SPAN_MS // STEP_MS + 1)

    def add(self, at_ms: int, lags: Lags, txns: float, rows: float) -> None:
        if not self._samples or at_ms - self._samples[-1][0] >= STEP_MS:
            self._samples.append((at_ms, lags, txns, rows))

    def past(self, at_ms: int) -> Past:
        kept = [sample for sample in self._samples if sample[0] >= at_ms - SPAN_MS]
        lags = [sample[1] for sample in kept]
        return Past(
            [sample[0] for sample in kept],
            [one.resolved for one in lags],
            [one.published for one in lags],
            [one.applied for one in lags],
            [sample[2] for sample in kept],
            [sample[3] for sample in kept],
        )
