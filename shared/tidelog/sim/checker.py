"""The one checker for loss, duplicates, order and gaps (reliability 2.5; invariants I5, I6).

A ledger keeps what the workload was told is committed. The change stream as it was read, and the
downstream's contents in the end, are compared with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.changes import MarkedTxn


@dataclass(frozen=True)
class Committed:
    """A transaction that the source database committed, and how many rows it changed."""

    commit_ts: int
    start_ts: int
    rows: int = -1
    """-1: not known, not compared."""
    digest: str = ""


class Ledger:
    """Filled before the acknowledgement returns to whoever makes the load."""

    def __init__(self) -> None:
        self.committed: dict[int, Committed] = {}

    def add(self, entry: Committed) -> None:
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
    other: list[str] = field(default_factory=list)

    def kinds(self) -> dict[str, list[str]]:
        return {
            "loss": self.loss,
            "duplicate": self.duplicates,
            "out-of-order": self.order,
            "gap": self.gaps,
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


class StreamChecker:
    """Reads batches as they come, in the order of the stream, one reader's life after another."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.seen: dict[int, MarkedTxn] = {}
        self.position = 0
        self.batches = 0

    def batch(self, txns: Sequence[MarkedTxn], upto: int) -> None:
        """A complete batch, or a watermark without transactions; `upto` is its commit_ts."""
        self.batches += 1
        for txn in txns:
            if txn.commit_ts in self.seen:
                self.findings.duplicates.append(f"{txn.commit_ts} is twice in the stream")
            elif txn.commit_ts <= self.position:
                self.findings.order.append(f"{txn.commit_ts} came after {self.position}")
            self.seen[txn.commit_ts] = txn
            self.position = max(self.position, txn.commit_ts)
        if upto < self.position:
            self.findings.order.append(f"a batch up to {upto} came after {self.position}")
        self.position = max(self.position, upto)

    def finish(self, ledger: Ledger, *, whole: bool = True) -> None:
        """Compare with the ledger. `whole`: everything must have arrived by now."""
        for commit_ts, entry in ledger.committed.items():
            txn = self.seen.get(commit_ts)
            if txn is None:
                if whole or commit_ts <= self.position:
                    self.findings.loss.append(
                        f"{commit_ts} (start {entry.start_ts}) is not in the stream,"
                        f" which was read up to {self.position}"
                    )
            elif txn.start_ts != entry.start_ts:
                self.findings.other.append(f"{commit_ts} has start_ts {txn.start_ts}")
            elif entry.rows >= 0 and txn.rows != entry.rows:
                self.findings.other.append(f"{commit_ts} has {txn.rows} rows, not {entry.rows}")
        for commit_ts in self.seen:
            if commit_ts not in ledger.committed:
                self.findings.other.append(f"{commit_ts} was never committed upstream")


def compare_contents(
    findings: Findings,
    expected: Mapping[str, Iterable[bytes]],
    actual: Mapping[str, Iterable[bytes]],
) -> None:
    """Final contents by table, rows in a canonical form: nothing missing, nothing too much."""
    for table in sorted({*expected, *actual}):
        wanted, found = sorted(expected.get(table, ())), sorted(actual.get(table, ()))
        if wanted == found:
            continue
        missing, extra = _difference(wanted, found), _difference(found, wanted)
        if missing:
            findings.loss.append(f"{table}: {len(missing)} rows missing, first {missing[0]!r}")
        if extra:
            findings.duplicates.append(f"{table}: {len(extra)} rows too many, first {extra[0]!r}")


def _difference(left: Sequence[bytes], right: Sequence[bytes]) -> list[bytes]:
    """The elements of `left` without those of `right`, both sorted, as bags."""
    found: list[bytes] = []
    place = 0
    for item in left:
        while place < len(right) and right[place] < item:
            place += 1
        if place < len(right) and right[place] == item:
            place += 1
        else:
            found.append(item)
    return found
