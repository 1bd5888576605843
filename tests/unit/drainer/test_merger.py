"""The merge against a sorted list, under every interleaving of deliveries (I3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog_drainer.merge.merger import Disorder, Merger, Overtaken, Txn

NODES = ("a", "b", "c")


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[list[Txn]], list[tuple[int, int]]]:
    """Transactions of three sources, some on two; and deliveries as (source, how many)."""
    times = draw(st.lists(st.integers(1, 200), unique=True, max_size=40))
    sources: list[list[Txn]] = [[], [], []]
    for ts in sorted(times):
        txn = (ts, ts - 1, b"%d" % ts)
        homes = draw(st.sets(st.integers(0, 2), min_size=1, max_size=2))
        for home in sorted(homes):
            sources[home].append(txn)
    steps = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5)), max_size=40))
    return sources, steps


@given(histories())
def test_merges_like_a_sort(history: tuple[list[list[Txn]], list[tuple[int, int]]]) -> None:
    sources, steps = history
    merger = Merger(0)
    for node in NODES:
        assert merger.add(node)
    sent = [0, 0, 0]
    out: list[Txn] = []
    copies = sum(map(len, sources))
    for which, count in [*steps, (0, 99), (1, 99), (2, 99)]:
        part = sources[which][sent[which] : sent[which] + count]
        sent[which] += len(part)
        done = sent[which] == len(sources[which])
        resolved = 500 if done else (part[-1][0] if part else 0)
        merger.push(NODES[which], part, resolved, sum(len(t[2]) for t in part))
        out += merger.take(merger.horizon())
        # Whatever was taken is complete: nothing at or below it is still to come.
        missing = [t for s, n in zip(sources, sent, strict=True) for t in s[n:]]
        assert all(ts > merger.emitted for ts, _, _ in missing)
    assert out == sorted({txn for source in sources for txn in source})
    assert merger.duplicates == copies - len(out)
    assert all(source.bytes == 0 for source in merger.sources.values())


def test_the_seeds_third_pump() -> None:
    """Seed 000, online notification: {1,3,5,7,9}, {2,4,6,10} and a late Pump with {8,12}."""
    merger = Merger(0)
    for node, times in (("p1", (1, 3, 5, 7, 9)), ("p2", (2, 4, 6, 10))):
        merger.add(node)
        merger.push(node, [(ts, ts, b"") for ts in times], times[-1], 0)
    assert [t[0] for t in merger.take(7)] == [1, 2, 3, 4, 5, 6, 7]
    merger.add("p3")
    assert merger.horizon() == 7
    assert merger.take(7) == []
    merger.push("p3", [(8, 8, b""), (12, 12, b"")], 12, 0)
    assert [t[0] for t in merger.take(merger.horizon())] == [8, 9]


def test_a_source_never_goes_back() -> None:
    merger = Merger(0)
    merger.add("a")
    merger.push("a", [(5, 4, b"")], 9, 0)
    merger.push("a", [], 7, 0)
    assert merger.horizon() == 9
    with pytest.raises(Disorder):
        merger.push("a", [(9, 8, b"")], 9, 0)


def test_two_transactions_of_one_commit_ts() -> None:
    merger = Merger(0)
    for node, start in (("a", 1), ("b", 2)):
        merger.add(node)
        merger.push(node, [(5, start, b"")], 5, 0)
    assert merger.take(5) == []
    assert merger.stopped is not None
    assert "started at 1 (a) and 2 (b)" in str(merger.stopped)
    assert merger.horizon() == merger.emitted == 4


def test_a_tombstone_keeps_what_was_delivered() -> None:
    merger = Merger(0)
    merger.add("a")
    merger.add("b")
    merger.push("a", [(5, 4, b"x")], 5, 1)
    merger.push("b", [(7, 6, b"x")], 7, 1)
    merger.remove("a")
    assert merger.horizon() == 7
    assert [t[0] for t in merger.take(7)] == [5, 7]
    assert list(merger.sources) == ["b"]
    assert merger.add("a")
    assert merger.horizon() == 7


def test_a_source_that_rejoins_before_its_last_transactions_are_merged_keeps_them() -> None:
    merger = Merger(0)
    merger.add("a")
    merger.add("b")
    merger.push("a", [(5, 4, b"x")], 6, 1)
    merger.remove("a")
    assert merger.add("a")
    assert merger.horizon() == 0, "b is still waited for"
    merger.push("b", [], 20, 0)
    assert merger.horizon() == 6, "and so is a, which goes on from where it was"
    merger.push("a", [(7, 6, b"y")], 9, 1)
    assert merger.take(9) == [(5, 4, b"x"), (7, 6, b"y")]
    assert not merger.add("a")


def test_what_a_source_may_not_deliver() -> None:
    merger = Merger(0)
    merger.add("a")
    merger.push("a", [], 10, 0)
    merger.take(10)
    merger.add("late", 0)
    with pytest.raises(Overtaken, match="late has commit_ts 7, and 10 was passed") as overtaken:
        merger.push("late", [(7, 6, b"")], 12, 0)
    assert overtaken.value.commit_ts == 7
    with pytest.raises(Disorder, match="a delivered commit_ts 10 after 10") as disorder:
        merger.push("a", [(10, 9, b"")], 12, 0)
    assert disorder.value.commit_ts == 10


def test_a_tombstone_of_nobodys_changes_nothing() -> None:
    merger = Merger(3)
    merger.add("a")
    merger.remove("unknown")
    assert list(merger.sources) == ["a"]
    assert merger.horizon() == 3


def test_no_source_no_horizon() -> None:
    assert Merger(3).horizon() == 3
