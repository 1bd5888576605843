"""docs/planted-bugs.md is what the record says; a finding counts only for its own bug."""

from __future__ import annotations

from tests.crash.mutations import MUTATIONS
from tests.planted.bugs import BUGS
from tests.planted.marks import broken_marks
from tests.planted.noticed import TESTS, Noticed
from tests.planted.report import PAGE, page, table
from tests.planted.schedule import Schedule, calm
from tidelog.changes import MarkedTxn, Marker, Watermark
from tidelog.messages import encode
from tidelog.ports import Message
from tidelog.subjects import changes_txn, changes_watermark

FEED = "main"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == page(), "`python -m tests.planted.run --write`"


def test_the_table_has_a_line_for_each() -> None:
    lines = table().splitlines()
    assert len(lines) == 2 + len(BUGS) + len(MUTATIONS)
    assert page().count("\n| ") == 2 + len(BUGS)


def test_a_finding_counts_for_its_bug_if_it_is_of_its_kind_and_says_so() -> None:
    schedule = Schedule("b", "m", "rule", calm, (), says="stands behind")
    assert not schedule.caught_by({"loss": ["it stands behind"], "rule": ["another one"]})
    assert schedule.caught_by({"rule": ["another one", "it stands behind"]}) == "it stands behind"
    assert not Noticed("b", "n", "DID NOT RAISE").caught_by(["E   ImportError"])


def test_what_a_test_says_is_of_its_bug_and_no_error_of_another_kind() -> None:
    """Not the heading of a failed test, and not any assertion."""
    others = ["    assert another is True", "E   AssertionError", "E   ImportError"]
    for test in TESTS:
        name = test.node.rpartition("::")[2]
        assert not test.caught_by([f"___ {name} ___", *others]), test


def marker(*commit_ts: int, prev: int) -> Message:
    txns = [MarkedTxn(ts, ts - 1, 1) for ts in commit_ts]
    return Message(changes_txn(FEED), encode(Marker("a", 1, prev, txns)))


def watermark(resolved_ts: int, prev: int) -> Message:
    return Message(changes_watermark(FEED), encode(Watermark(resolved_ts, prev)))


def test_marks_that_follow_each_other_are_whole() -> None:
    rows = Message(f"changes.{FEED}.row.d.t", b"{}")
    first = [watermark(5, 3), rows, marker(7, 9, prev=3), watermark(20, 9), marker(21, prev=9)]
    assert broken_marks(first, FEED) == []


def test_a_marker_behind_a_mark_and_a_broken_chain_are_told() -> None:
    twice = broken_marks([marker(7, 9, prev=3), marker(9, 12, prev=9)], FEED)
    assert twice == ["a marker from 9 on stands behind a mark of 9"]
    anew = broken_marks([marker(7, prev=3), watermark(9, 0)], FEED)
    assert anew == ["the mark of 9 says that 0 is before it, and 7 is"]
