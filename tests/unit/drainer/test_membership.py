"""Source 0: when may be emitted, by what the bucket's leader says (I3)."""

from __future__ import annotations

from tidelog.ports import StreamState
from tidelog_drainer.merge.membership import MembershipView, Verdict

OLD = "2026-11-18T10:00:00.123456789Z"
NOW_MS = 1_795_000_000_000


def bucket(last_seq: int, created: str = OLD) -> StreamState:
    return StreamState(created, 1, last_seq, last_seq)


def seen(last_seq: int = 4) -> MembershipView:
    """A view that has read an old bucket."""
    view = MembershipView(6.0)
    assert view.judge(bucket(last_seq), 0.0, NOW_MS) is Verdict.CHANGED
    view.entries_read(last_seq)
    assert view.judge(bucket(last_seq), 0.1, NOW_MS) is Verdict.SAME
    return view


def test_a_new_entry_is_read_before_anything_is_emitted() -> None:
    view = seen(4)
    assert view.judge(bucket(5), 1.0, NOW_MS) is Verdict.CHANGED
    assert view.judge(bucket(5), 1.1, NOW_MS) is Verdict.CHANGED
    view.entries_read(5)
    assert view.judge(bucket(5), 1.2, NOW_MS) is Verdict.SAME


def test_rolled_back_waits_a_lease_and_reads_again() -> None:
    view = seen(4)
    assert view.judge(bucket(3), 10.0, NOW_MS) is Verdict.UNTRUSTED
    assert view.judge(bucket(4), 15.9, NOW_MS) is Verdict.UNTRUSTED
    assert view.judge(bucket(4), 16.0, NOW_MS) is Verdict.CHANGED


def test_recreated_and_missing_wait_a_lease() -> None:
    for states in ([bucket(9, "other")], [None, bucket(9, "other")]):
        view = seen(4)
        now = 10.0
        for state in states:
            assert view.judge(state, now, NOW_MS) is Verdict.UNTRUSTED
            now += 1.0
        assert view.judge(states[-1], 20.0, NOW_MS) is Verdict.CHANGED


def test_recreated_again_while_it_waits() -> None:
    view = seen(4)
    assert view.judge(bucket(1, "b"), 10.0, NOW_MS) is Verdict.UNTRUSTED
    assert view.judge(bucket(1, "c"), 15.0, NOW_MS) is Verdict.UNTRUSTED
    assert view.judge(bucket(1, "c"), 17.0, NOW_MS) is Verdict.UNTRUSTED
    assert view.judge(bucket(1, "c"), 21.0, NOW_MS) is Verdict.CHANGED


def test_at_start_a_young_bucket_is_waited_for() -> None:
    born_ms = 1_795_000_000_000
    view = MembershipView(6.0)
    young = bucket(1, "2026-11-18T11:06:40Z")
    assert view.judge(young, 0.0, born_ms) is Verdict.UNTRUSTED
    assert not view.trusted
    unreadable = MembershipView(6.0)
    assert unreadable.judge(bucket(1, "run-7"), 0.0, born_ms) is Verdict.UNTRUSTED


def test_a_bucket_met_for_the_first_time_is_doubted_however_old_it_is() -> None:
    """Seed 795: the registry's write of one entry hung for longer than a lease, and a Drainer that
    first looked then took a bucket filled by half for all there was."""
    view = MembershipView(6.0)
    doubts: list[bool] = []
    assert view.judge(bucket(3), 0.0, NOW_MS) is Verdict.CHANGED
    doubts.append(view.doubted)
    view.entries_read(3)
    doubts.append(view.doubted)
    # An entry more is no reason to ask the registry.
    assert view.judge(bucket(4), 1.0, NOW_MS) is Verdict.CHANGED
    doubts.append(view.doubted)
    assert doubts == [True, False, False]
