"""resolved_ts: the original's vectors (B.3, C.5), and a model under random interleavings (I2)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.timestamps import compose
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.sort.sorter import Sorter

NOW_MS = 1_000


def sorter(*, follow: bool = True) -> Sorter:
    return Sorter(HighTs(follow=follow, skew_ms=60_000))


def play(events: str) -> list[int]:
    """`P5` a Prewrite, `C5@9` its Commit, `R5` its Rollback; resolved_ts after each event."""
    one, seen = sorter(), []
    for event in events.split():
        start, _, commit = event[1:].partition("@")
        if event[0] == "P":
            one.enter(int(start), NOW_MS)
        else:
            one.close(int(start), int(commit or 0), NOW_MS)
        one.advance()
        seen.append(one.resolved)
    return seen


def test_the_originals_vectors_come_out_the_same_or_earlier() -> None:
    # Nothing until C1 arrives, then everything up to 10 (the original publishes 3, then 10).
    assert play("P1 P2 C2@3 C1@10") == [1, 1, 1, 10]
    # C1 first: P2 arrived when 2 was the largest known, so only 2 is safe until C2.
    assert play("P1 P2 C1@10 C2@9") == [1, 1, 2, 10]
    assert play("P1 P2 C1@10 C2@9 P20 C20@200")[-2:] == [20, 200]


def original(events: str) -> list[int]:
    """The original's rule (B.3) after each event: a queue in log order whose head, if it is a
    Prewrite, waits for its end; the largest commit_ts that has left it."""
    queue: list[tuple[str, int, int]] = []
    ended: set[int] = set()
    largest, seen = 0, []
    for event in events.split():
        start, _, commit = event[1:].partition("@")
        queue.append((event[0], int(start), int(commit or 0)))
        if event[0] != "P":
            ended.add(int(start))
        while queue and (queue[0][0] != "P" or queue[0][1] in ended):
            largest = max(largest, queue.pop(0)[2])
        seen.append(largest)
    return seen


def test_the_original_on_its_own_vectors() -> None:
    assert original("P1 P2 C2@3 C1@10") == [0, 0, 0, 10]
    assert original("P1 P2 C1@10 C2@9 P20 C20@200") == [0, 0, 0, 10, 10, 200]


@given(
    script=st.lists(
        st.tuples(st.integers(0, 5), st.booleans(), st.integers(0, 9)), min_size=1, max_size=60
    )
)
@settings(max_examples=500, deadline=None)
def test_never_later_than_the_original(script: list[tuple[int, bool, int]]) -> None:
    """Any log that a TiDB can write: commit_ts above all that was allocated before the ack."""
    events: list[str] = []
    oracle, running = 0, dict[int, int]()
    for who, commits, ahead in script:
        oracle += 1 + ahead
        start = running.pop(who, 0)
        if not start:
            running[who] = oracle
            events.append(f"P{oracle}")
        else:
            events.append(f"C{start}@{oracle}" if commits else f"R{start}")
    line = " ".join(events)
    ours, theirs = play(line), original(line)
    assert all(a >= b for a, b in zip(ours, theirs, strict=True)), (line, ours, theirs)
    assert ours == sorted(ours)


def test_a_rollback_and_a_commit_without_prewrite_hold_nothing() -> None:
    assert play("P5 R5 C3@9") == [5, 5, 9]


def test_a_prewrite_is_bound_by_what_was_known_when_it_arrived() -> None:
    assert play("P1 C1@50 P10 C60@70") == [1, 50, 50, 50]


def test_a_repeated_prewrite_keeps_its_first_bound() -> None:
    assert play("P1 P3 C3@9 P1") == [1, 1, 1, 1]


def test_a_first_commit_below_resolved_is_a_late_copy() -> None:
    one = sorter()
    one.enter(5, NOW_MS)
    assert one.close(5, 20, NOW_MS)
    one.advance()
    assert not one.close(7, 12, NOW_MS)
    assert (one.late, one.resolved) == (1, 20)


def test_a_chased_prewrite_ages_by_the_same_clock() -> None:
    one = sorter()
    one.enter(3, NOW_MS, 1.0)
    one.enter_chased(5, 5, NOW_MS, 2.0)
    assert [p.start_ts for p in one.waiting_since(2.0)] == [3, 5]
    assert [p.start_ts for p in one.waiting_since(1.5)] == [3]


def test_a_chased_prewrite_that_was_entered_keeps_its_bound() -> None:
    one = sorter()
    one.enter(5, NOW_MS, 1.0)
    one.enter(9, NOW_MS, 1.0)
    one.enter_chased(5, 9, NOW_MS, 2.0)
    assert one.opened(5) == (5, 5, 1.0)
    assert one.opened(7) is None
    assert len(one) == 2


def test_a_reader_that_names_a_time_to_come_was_promised_nothing() -> None:
    one = sorter()
    one.has_read(compose(NOW_MS + 60_001), NOW_MS)
    assert one.promised == 0
    one.has_read(compose(NOW_MS + 60_000), NOW_MS)
    assert one.promised == compose(NOW_MS + 60_000)
    assert not one.close(3, 4, NOW_MS), "it is past that Commit"


def test_a_timestamp_beyond_the_skew_moves_nothing() -> None:
    one = sorter()
    far = compose(NOW_MS + 60_001)
    one.enter(far, NOW_MS)
    one.close(far, far + 1, NOW_MS)
    one.advance()
    assert one.resolved == 0
    assert one.high.refused == 2
    one.close(9, compose(NOW_MS + 60_000), NOW_MS)
    one.advance()
    assert one.resolved == compose(NOW_MS + 60_000)


def test_under_embedded_a_claim_waits_for_the_oracle() -> None:
    one = sorter(follow=False)
    one.enter(5, NOW_MS)
    one.close(5, 20, NOW_MS)
    one.advance()
    assert (one.resolved, one.high.wanted) == (0, 20)
    one.high.answer(30, asked=20)
    one.advance()
    assert (one.resolved, one.high.wanted, one.high.refused) == (30, 0, 0)
    one.high.claim(1_000, NOW_MS)
    one.high.answer(31, asked=1_000)
    assert (one.high.value, one.high.wanted, one.high.refused) == (31, 0, 1)


def test_a_restart_keeps_what_was_promised() -> None:
    one = sorter()
    one.enter(5, NOW_MS)
    one.close(5, 20, NOW_MS)
    one.advance()
    one.reset(20, [(7, 7)], NOW_MS)
    assert one.resolved == 20
    one.close(7, 30, NOW_MS)
    one.advance()
    assert one.resolved == 30


# A world with one oracle. Each transaction: start_ts allocated, Prewrite arrives, acked, commit_ts
# allocated, Commit indexed; the steps of many interleave in any order.
steps = st.lists(st.tuples(st.integers(0, 11), st.booleans()), max_size=120)


@given(script=steps, follow=st.booleans())
@settings(max_examples=500, deadline=None)
def test_everything_up_to_resolved_is_readable(
    script: list[tuple[int, bool]], *, follow: bool
) -> None:
    one, oracle = sorter(follow=follow), 0
    stage: dict[int, int] = {}
    starts: dict[int, int] = {}
    commits: dict[int, int] = {}
    readable: set[int] = set()
    promised = 0
    for who, forward in script:
        if not forward:
            # A reader's want_ts, or the oracle's answer to whatever was claimed.
            oracle += 1
            if follow:
                one.high.claim(oracle, NOW_MS)
            else:
                one.high.answer(oracle, one.high.wanted)
        else:
            at = stage.get(who, 0)
            stage[who] = at + 1
            match at:
                case 0:
                    oracle += 1
                    starts[who] = oracle
                case 1:
                    one.enter(starts[who], NOW_MS)
                case 2:
                    oracle += 1
                    commits[who] = oracle
                case 3:
                    readable.add(commits[who])
                    assert one.close(starts[who], commits[who], NOW_MS)
                    del stage[who], commits[who]
        one.advance()
        assert one.resolved >= promised
        promised = one.resolved
        held = [ts for ts in commits.values() if ts not in readable]
        assert all(ts > promised for ts in held), (promised, held)
