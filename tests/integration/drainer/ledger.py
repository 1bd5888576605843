"""What was committed, and what is wrong with what a plain reader of the stream sees. Pure.

The chain is checked too, message by message, beside the ChangeReader's own parts: a reader that
hides a gap must not hide it from the rig.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.kills.chain import Chain
from tests.wrong import Wrong
from tidelog.change_reader import Change, ChangeAssembler, Gap
from tidelog.changes import DdlMessage, RowMessage
from tidelog.ports import Message
from tidelog.rows.values import Value

Row = dict[str, Value]
RowChange = tuple[str, Row | None, Row | None]
"""op, before, after."""


@dataclass
class Written:
    """One committed transaction: rows by table, in order; or a DDL."""

    start_ts: int
    rows: dict[str, list[RowChange]] = field(default_factory=dict)
    query: str = ""


class Ledger:
    def __init__(self) -> None:
        self.txns: dict[int, Written] = {}
        self.order: list[int] = []

    def commit(self, commit_ts: int, written: Written) -> None:
        """Before its Commit is sent: a reader may be quicker than its ack."""
        self.txns[commit_ts] = written
        bisect.insort(self.order, commit_ts)

    @property
    def last_commit_ts(self) -> int:
        return self.order[-1] if self.order else 0


class Reading:
    """The stream from its first message on, as a reader at position 0 sees it."""

    def __init__(self, ledger: Ledger, feed: str) -> None:
        self.position = 0
        self.checked = 0
        self.chain = Chain(feed)
        self._ledger = ledger
        self._assembler = ChangeAssembler(feed, 0)
        self._next = 0

    def take(self, messages: list[Message]) -> None:
        """The next messages. Raises Wrong."""
        for message in messages:
            self.chain.take(message)
            try:
                changes = self._assembler.feed([message])
            except Gap as gap:
                raise Wrong(f"a gap: {gap}") from gap
            for change in changes:
                self._change(change)

    def _change(self, change: Change) -> None:
        ledger = self._ledger
        for txn in change.txns:
            if txn.commit_ts <= self.position:
                raise Wrong(f"{txn.commit_ts} comes after {self.position}: twice, or disorder")
            self._passed(txn.commit_ts - 1)
            written = ledger.txns.get(txn.commit_ts)
            if written is None or written.start_ts != txn.start_ts:
                raise Wrong(f"({txn.commit_ts}, {txn.start_ts}) was never committed")
            self._next += 1
            self.position = txn.commit_ts
            check_rows(txn.commit_ts, written, change.rows, change.ddls)
            self.checked += 1
        self._passed(change.commit_ts)
        self.position = max(self.position, change.commit_ts)

    def _passed(self, upto: int) -> None:
        order = self._ledger.order
        if self._next < len(order) and order[self._next] <= upto:
            raise Wrong(f"loss: {order[self._next]} is not in the stream, which is at {upto}")


def check_rows(
    commit_ts: int, written: Written, rows: Iterable[RowMessage], ddls: Iterable[DdlMessage]
) -> None:
    """Raises Wrong unless it is as it was written. `rows` may have other transactions, too."""
    if written.query:
        queries = [ddl.query for ddl in ddls]
        if queries != [written.query]:
            raise Wrong(f"{commit_ts}: {queries} instead of {written.query}")
        return
    found: dict[str, list[RowChange]] = {}
    for message in rows:
        for event in message.events:
            if event.commit_ts == commit_ts:
                one = (event.op, event.before, event.after)
                found.setdefault(message.table, []).append(one)
    if found != written.rows:
        raise Wrong(f"{commit_ts}: {_shown(found)} instead of {_shown(written.rows)}")


def _shown(rows: dict[str, list[RowChange]]) -> str:
    return str(rows)[:300]
