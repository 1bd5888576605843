"""The log, the index and the sorter of one Pump against a naive model of the world (I2).

One oracle, transactions that this Pump was the first to ack (`home`) and others of which it has at
most a second copy, everything in any order: repeats, duplicates, late copies, Commits without a
Prewrite, Rollbacks, fakes, readers that ask for a fresh timestamp, restarts with and without the
index. Decided by the same pure parts as in the actors: Intake, Pairing, Sorter.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.unit.pump.rig import commit, prewrite, rollback
from tests.unit.pump.steps import CountedMachine, play
from tidelog.errors import InvariantBroken, TidelogError
from tidelog.messages import ONLINE
from tidelog_pump.index import keys
from tidelog_pump.index.keys import HEAD_KEY, Head, unpack_head, unpack_late, unpack_open
from tidelog_pump.index.pairing import Pairing
from tidelog_pump.log import payload
from tidelog_pump.log.place import Place
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.sort.sorter import Sorter
from tidelog_pump.write.closed import ClosedStarts
from tidelog_pump.write.intake import Intake, Stored

SORTER_STEPS = 6_000
NOW_MS = 1_000
ROOM = 1 << 40
FEW = 6


@dataclass
class Txn:
    """`end`: what was decided, 0 = rolled back, -1 = nothing yet. `written`: its Prewrite is in our
    log; `ended`: its Commit or Rollback."""

    start_ts: int
    home: bool
    end: int = -1
    written: bool = False
    ended: bool = False


class Log:
    """The records, and the index that is made of them."""

    def __init__(self, *, follow: bool) -> None:
        self.follow = follow
        self.records: list[Stored] = []
        self.size = 0
        self.store: dict[bytes, bytes] = {}
        self.open()

    def scan(self, start: bytes, stop: bytes, limit: int = 1 << 20) -> list[tuple[bytes, bytes]]:
        return sorted((k, v) for k, v in self.store.items() if start <= k < stop)[:limit]

    def open(self) -> None:
        """As the indexer and the writer start: read to the end."""
        value = self.store.get(HEAD_KEY)
        head = Head(0, 0, 0) if value is None else unpack_head(value)
        opened = sorted((unpack_open(*e) for e in self.scan(*keys.open_range())), key=_place)
        high = HighTs(follow=self.follow, skew_ms=60_000, value=head.high_ts)
        newest = keys.newest_transaction(self.scan)
        self.pairing = Pairing(self.store.get, head, opened, high, newest)
        self.read = sum(record.place.offset < head.offset for record in self.records)
        self.index(len(self.records))
        self.closed = ClosedStarts(self.store.get, keys.newest_transaction(self.scan))

    def index(self, count: int) -> list[tuple[int, int]]:
        """The next records in one batch; returns what it closed."""
        for stored in self.records[self.read : self.read + count]:
            self.pairing.feed(stored, NOW_MS)
            self.read += 1
        changes = self.pairing.take()
        self.store.update(changes.puts)
        for key in changes.deletes:
            self.store.pop(key, None)
        return changes.closed

    def late(self) -> set[int]:
        """start_ts of those that are to be verified, or that readers may have missed."""
        spans = (keys.suspect_range(), keys.late_range(0, 1 << 60))
        return {unpack_late(*entry)[0] for span in spans for entry in self.scan(*span)}

    def readable(self) -> list[tuple[int, int]]:
        found = (keys.unpack_commit(*e) for e in self.scan(*keys.commit_range(-1, 1 << 60)))
        return [(start_ts, commit_ts) for commit_ts, start_ts, _ in found]


def _place(entry: tuple[int, int, Place]) -> Place:
    return entry[2]


class SorterMachine(CountedMachine):
    txns = Bundle("txns")

    @initialize(follow=st.booleans())
    def begin(self, *, follow: bool) -> None:
        self.follow = follow
        self.oracle = 0
        self.world: list[Txn] = []
        self.log = Log(follow=follow)
        self.reported: set[int] = set()
        self.seen = 0
        self.start()

    def start(self) -> None:
        self.sorter = Sorter(HighTs(follow=self.follow, skew_ms=60_000))
        self.sorter.reset(self.log.pairing.high.value, self.log.pairing.opened(), 0.0)
        self.promised = 0

    def allocate(self) -> int:
        self.oracle += 1
        return self.oracle

    def write(self, binlog: bytes, *, own: bool = False) -> TidelogError | None:
        intake = Intake(self.log.closed, ONLINE, room=ROOM)
        error = intake.take(binlog, own=own)
        for start_ts in intake.entered:
            self.sorter.enter(start_ts, NOW_MS)
        self.log.records += intake.placed(0, self.log.size)
        self.log.size += intake.size
        self.sorter.advance()
        return error

    @precondition(lambda self: len(self.world) < FEW)
    @rule(target=txns, home=st.booleans())
    def new_transaction(self, *, home: bool) -> Txn:
        txn = Txn(self.allocate(), home)
        self.world.append(txn)
        return txn

    @rule(txn=txns)
    def a_prewrite_arrives(self, txn: Txn) -> None:
        """The first, a repeated, or a late one."""
        if txn.home and txn.end >= 0 and not txn.written:
            return  # It was decided without us: we are no home of it.
        assert self.write(prewrite(txn.start_ts)) is None
        txn.written = True

    @rule(txn=txns, commits=st.booleans())
    def the_upstream_decides(self, txn: Txn, *, commits: bool) -> None:
        """commit_ts is fetched after the first ack; of another home's, nobody asks us."""
        if txn.end < 0 and (txn.written or not txn.home):
            txn.end = self.allocate() if commits else 0

    @rule(txn=txns)
    def its_end_arrives(self, txn: Txn) -> None:
        """The client's, our own resolver's, or both."""
        if txn.end < 0:
            return
        end = commit(txn.start_ts, txn.end) if txn.end else rollback(txn.start_ts)
        assert self.write(end) is None
        txn.ended = True
        if txn.end:
            error = self.write(commit(txn.start_ts, txn.end + 1))
            assert isinstance(error, InvariantBroken)

    @rule(fresh=st.booleans())
    def a_reader_asks(self, *, fresh: bool) -> None:
        """For the largest timestamp that it has seen, or for a new one."""
        ts = self.allocate() if fresh or not self.follow else self.oracle
        if self.follow:
            self.sorter.high.claim(ts, NOW_MS)
        else:
            self.sorter.high.answer(ts, self.sorter.high.wanted)
        self.sorter.advance()

    @rule()
    def a_fake_is_written(self) -> None:
        if not self.follow:
            ts = self.allocate()
            self.sorter.high.answer(ts, 0)
            assert self.write(payload.fake(ts), own=True) is None

    @rule(count=st.integers(1, 6))
    def some_is_indexed(self, count: int) -> None:
        before = set(self.log.readable())
        closed = self.log.index(count)
        resolved = self.sorter.resolved
        for start_ts, commit_ts in closed:
            if not self.sorter.close(start_ts, commit_ts, NOW_MS):
                self.reported.add(start_ts)
        late = {start for start, ts in {*self.log.readable()} - before if ts <= resolved}
        assert late <= self.reported
        self.sorter.advance()

    @rule(rebuilt=st.booleans())
    def a_restart(self, *, rebuilt: bool) -> None:
        if rebuilt:
            self.log.store.clear()
        self.log.open()
        self.start()

    @invariant()
    def what_is_promised_is_readable(self) -> None:
        if not hasattr(self, "sorter"):
            return
        resolved = self.sorter.resolved
        assert self.promised <= resolved <= self.oracle
        self.promised = resolved
        self.seen = max(self.seen, resolved)
        readable = set(self.log.readable())
        ours = {(t.start_ts, t.end) for t in self.world if t.home and t.end > 0}
        missing = {pair for pair in ours - readable if pair[1] <= self.seen}
        assert not missing, (resolved, missing)
        assert not {start_ts for start_ts, _ in ours} & (self.reported | self._verified())

    def _verified(self) -> set[int]:
        """Late by the log, but for pairs: those came in the wrong order, from whomever."""
        entries = self.log.scan(*keys.late_range(0, 1 << 60))
        return self.log.late() - {unpack_late(*entry)[0] for entry in entries}

    def teardown(self) -> None:
        if not hasattr(self, "sorter"):
            return
        for txn in self.world:
            if txn.written and txn.end < 0:
                txn.end = self.allocate()
            if txn.written:
                self.its_end_arrives(txn)
        self.some_is_indexed(len(self.log.records))
        self.a_reader_asks(fresh=True)
        assert self.sorter.resolved == self.oracle
        whole = {(t.start_ts, t.end) for t in self.world if t.written and t.ended and t.end > 0}
        assert sorted(whole) == sorted(self.log.readable())
        alone = {t.start_ts for t in self.world if t.ended and t.end > 0 and not t.written}
        shown = self.log.scan(*keys.unpaired_range())
        assert {keys.unpack_unpaired(*entry)[0] for entry in shown} == alone
        incremental = dict(self.log.store)
        self.log.store.clear()
        self.log.open()
        assert self.log.store == incremental


