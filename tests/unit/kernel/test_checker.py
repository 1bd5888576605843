"""The checker of simulated histories: each kind of damage is found, and named as what it is."""

from __future__ import annotations

import pytest

from tidelog.change_reader import Change
from tidelog.changes import DdlMessage, Event, MarkedTxn, RowMessage
from tidelog.sim.checker import Findings, Ledger, StreamChecker
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


def ddl(commit_ts: int, *queries: str, early: str = "") -> Change:
    """A DDL's binlog, or what is left of one whose DDL came early."""
    ddls = [DdlMessage(commit_ts, query, "", "d", 1, early=query == early) for query in queries]
    return Change(commit_ts, [MarkedTxn(commit_ts, commit_ts - 1, 0)], ddls=ddls)


def altered(*commit_ts: int) -> Ledger:
    ledger = Ledger()
    for ts in commit_ts:
        ledger.add(Committed(ts, ts - 1, "ddl", query=f"drop table t{ts}"))
    return ledger


def test_a_ddl_is_compared_by_its_text() -> None:
    assert found(altered(5, 9), ddl(5, "drop table t5"), ddl(9, "drop table t9")) == {}
    for wrong in ([], ["drop table t9"], ["drop table t5", "drop table t5"]):
        damage = found(altered(5), ddl(5, *wrong))
        assert "5 has the DDLs" in damage["other"][0], damage
    beside_rows = Change(5, batch(5).txns, batch(5).rows, ddl(5, "drop table t5").ddls)
    assert "5 has the DDLs" in found(told(5), beside_rows)["other"][0]


def test_a_ddl_that_came_early_may_come_by_its_own_binlog_or_not() -> None:
    rows = batch(5)
    early = Change(5, rows.txns, rows.rows, ddl(5, "drop table t9", early="drop table t9").ddls)
    ledger = told(5)
    ledger.add(altered(9).committed[9])
    assert found(ledger, early, ddl(9)) == {}
    assert found(ledger, early, ddl(9, "drop table t9")) == {}
    assert "other" in found(ledger, early, ddl(9, "drop table t5"))


def test_what_is_found_is_told_with_the_seed() -> None:
    findings = Findings(loss=["a", "b"], duplicates=["c"])
    assert not findings.clean
    assert findings.text(7, limit=1).splitlines() == [
        "seed 7:",
        "  2 loss",
        "    a",
        "  1 duplicate",
        "    c",
    ]
