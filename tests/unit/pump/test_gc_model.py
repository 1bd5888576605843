"""Retention over random histories, beside a naive account of who needs what: the real pairing,
policy and sweep, on a log of tiny segments that is a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.pump.test_closed import Map
from tidelog.payload import Kind
from tidelog.timestamps import TS_MAX
from tidelog_pump.index import keys
from tidelog_pump.index.keys import NOWHERE, Head, State
from tidelog_pump.index.pairing import Pairing
from tidelog_pump.index.taken import taken
from tidelog_pump.log.place import Place
from tidelog_pump.retention.gc import Decision, Held, Limits, decide
from tidelog_pump.retention.sweep import Sweep
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.write.intake import Stored

RECORDS = 3
"""Of one segment."""


class Store(Map):
    """As much of an IndexStore as retention takes."""

    def get(self, key: bytes) -> bytes | None:
        return self.data.get(key)

    def write(self, puts: Sequence[tuple[bytes, bytes]], deletes: Sequence[bytes] = ()) -> None:
        self.data |= dict(puts)
        for key in deletes:
            self.data.pop(key, None)

    def delete_range(self, start: bytes, stop: bytes) -> None:
        for key in [key for key in self.data if start <= key < stop]:
            del self.data[key]

    def clear(self) -> None:
        self.data.clear()

    def behind(self) -> bool:
        return False

    def close(self) -> None:
        """Nothing is open."""


class Rec(NamedTuple):
    kind: Kind
    start_ts: int
    commit_ts: int


class Log:
    """Segments of records with their index; what the Pump's actors do, in one thread."""

    def __init__(self) -> None:
        self.segments: dict[int, list[Rec]] = {0: []}
        self.store = Store()
        self.purge_ts = 0
        self.ended: list[tuple[int, int]] = []
        self.taken: list[int] = []
        self.now = 10
        self.pairing = self._pairing(Head(0, 0, 0))

    def _pairing(self, head: Head) -> Pairing:
        opened = [
            keys.unpack_open(*entry) for entry in self.store.scan(*keys.open_range(), 1 << 20)
        ]
        opened.sort(key=lambda entry: entry[2])
        high = HighTs(follow=True, skew_ms=1 << 40, value=head.high_ts)
        newest = keys.newest_transaction(self.store.scan)
        return Pairing(self.store.get, head, opened, high, newest, lambda: self.purge_ts)

    @property
    def last(self) -> int:
        return max(self.segments)

    def append(self, kind: Kind, start_ts: int, commit_ts: int = 0) -> None:
        if len(self.segments[self.last]) == RECORDS:
            self.segments[self.last + 1] = []
        segment = self.segments[self.last]
        segment.append(Rec(kind, start_ts, commit_ts))
        self._index(self.last, len(segment) - 1)

    def _index(self, fid: int, at: int) -> None:
        kind, start_ts, commit_ts = self.segments[fid][at]
        self.pairing.feed(Stored(kind, start_ts, commit_ts, Place(fid, at * 100, 10, 1)), 1)
        changes = self.pairing.take()
        self.store.write(changes.puts, changes.deletes)

    def build_again(self) -> None:
        """The index is lost: as the indexer starts then."""
        self.store.data.clear()
        for start_ts in self.taken:
            packed = keys.pack_transaction(State.LOST, 0, NOWHERE)
            self.store.data[keys.transaction_key(start_ts)] = packed
        for start_ts, commit_ts in self.ended:
            state = State.COMMITTED if commit_ts else State.ROLLED_BACK
            packed = keys.pack_transaction(state, commit_ts, NOWHERE)
            self.store.data[keys.transaction_key(start_ts)] = packed
        self.pairing = self._pairing(Head(min(self.segments), 0, self.purge_ts))
        for fid in sorted(self.segments):
            for at in range(len(self.segments[fid])):
                self._index(fid, at)

    @property
    def resolved(self) -> int:
        return min([self.pairing.high.value, *(bound for _, bound in self.pairing.opened())])

    def open_places(self) -> dict[int, int]:
        """start_ts -> segment, by the index."""
        page = self.store.scan(*keys.open_range(), 1 << 20)
        return {e[0]: e[2].fid for e in (keys.unpack_open(*entry) for entry in page)}

    def commits(self, above: int = -1) -> dict[int, tuple[int, int]]:
        """start_ts -> commit_ts, segment, by the index."""
        page = self.store.scan(*keys.commit_range(above, TS_MAX), 1 << 20)
        found = (keys.unpack_commit(*entry) for entry in page)
        return {start_ts: (commit_ts, place.fid) for commit_ts, start_ts, place in found}

    def unpaired(self) -> set[int]:
        page = self.store.scan(*keys.unpaired_range(), 1 << 20)
        return {keys.unpack_unpaired(*entry)[0] for entry in page}

    def state(self, start_ts: int) -> State | None:
        value = self.store.get(keys.transaction_key(start_ts))
        return None if value is None else keys.unpack_transaction(value).state

    def collect(
        self, limit: Limits, *, remembered_ts: int, meanwhile: Sequence[Rec] = ()
    ) -> Decision:
        """`meanwhile`: written and indexed after the decision, before the purge point moves."""
        opened = list(self.open_places().values())
        held = [
            Held(
                fid,
                max(max(r.start_ts, r.commit_ts) for r in records),
                keys.unpack_ts(self.store.get(keys.pointed_key(fid))),
                opened.count(fid),
                1,
            )
            for fid, records in sorted(self.segments.items())[:-1]
        ]
        decision = decide(held, limit, self.purge_ts)
        if decision.going:
            first = decision.going[-1].fid + 1
            found = self.store.scan(*keys.ended_range(first, 1 << 32), 1 << 20)
            entries = [keys.unpack_ended(*entry) for entry in found]
            self.ended = [entry for entry in entries if entry[1] <= decision.purge_ts]
            places = self.open_places().items()
            self.taken += [start_ts for start_ts, fid in places if fid < first]
            for record in meanwhile:
                self.append(*record)
            self.purge_ts = decision.purge_ts
            for lost in taken(self.store, first, self.purge_ts):
                self.store.write(lost.puts, lost.deletes)
                for start_ts in lost.closed:
                    self.pairing.lose(start_ts)
            for segment in decision.going:
                del self.segments[segment.fid]
        sweep = Sweep(self.store, self.purge_ts, min(self.segments), remembered_ts, self.taken)
        while not sweep.step():
            pass
        return decision


