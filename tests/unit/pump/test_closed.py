"""What is closed and what is known of a start_ts: memory and index together are a plain map."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from tidelog.payload import Kind
from tidelog_pump.index import keys
from tidelog_pump.index.keys import NOWHERE, Head, State
from tidelog_pump.index.pairing import Pairing
from tidelog_pump.log.place import Place
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.write.closed import ClosedStarts
from tidelog_pump.write.intake import Stored

LIMIT = 4
start = st.integers(1, 12)
entries = st.dictionaries(start, st.sampled_from([State.OPEN, State.COMMITTED, State.ROLLED_BACK]))
kinds = st.sampled_from([Kind.PREWRITE, Kind.COMMIT, Kind.ROLLBACK])


class Map:
    """An IndexStore in memory."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}

    def scan(self, begin: bytes, stop: bytes, limit: int) -> list[tuple[bytes, bytes]]:
        found = sorted(entry for entry in self.data.items() if begin <= entry[0] < stop)
        return found[:limit]


@given(entries)
def test_the_newest_transaction_is_found(stored: dict[int, State]) -> None:
    store = Map()
    store.data = {keys.transaction_key(start_ts): b"" for start_ts in stored}
    store.data |= {keys.open_key(99): b"", keys.commit_key(99, 98): b"", keys.HEAD_KEY: b""}
    assert keys.newest_transaction(store.scan) == max(stored, default=0)


@given(entries, st.lists(st.tuples(start, st.booleans(), st.integers(0, LIMIT - 1)), max_size=60))
def test_closed_is_what_was_added_or_stands_in_the_index(
    stored: dict[int, State], steps: list[tuple[int, bool, int]]
) -> None:
    """The index lags behind by fewer than LIMIT transactions."""
    store, lagging = Map(), deque[tuple[int, int]]()
    model: dict[int, int] = {}
    for start_ts, state in stored.items():
        commit_ts = start_ts + 100 if state is State.COMMITTED else 0
        value = keys.pack_transaction(state, commit_ts, NOWHERE)
        store.data[keys.transaction_key(start_ts)] = value
        if state is not State.OPEN:
            model[start_ts] = commit_ts
    closed = ClosedStarts(store.data.get, keys.newest_transaction(store.scan), LIMIT)
    for start_ts, ends, lag in steps:
        assert closed.get(start_ts) == model.get(start_ts)
        if ends and start_ts not in model:
            model[start_ts] = start_ts + 200
            closed.add(start_ts, start_ts + 200)
            lagging.append((start_ts, start_ts + 200))
        while len(lagging) > lag:
            key, commit_ts = lagging.popleft()
            packed = keys.pack_transaction(State.COMMITTED, commit_ts, NOWHERE)
            store.data[keys.transaction_key(key)] = packed


@given(st.lists(st.tuples(kinds, start, st.integers(13, 20), st.booleans()), max_size=40))
def test_pairing_asks_no_more_than_it_must(steps: list[tuple[Kind, int, int, bool]]) -> None:
    """The same log gives the same index, whether every look-up is made or only those that may
    find something; over restarts too."""
    outcomes = []
    for ask_always in (False, True):
        store, head, found = Map(), Head(0, 0, 0), []

        def pairing(store: Map, head: Head, *, ask_always: bool) -> Pairing:
            opened = [keys.unpack_open(*entry) for entry in store.scan(*keys.open_range(), 1 << 20)]
            opened.sort(key=lambda entry: entry[2])
            newest = 1 << 60 if ask_always else keys.newest_transaction(store.scan)
            high = HighTs(follow=True, skew_ms=1, value=head.high_ts)
            return Pairing(store.data.get, head, opened, high, newest)

        now = pairing(store, head, ask_always=ask_always)
        for number, (kind, start_ts, commit_ts, cut) in enumerate(steps):
            end = commit_ts if kind is Kind.COMMIT else 0
            now.feed(Stored(kind, start_ts, end, Place(0, number * 100, 10, 1)), 1)
            if cut:
                changes = now.take()
                store.data |= dict(changes.puts)
                for key in changes.deletes:
                    store.data.pop(key, None)
                found.append(changes.closed)
                now = pairing(store, now.head, ask_always=ask_always)
        outcomes.append((store.data, found, now.take(), now.opened()))
    assert outcomes[0] == outcomes[1]


def test_what_the_index_learned_meanwhile_is_asked_for_again() -> None:
    """While the chaser is on more may be closed than is remembered, before the index knows it."""
    known: dict[bytes, bytes] = {}
    closed = ClosedStarts(known.get, 0, limit=2)
    for start_ts in range(1, 8):
        closed.add(start_ts, start_ts + 10)
    assert closed.get(1) is None
    known[keys.transaction_key(1)] = keys.pack_transaction(State.COMMITTED, 11, NOWHERE)
    assert closed.get(1) is None
    closed.ask_again()
    assert closed.get(1) == 11
