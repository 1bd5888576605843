"""Watches what a writer tells the Pumps: who may abandon a copy of a Prewrite, and when.

The first Pump that acked a Prewrite is the transaction's. Another one that was tried may hold a
copy, and gets its Rollback only when the transaction's Pump acked Commit or Rollback (section 7).
Too early it does harm only where that Pump is then lost for good, with the rows that the copy had:
so the rule itself is checked, in every history.
"""

from __future__ import annotations

from tidelog.sim.checker import Findings
from tidelog.sim.trace import Event
from tidelog_proto.binlog_pb2 import Binlog, Prewrite, Rollback
from tidelog_proto.transport_pb2 import WriteBatch, WriteBatchResult


class CopyWatch:
    """Of one node's requests; `watch` is a watcher of the trace."""

    def __init__(self, writer: str, findings: Findings) -> None:
        self._writer = writer
        self._findings = findings
        self._holder: dict[int, str] = {}
        self._asked: list[Binlog | None] = []
        """What the answer that comes next is to; None = a probe."""
        self._before: dict[int, str] = {}
        """As it was before the newest answer."""
        self._taken_for_failed = False
        """An ack is, by a failpoint: of the Prewrite that is tried once more."""

    def watch(self, event: Event) -> None:
        if event.node != self._writer:
            return
        if event.what == "failpoint" and event.detail == "client.lane.answered raise":
            self._holder = self._before  # the writer does not hear that answer
        if event.what == "failpoint" and event.detail == "client.prewrite.acked raise":
            self._taken_for_failed = True
        if ".write" not in event.detail:
            return
        subject = event.detail.split(" ")[0]
        if ".pump." not in subject:
            return
        match event.what:
            case "request":
                for binlog in _binlogs(event.data):
                    self._sent(subject, binlog)
            case "answered":
                self._asked = _binlogs(event.data)
            case "answer":
                self._before = dict(self._holder)
                results = WriteBatchResult.FromString(event.data).results
                for binlog, result in zip(self._asked, results, strict=True):
                    if binlog is not None and not result.code:
                        self._acked(subject, binlog)

    def _sent(self, subject: str, binlog: Binlog | None) -> None:
        if binlog is None:
            return
        if binlog.tp == Prewrite and self._taken_for_failed and binlog.start_ts in self._holder:
            del self._holder[binlog.start_ts]
            self._taken_for_failed = False
        if binlog.tp != Rollback:
            return
        holder = self._holder.get(binlog.start_ts, subject)
        if holder != subject:
            self._findings.rules.append(
                f"{subject} is told to roll {binlog.start_ts} back, while {holder} has not acked"
                " how it ended"
            )

    def _acked(self, subject: str, binlog: Binlog) -> None:
        if binlog.tp == Prewrite:
            self._holder.setdefault(binlog.start_ts, subject)
        elif self._holder.get(binlog.start_ts) == subject:
            del self._holder[binlog.start_ts]


def _binlogs(batch: bytes) -> list[Binlog | None]:
    payloads = WriteBatch.FromString(batch).payloads
    return [Binlog.FromString(payload) if payload else None for payload in payloads]
