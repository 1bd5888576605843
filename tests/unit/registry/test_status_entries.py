"""What of the status bucket is due to be written, and when."""

from __future__ import annotations

from msgspec.structs import replace

from tidelog.messages import DRAINER, ONLINE, PAUSED, NodeStatus
from tidelog_registry.statuses.entries import BATCH, RENEW_S, StatusEntries

P1 = NodeStatus("p1", state=ONLINE, isAlive=True, updateTS=1, label={"zone": "a"})
D1 = NodeStatus("p1", state=ONLINE, isAlive=True, updateTS=1, kind=DRAINER)


def test_a_new_one_is_due_at_once_and_no_more_when_written() -> None:
    entries = StatusEntries()
    due = entries.due([P1, D1], 0)
    assert due == {"pump.p1": P1, "drainer.p1": D1}
    assert entries.due([P1, D1], 1) == due, "nobody said that it is written"
    entries.wrote(due, 1)
    assert not entries.due([P1, D1], 1 + RENEW_S - 0.1)


def test_news_are_due_at_once_and_positions_with_the_renewal() -> None:
    entries = StatusEntries()
    entries.wrote(entries.due([P1], 0), 0)
    moved = replace(P1, maxCommitTS=9, highTS=9, resolvedTS=9, logTS=9, updateTS=9, score=9)
    assert not entries.due([moved], 1)
    assert entries.due([moved], RENEW_S) == {"pump.p1": moved}
    for news in (
        replace(moved, state=PAUSED),
        replace(moved, isAlive=False),
        replace(moved, host="h:1"),
        replace(moved, label={"zone": "b"}),
        replace(moved, epoch=2),
        replace(moved, detail={"retention": "asked 3 times"}),
    ):
        assert entries.due([news], 1) == {"pump.p1": news}


def test_a_complaint_that_only_changes_its_words_waits() -> None:
    entries = StatusEntries()
    complains = replace(P1, detail={"retention": "asked 3 times"})
    entries.wrote(entries.due([complains], 0), 0)
    assert not entries.due([replace(P1, detail={"retention": "asked 4 times"})], 1)
    assert entries.due([P1], 1)


def test_a_node_that_is_silent_is_told_once_and_then_ends() -> None:
    entries = StatusEntries()
    entries.wrote(entries.due([P1], 0), 0)
    silent = replace(P1, isAlive=False)
    entries.wrote(entries.due([silent], 6), 6)
    assert not entries.due([silent], 1000)


def test_a_node_that_was_not_heard_of_yet_keeps_its_entry() -> None:
    assert not StatusEntries().due([replace(P1, updateTS=0)], 0)


def test_what_was_lost_is_due_again_and_what_left_is_forgotten() -> None:
    entries = StatusEntries()
    entries.wrote(entries.due([P1, D1], 0), 0)
    entries.forget()
    assert entries.due([P1, D1], 1) == {"pump.p1": P1, "drainer.p1": D1}
    entries.wrote(entries.due([P1, D1], 1), 1)
    assert not entries.due([P1], 2)
    assert entries.due([P1, D1], 3) == {"drainer.p1": D1}


def test_a_batch_is_bounded_and_begins_with_news_then_the_oldest() -> None:
    entries = StatusEntries()
    many = [replace(P1, nodeId=f"p{n}") for n in range(BATCH + 2)]
    first = entries.due(many, 0)
    assert len(first) == BATCH
    entries.wrote(first, 0)
    second = entries.due(many, 1)
    assert set(second) == {f"pump.p{BATCH}", f"pump.p{BATCH + 1}"}
    entries.wrote(second, 1)
    many[1] = replace(many[1], state=PAUSED)
    third = list(entries.due(many, 1 + RENEW_S))
    assert third[0] == "pump.p1"
    assert len(third) == BATCH
    assert f"pump.p{BATCH}" not in third
