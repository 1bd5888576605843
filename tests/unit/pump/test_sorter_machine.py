"""The log, the index and the sorter of one Pump against a naive model of the world (I2).

One oracle, transactions that this Pump was the first to ack (`home`) and others of which it has at
most a second copy, everything in any order: repeats, duplicates, late copies, Commits without a
Prewrite, Rollbacks, fakes, readers that ask for a fresh timestamp, an index so slow that the chaser
goes on and off, restarts with and without the index, power losses. Decided by the same pure parts
as in the actors: Intake, Pairing, Sorter.
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
from tidelog import payload
from tidelog.errors import InvariantBroken, TidelogError
from tidelog.messages import ONLINE
from tidelog.payload import Kind
from tidelog_pump.index import keys
from tidelog_pump.index.keys import HEAD_KEY, Head, unpack_head, unpack_late, unpack_open
from tidelog_pump.index.pairing import Changes, Pairing
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.promised import NOTHING, Promise
from tidelog_pump.sort.high_ts import HighTs
from tidelog_pump.sort.sorter import Sorter
from tidelog_pump.write.closed import ClosedStarts
from tidelog_pump.write.intake import Intake, Stored

SORTER_STEPS = 6_000
NOW_MS = 1_000
ROOM = 1 << 40
FEW = 6
MOMENTS = 12
"""What the disk had at so many last moments, a power loss may bring back."""
KILL, INDEX_LOST, POWER_LOSS = RESTARTS = ("kill", "index lost", "power loss")


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
        self.promised = NOTHING
        self.open()

    def scan(self, start: bytes, stop: bytes, limit: int = 1 << 20) -> list[tuple[bytes, bytes]]:
        return sorted((k, v) for k, v in self.store.items() if start <= k < stop)[:limit]

    def open(self) -> list[tuple[int, int]]:
        """As the indexer and the writer start: read to the end. Returns what came too late for
        readers of an earlier run."""
        value = self.store.get(HEAD_KEY)
        head = Head(0, 0, 0) if value is None else unpack_head(value)
        opened = sorted((unpack_open(*e) for e in self.scan(*keys.open_range())), key=_place)
        high = HighTs(follow=self.follow, skew_ms=60_000, value=head.high_ts)
        newest = keys.newest_transaction(self.scan)
        self.pairing = Pairing(
            self.store.get, head, opened, high, newest, promised=lambda: self.promised
        )
        self.read = sum(record.place.offset < head.offset for record in self.records)
        late = self._index(len(self.records)).late
        self.closed = ClosedStarts(self.store.get, keys.newest_transaction(self.scan))
        return late

    @property
    def end(self) -> Pointer:
        """Everything before it is indexed."""
        return Pointer(*self.pairing.head[:2])

    def index(self, count: int) -> list[tuple[int, int]]:
        """The next records in one batch; returns what it closed."""
        return self._index(count).closed

    def _index(self, count: int) -> Changes:
        for stored in self.records[self.read : self.read + count]:
            self.pairing.feed(stored, NOW_MS)
            self.read += 1
        changes = self.pairing.take()
        self.store.update(changes.puts)
        for key in changes.deletes:
            self.store.pop(key, None)
        return changes

    def late(self) -> set[int]:
        """start_ts of those that are to be verified, or that readers may have missed."""
        spans = (keys.suspect_range(), keys.late_range(0, 1 << 60))
        return {unpack_late(*entry)[0] for span in spans for entry in self.scan(*span)}

    def readable(self) -> list[tuple[int, int]]:
        found = (keys.unpack_commit(*e) for e in self.scan(*keys.commit_range(-1, 1 << 60)))
        return [(start_ts, commit_ts) for commit_ts, start_ts, _ in found]


def _place(entry: tuple[int, int, Place]) -> Place:
    return entry[2]


def _but_suspects(store: dict[bytes, bytes]) -> dict[bytes, bytes]:
    return {key: value for key, value in store.items() if not key.startswith(b"x")}


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
        self.moments: list[tuple[Promise, dict[bytes, bytes]]] = []
        self.start()

    def start(self) -> None:
        self.sorter = Sorter(HighTs(follow=self.follow, skew_ms=60_000))
        self.sorter.floor = self.log.promised.ts
        self.sorter.reset(self.log.pairing.high.value, self.log.pairing.opened(), 0.0)
        self.promised = 0
        self.unread: int | None = None
        self.catching_up: tuple[int, int] | None = None

    @property
    def chased(self) -> bool:
        return self.unread is not None

    def advance(self) -> None:
        """As the sorter's actor ends a batch."""
        self.sorter.advance()
        self.log.promised = Promise(self.sorter.promised, self.log.end)
        self.seen = max(self.seen, self.sorter.resolved)
        self.moments = [*self.moments, (self.log.promised, dict(self.log.store))][-MOMENTS:]

    def allocate(self) -> int:
        self.oracle += 1
        return self.oracle

    def write(self, binlog: bytes, *, own: bool = False) -> TidelogError | None:
        intake = Intake(self.log.closed, ONLINE, room=ROOM)
        error = intake.take(binlog, own=own)
        if not self.chased:
            for start_ts in intake.entered:
                self.sorter.enter(start_ts, NOW_MS)
        self.log.records += intake.placed(0, self.log.size)
        self.log.size += intake.size
        self.advance()
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
        self.advance()

    @rule()
    def a_fake_is_written(self) -> None:
        if not self.follow:
            ts = self.allocate()
            self.sorter.high.answer(ts, 0)
            assert self.write(payload.fake(ts), own=True) is None

    @rule(count=st.integers(1, 6))
    def some_is_indexed(self, count: int) -> None:
        """What the writer handed over, or what the chaser reads."""
        if self.unread is None:
            self.index(count)
        elif self.log.read < self.unread:
            self.index(min(count, self.unread - self.log.read))
        else:
            self.the_chaser_reads(count)

    def index(self, count: int, *, chased: bool = False) -> None:
        before = set(self.log.readable())
        begin, closed = self.log.read, self.log.index(count)
        if chased:
            for stored in self.log.records[begin : self.log.read]:
                bound = self.log.pairing.bound(stored.start_ts)
                if stored.kind is Kind.PREWRITE and bound is not None:
                    self.sorter.enter_chased(stored.start_ts, bound, NOW_MS)
            self.sorter.raise_cap(self.log.pairing.high.value)
        for start_ts, commit_ts in closed:
            if not self.sorter.close(start_ts, commit_ts, NOW_MS):
                self.reported.add(start_ts)
        late = {start for start, ts in {*self.log.readable()} - before if ts <= self.seen}
        assert late <= self.reported & self.log.late()
        self.advance()

    @precondition(lambda self: not self.chased)
    @rule()
    def the_chaser_turns_on(self) -> None:
        """The last record could not be handed over; its Prewrite is entered already."""
        self.unread = max(self.log.read, len(self.log.records) - 1)
        self.sorter.set_cap()
        self.advance()

    def the_chaser_reads(self, count: int) -> None:
        """W is asked for first, then it is read what is in the log by then; some at once."""
        if self.catching_up is None:
            self.catching_up = self.sorter.high.value, len(self.log.records)
        high_ts, until = self.catching_up
        self.index(min(count, until - self.log.read), chased=True)
        if self.log.read == until:
            self.sorter.raise_cap(high_ts)
            self.catching_up = None
            self.advance()

    @precondition(lambda self: self.chased)
    @rule()
    def the_chaser_turns_off(self) -> None:
        """The writer is held until everything is read."""
        while self.log.read < len(self.log.records) or self.catching_up is not None:
            self.some_is_indexed(2)
        self.unread = None
        self.sorter.raise_cap(self.sorter.high.value)
        self.sorter.cap = None
        self.log.closed.ask_again()
        self.advance()

    @rule(how=st.sampled_from(RESTARTS), back=st.integers(1, MOMENTS))
    def a_restart(self, *, how: str, back: int) -> None:
        """After a power loss index and promise may be those of earlier moments, each of its own."""
        before = set(self.log.readable())
        if how == INDEX_LOST:
            self.log.store.clear()
        elif how == POWER_LOSS and self.moments:
            self.log.promised = self.moments[-min(back, len(self.moments))][0]
            self.log.store = dict(self.moments[-min(MOMENTS - back, len(self.moments)) or -1][1])
        self.reported |= {start_ts for start_ts, _ in self.log.open()}
        late = {start for start, ts in {*self.log.readable()} - before if ts <= self.seen}
        self.start()
        if how == POWER_LOSS:
            self.sorter.has_read(self.seen, NOW_MS)
        else:
            # Of a late pair the log tells, however often it is read.
            assert late <= self.log.late()
            assert late & self._verified() <= self.reported
        self.advance()

    @invariant()
    def what_is_promised_is_readable(self) -> None:
        if not hasattr(self, "sorter"):
            return
        resolved = self.sorter.resolved
        assert self.promised <= resolved <= self.oracle
        self.promised = resolved
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
        if self.chased:
            self.the_chaser_turns_off()
        self.some_is_indexed(len(self.log.records))
        self.a_reader_asks(fresh=True)
        assert self.sorter.resolved == self.oracle
        whole = {(t.start_ts, t.end) for t in self.world if t.written and t.ended and t.end > 0}
        assert sorted(whole) == sorted(self.log.readable())
        alone = {t.start_ts for t in self.world if t.ended and t.end > 0 and not t.written}
        shown = self.log.scan(*keys.unpaired_range())
        assert {keys.unpack_unpaired(*entry)[0] for entry in shown} == alone
        incremental, promised_to = dict(self.log.store), self.log.late()
        self.log.store.clear()
        self.log.open()
        assert _but_suspects(self.log.store) == _but_suspects(incremental)
        # Of those it can't tell by the log alone, `late.json` knows.
        assert self.log.late() <= promised_to <= self.log.late() | self.reported


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
    elif chance < 0.9:
        machine.some_is_indexed(rng.randrange(1, 5))
    elif chance < 0.94:
        machine.a_fake_is_written()
    elif chance < 0.97:
        if machine.chased:
            machine.the_chaser_turns_off()
        else:
            machine.the_chaser_turns_on()
    else:
        machine.a_restart(how=rng.choice(RESTARTS), back=rng.randrange(1, MOMENTS))


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