def test_any_order_of_the_rules() -> None:
    play(SorterMachine, at_least=SORTER_STEPS)


def step(machine: SorterMachine, rng: random.Random) -> None:
    """The same rules, those that matter more often, and mostly of the transaction touched last."""
    txns = machine.world
    txn = txns[-1] if rng.random() < 0.3 else rng.choice(txns)
    chance = rng.random()
    if chance < 0.3:
        machine.a_prewrite_arrives(txn)
    elif chance < 0.45:
        machine.the_upstream_decides(txn, commits=rng.random() < 0.8)
    elif chance < 0.6:
        machine.its_end_arrives(txn)
    elif chance < 0.75:
        machine.a_reader_asks(fresh=rng.random() < 0.7)
    elif chance < 0.92:
        machine.some_is_indexed(rng.randrange(1, 5))
    elif chance < 0.97:
        machine.a_fake_is_written()
    else:
        machine.a_restart(rebuilt=rng.random() < 0.3)


@pytest.mark.parametrize("follow", [False, True])
def test_random_walks(*, follow: bool) -> None:
    rng = random.Random(f"sorter/{follow}")
    for _ in range(400):
        machine = SorterMachine()
        machine.begin(follow=follow)
        for _ in range(60):
            if not machine.world or (len(machine.world) < FEW and rng.random() < 0.1):
                machine.new_transaction(home=rng.random() < 0.6)
            step(machine, rng)
            machine.what_is_promised_is_readable()
        machine.teardown()
