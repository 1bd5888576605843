"""The one checker for loss, duplicates, order and gaps (reliability 2.5; invariants I5, I6).

A ledger keeps what the workload was told is committed; the change stream is compared with it, as
it was read.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from tidelog.change_reader import Change
from tidelog.changes import DdlMessage, MarkedTxn
from tidelog.workload.ledger import Committed, Event, digest


class Ledger:
    """What the source committed; filled before the acknowledgement returns to the load."""

    def __init__(self) -> None:
        self.committed: dict[int, Committed] = {}

    def add(self, entry: Committed) -> None:
        """A `Ledger` callback of the workload. Raises if a commit_ts was given twice."""
        known = self.committed.setdefault(entry.commit_ts, entry)
        if known != entry:
            raise AssertionError(f"the oracle gave {entry.commit_ts} twice: {known}, {entry}")

    @property
    def last_commit_ts(self) -> int:
        return max(self.committed, default=0)


@dataclass
class Findings:
    """What is wrong; each list has one sentence a case."""

    loss: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    """Broken by somebody without whom nothing was lost this time."""
    other: list[str] = field(default_factory=list)

    def kinds(self) -> dict[str, list[str]]:
        return {
            "loss": self.loss,
            "duplicate": self.duplicates,
            "out-of-order": self.order,
            "gap": self.gaps,
            "rule": self.rules,
            "other": self.other,
        }

    @property
    def clean(self) -> bool:
        return not any(self.kinds().values())

    def text(self, seed: object, limit: int = 5) -> str:
        """The failure, with what is needed to see it again."""
        lines = [f"seed {seed}:"]
        for kind, found in self.kinds().items():
            if found:
                lines.append(f"  {len(found)} {kind}")
                lines.extend(f"    {sentence}" for sentence in found[:limit])
        return "\n".join(lines)


class Kept(NamedTuple):
    """Of a transaction's rows, those that another feed has, too."""

    rows: int
    digest: str


@dataclass(frozen=True)
class Seen:
    """`ddls`: those of its batch, in order."""

    txn: MarkedTxn
    digest: str
    ddls: tuple[DdlMessage, ...]
    kept: Kept

    @property
    def versions(self) -> frozenset[int]:
        """Of its DDLs. One that was met before may come again (ADR 5)."""
        return frozenset(ddl.schema_version for ddl in self.ddls)


class StreamChecker:
    """Takes a feed's changes in the order they were read, over all lives of the reader.

    `position` is where a reader goes on: everything up to it was taken. `left_out`: the ops that
    another feed, which will be compared with this one, leaves out.
    """

    def __init__(self, findings: Findings, left_out: Collection[str] = ()) -> None:
        self.findings = findings
        self._left_out = left_out
        self.seen: dict[int, Seen] = {}
        self.position = 0
        self.batches = 0
        self._early: set[str] = set()
        """Queries that came with the rows that need them: their own binlogs bring them no more."""

    def take(self, change: Change) -> None:
        """A complete batch, or a watermark."""
        self.batches += 1
        events: dict[int, list[Event]] = {}
        for message in change.rows:
            for event in message.events:
                events.setdefault(event.commit_ts, []).append(
                    (message.db, message.table, event.op, event.before, event.after)
                )
        for txn in change.txns:
            if txn.commit_ts in self.seen:
                self.findings.duplicates.append(f"{txn.commit_ts} is twice in the stream")
            elif txn.commit_ts <= self.position:
                self.findings.order.append(f"{txn.commit_ts} came after {self.position}")
            found = events.pop(txn.commit_ts, [])
            if len(found) != txn.rows:
                self.findings.other.append(
                    f"{txn.commit_ts} announces {txn.rows} rows and has {len(found)}"
                )
            self.seen[txn.commit_ts] = self._seen(txn, found, change)
            self.position = max(self.position, txn.commit_ts)
        for commit_ts in events:
            self.findings.other.append(f"rows of {commit_ts}, which its marker does not name")
        if change.commit_ts < self.position:
            self.findings.order.append(f"up to {change.commit_ts} came after {self.position}")
        self.position = max(self.position, change.commit_ts)

    def _seen(self, txn: MarkedTxn, found: list[Event], change: Change) -> Seen:
        told = digest(found) if found else ""
        kept = Kept(len(found), told)
        if self._left_out:
            left = [event for event in found if event[2] not in self._left_out]
            kept = Kept(len(left), digest(left) if left else "")
        self._early.update(ddl.query for ddl in change.ddls if ddl.early)
        return Seen(txn, told, tuple(change.ddls), kept)

    def finish(self, ledger: Ledger, *, whole: bool = True) -> None:
        """Compare with the ledger. `whole`: everything must have arrived by now."""
        for commit_ts, entry in ledger.committed.items():
            seen = self.seen.get(commit_ts)
            if seen is not None:
                self._compare(entry, seen)
            elif entry.kind != "nothing" and (whole or commit_ts <= self.position):
                self.findings.loss.append(
                    f"{commit_ts} (start {entry.start_ts}, {entry.kind} {entry.query!r}) is not"
                    f" in the stream, which was read up to {self.position}"
                )
        for commit_ts in self.seen:
            if commit_ts not in ledger.committed:
                self.findings.other.append(f"{commit_ts} was never committed upstream")

    def _compare(self, entry: Committed, seen: Seen) -> None:
        other = self.findings.other
        if seen.txn.start_ts != entry.start_ts:
            other.append(f"{entry.commit_ts} has start_ts {seen.txn.start_ts}")
        if entry.kind == "nothing":
            other.append(f"{entry.commit_ts} should not be in the stream")
        elif seen.txn.rows != entry.rows:
            other.append(f"{entry.commit_ts} has {seen.txn.rows} rows, not {entry.rows}")
        elif seen.digest != entry.digest:
            other.append(f"{entry.commit_ts} has other rows than upstream")
        queries = [ddl.query for ddl in seen.ddls if not ddl.early]
        wanted = [entry.query] if entry.kind == "ddl" else []
        if queries != wanted and (queries or entry.query not in self._early):
            other.append(f"{entry.commit_ts} has the DDLs {queries}, not {wanted}")