class Account:
    """Who is open, who is committed, who came without a Prewrite: from what was said alone."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.committed: dict[int, int] = {}
        self.alone: dict[int, int] = {}
        self.rolled_back: set[int] = set()

    def ended(self, log: Log) -> list[int]:
        known = (*self.committed, *self.rolled_back)
        return [start_ts for start_ts in known if log.store.get(keys.transaction_key(start_ts))]


STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            ["begin", "begin", "commit", "commit", "alone", "rollback", "again", "late", "gc"]
        ),
        st.integers(0, 1000),
    ),
    max_size=60,
)
BEGUN = st.lists(
    st.tuples(st.sampled_from(["begin", "begin", "commit", "alone"]), st.integers(0, 1000)),
    min_size=10,
    max_size=50,
)
"""Segments are as old as their timestamps say."""


def play(steps: list[tuple[str, int]], log: Log, account: Account, floor: list[int]) -> None:
    for what, pick in steps:
        log.now += 1
        if what == "begin":
            account.open.add(log.now)
            log.append(Kind.PREWRITE, log.now)
        elif what in ("commit", "rollback") and account.open:
            start_ts = sorted(account.open)[pick % len(account.open)]
            account.open.remove(start_ts)
            if what == "commit":
                account.committed[start_ts] = log.now
                log.append(Kind.COMMIT, start_ts, log.now)
            else:
                account.rolled_back.add(start_ts)
                log.append(Kind.ROLLBACK, start_ts)
        elif what == "alone":
            account.alone[log.now] = log.now + 1
            log.now += 1
            log.append(Kind.COMMIT, log.now - 1, log.now)
        elif what == "late" and account.alone:
            start_ts = max(account.alone)
            if account.alone[start_ts] > log.purge_ts:
                account.committed[start_ts] = account.alone.pop(start_ts)
                log.append(Kind.PREWRITE, start_ts)
        elif what == "again" and (ended := account.ended(log)):
            # Sent once more, while it is remembered.
            log.append(Kind.PREWRITE, ended[-1 - pick % min(3, len(ended))])
        elif what == "gc":
            floor[0] = max(floor[0], min(log.now, floor[0] + pick % 40))
            collect(log, account, floor[0], age_ts=log.now - pick % 30)


def collect(log: Log, account: Account, floor: int, *, age_ts: int) -> None:
    before = log.purge_ts
    limit = Limits(age_ts, 0, floor, log.resolved)
    decision = log.collect(limit, remembered_ts=max(0, log.now - 40))
    assert not decision.forced
    assert before <= log.purge_ts <= max(before, limit.target)
    check(log, account)
    log.build_again()
    check(log, account)


def check(log: Log, account: Account) -> None:
    """Nothing that may be asked for is gone or looks otherwise than it is."""
    needed = {s: c for s, c in account.committed.items() if c > log.purge_ts}
    found = log.commits(above=log.purge_ts)
    assert {start_ts: commit_ts for start_ts, (commit_ts, _) in found.items()} == needed
    assert all(fid in log.segments for _, fid in found.values())
    assert log.open_places().keys() == account.open
    assert all(fid in log.segments for fid in log.open_places().values())
    assert {s for s, c in account.alone.items() if c > log.purge_ts} <= log.unpaired()
    assert log.unpaired() <= account.alone.keys()
    records = {(r.kind, r.start_ts) for segment in log.segments.values() for r in segment}
    for start_ts in needed:
        assert {(Kind.PREWRITE, start_ts), (Kind.COMMIT, start_ts)} <= records


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_what_somebody_needs_stays_and_the_rest_goes_in_the_end(
    steps: list[tuple[str, int]],
) -> None:
    log, account, floor = Log(), Account(), [0]
    play(steps, log, account, floor)
    check(log, account)
    for start_ts in sorted(account.open):
        log.now += 1
        account.rolled_back.add(start_ts)
        log.append(Kind.ROLLBACK, start_ts)
    account.open.clear()
    for _ in range(RECORDS):
        log.now += 1
        log.append(Kind.FAKE, log.now, log.now)
    log.now += 100
    collect(log, account, TS_MAX, age_ts=log.now)
    assert len(log.segments) == 1
    assert not log.commits()
    assert not log.unpaired()


@settings(max_examples=100, deadline=None)
@given(STEPS, st.integers(0, 80))
def test_the_hard_cap_bounds_the_log_and_readers_above_the_point_miss_nothing(
    steps: list[tuple[str, int]], cap: int
) -> None:
    log, account = Log(), Account()
    play([step for step in steps if step[0] != "gc"], log, account, [0])
    log.collect(Limits(0, log.now - cap, 0, log.resolved), remembered_ts=0)
    assert log.purge_ts <= max(0, log.now - cap)
    here = set(log.segments)
    for start_ts, (commit_ts, fid) in log.commits(above=log.purge_ts).items():
        assert fid in here, (start_ts, commit_ts)
    log.build_again()
    needed = {s: c for s, c in account.committed.items() if c > log.purge_ts}
    assert {s: c for s, (c, _) in log.commits(above=log.purge_ts).items()} == needed


@settings(max_examples=100, deadline=None)
@given(steps=BEGUN, cap=st.integers(0, 15), ends_meanwhile=st.booleans())
def test_what_the_hard_cap_takes_open_is_lost_and_nothing_else_is(
    steps: list[tuple[str, int]], cap: int, *, ends_meanwhile: bool
) -> None:
    log, account = Log(), Account()
    play(steps, log, account, [0])
    before = log.now
    oldest = min(account.open, default=None)
    meanwhile = []
    if ends_meanwhile and oldest is not None:
        log.now += 1
        account.open.remove(oldest)
        account.committed[oldest] = log.now
        meanwhile = [Rec(Kind.COMMIT, oldest, log.now)]
    limit = Limits(0, before - cap, 0, log.resolved)
    if not log.collect(limit, remembered_ts=before, meanwhile=meanwhile).going:
        for record in meanwhile:
            log.append(*record)
    assert log.purge_ts <= max(0, before - cap)
    lost = set(log.taken)
    account.open -= lost
    for start_ts in lost:
        account.committed.pop(start_ts, None)
    check_lost(log, account, lost)
    # Their ends come when nobody counts on it any more: one in two commits.
    for start_ts in sorted(lost):
        log.now += 1
        log.append(*Rec(Kind.COMMIT, start_ts, log.now) if start_ts % 2 else Rec(Kind.FAKE, 1, 1))
        check_lost(log, account, lost)
    collect(log, account, TS_MAX, age_ts=log.now + 1)
    check_lost(log, account, lost)


def check_lost(log: Log, account: Account, lost: set[int]) -> None:
    """They are nobody's, now and in an index built anew; of the others nothing is missing."""
    for _ in range(2):
        check(log, account)
        assert {log.state(start_ts) for start_ts in lost} <= {State.LOST}
        assert not {start for start, _ in log.pairing.opened()} & lost
        log.build_again()
