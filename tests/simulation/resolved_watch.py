"""Holds every Pump of a history whose oracle is `pd` to I2 and I9 whenever its sorter moves.

I9: W is a timestamp that PD has given by now. I2: resolved_ts does not pass a transaction whose
Prewrite is open here, while the only Pump that was sent it is this one.
"""

from __future__ import annotations

import functools

from tests.simulation.tidb import TidbCluster
from tidelog.sim.checker import Findings
from tidelog.sim.trace import Event
from tidelog.workload.outcomes import COMMITTED, Outcomes
from tidelog_proto.binlog_pb2 import Binlog, Prewrite
from tidelog_proto.transport_pb2 import WriteBatch
from tidelog_pump.sort.sorter import Sorter


class ResolvedWatch:
    """`moves`: how often it looked."""

    present: ResolvedWatch | None = None
    """Of the history that plays now."""

    def __init__(self, cluster: TidbCluster, outcomes: Outcomes, findings: Findings) -> None:
        _begin_to_watch()
        self._cluster, self._outcomes, self._findings = cluster, outcomes, findings
        self._sent_to: dict[int, set[str]] = {}
        self.moves = 0
        ResolvedWatch.present = self

    def watch(self, event: Event) -> None:
        """Of the trace: who was sent a Prewrite, and that the registry gives no timestamps."""
        if event.what == "request" and event.detail.split(" ")[0].endswith(".registry.tso"):
            self._findings.rules.append(f"I9: {event.node} asks the registry for a timestamp")
        if event.node != "workload" or event.what != "request" or ".write" not in event.detail:
            return
        for payload in WriteBatch.FromString(event.data).payloads:
            binlog = Binlog.FromString(payload)
            if payload and binlog.tp == Prewrite:
                to = event.detail.split(" ")[0]
                self._sent_to.setdefault(binlog.start_ts, set()).add(to)

    def moved(self, sorter: Sorter) -> None:
        self.moves += 1
        given = self._cluster.pd.given
        if max(sorter.high.value, sorter.resolved) > given:
            self._findings.rules.append(
                f"I9: W {sorter.high.value}, resolved {sorter.resolved}, and PD gave {given}"
            )
        for entry in sorter.waiting_since(float("inf")):
            outcome = self._outcomes.known(entry.start_ts)
            if outcome is None or outcome.state != COMMITTED:
                continue
            if outcome.commit_ts <= sorter.resolved and len(self._sent_to[entry.start_ts]) == 1:
                self._findings.rules.append(
                    f"I2: resolved {sorter.resolved} is past {outcome.commit_ts}, whose Prewrite"
                    f" {entry.start_ts} is open"
                )


@functools.cache
def _begin_to_watch() -> None:
    advance = Sorter.advance

    @functools.wraps(advance)
    def watched(self: Sorter) -> bool:
        moved = advance(self)
        if moved and ResolvedWatch.present is not None:
            ResolvedWatch.present.moved(self)
        return moved

    Sorter.advance = watched  # type: ignore[method-assign]
