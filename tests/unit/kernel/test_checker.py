"""The checker of simulated histories: each kind of damage is found, and named as what it is."""

from __future__ import annotations

import pytest

from tidelog.change_reader import Change
from tidelog.changes import Event, MarkedTxn, RowMessage
from tidelog.sim.checker import Findings, Ledger, StreamChecker, compare_contents
from tidelog.workload.ledger import Committed, digest


def batch(*commit_ts: int, rows: int = 1, value: int = 0, start: int = 1) -> Change:
    """Transactions with so many rows of `d.t`."""
    events = [Event("c", ts, None, None, {"v": value + n}) for ts in commit_ts for n in range(rows)]
    marked = [MarkedTxn(ts, ts - start, rows) for ts in commit_ts]
    return Change(commit_ts[-1], marked, [RowMessage("d", "t", 1, events)] if events else [])


def told(*commit_ts: int, kind: str = "rows") -> Ledger:
    """Each committed with one row."""
    ledger = Ledger()
    for ts in commit_ts:
        ledger.add(Committed(ts, ts - 1, kind, 1, digest([("d", "t", "c", None, {"v": 0})])))
    return ledger


def found(ledger: Ledger, *changes: Change, whole: bool = True) -> dict[str, list[str]]:
    """What is wrong with a stream of these changes, by its kind."""
    checker = StreamChecker(Findings())
    for change in changes:
        checker.take(change)
    checker.finish(ledger, whole=whole)
    return {kind: said for kind, said in checker.findings.kinds().items() if said}


def test_what_was_committed_and_read_once_in_order_is_clean() -> None:
    assert found(told(5, 9), batch(5), Change(7), batch(9), Change(12)) == {}
    assert Findings().clean


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ([batch(5)], "loss", "9 (start 8"),
        ([batch(5), batch(5), batch(9)], "duplicate", "5 is twice"),
        ([batch(9), batch(5)], "out-of-order", "5 came after 9"),
        ([batch(5), batch(9), Change(7)], "out-of-order", "up to 7 came after 9"),
        ([batch(5), batch(7), batch(9)], "other", "7 was never committed"),
        ([batch(5), batch(9, value=1)], "other", "9 has other rows"),
        ([batch(5), batch(9, rows=2)], "other", "9 has 2 rows, not 1"),
        ([batch(5), batch(9, start=3)], "other", "9 has start_ts 6"),
    ],
)
def test_each_damage_is_found(changes: list[Change], kind: str, said: str) -> None:
    damage = found(told(5, 9), *changes)
    assert any(said in sentence for sentence in damage[kind]), damage


def test_rows_that_a_marker_does_not_announce_are_found() -> None:
    rows = batch(5, 9).rows
    damage = found(told(5), Change(9, [MarkedTxn(5, 4, 2)], rows))["other"]
    assert any("announces 2 rows and has 1" in sentence for sentence in damage)
    assert any("rows of 9, which its marker does not name" in sentence for sentence in damage)


def test_what_is_on_its_way_is_no_loss_and_what_changes_nothing_must_not_come() -> None:
    assert found(told(5, 9), batch(5), whole=False) == {}
    assert "loss" in found(told(5, 9), batch(5), Change(9), whole=False)
    assert found(told(5, kind="nothing"), Change(9)) == {}
    assert "should not be" in found(told(5, kind="nothing"), batch(5))["other"][0]


def test_a_timestamp_that_is_given_twice_is_the_oracles_damage() -> None:
    ledger = told(5)
    ledger.add(ledger.committed[5])
    with pytest.raises(AssertionError, match="gave 5 twice"):
        ledger.add(Committed(5, 3, "rows"))
    assert (ledger.last_commit_ts, Ledger().last_commit_ts) == (5, 0)


def test_contents_are_compared_as_bags_by_table() -> None:
    findings = Findings()
    expected = {"d.t": [b"a", b"a", b"c"], "d.gone": [b"x"], "d.same": [b"2", b"1"]}
    actual = {"d.t": [b"a", b"b", b"c"], "d.new": [b"y", b"z"], "d.same": [b"1", b"2"]}
    compare_contents(findings, expected, actual)
    assert findings.loss == [
        "d.gone: 1 rows missing, first b'x'",
        "d.t: 1 rows missing, first b'a'",
    ]
    assert findings.duplicates == [
        "d.new: 2 rows too many, first b'y'",
        "d.t: 1 rows too many, first b'b'",
    ]
    assert not findings.clean
    assert findings.text(7, limit=1).splitlines() == [
        "seed 7:",
        "  2 loss",
        "    d.gone: 1 rows missing, first b'x'",
        "  2 duplicate",
        "    d.new: 2 rows too many, first b'y'",
    ]
