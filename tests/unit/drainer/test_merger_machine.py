"""The merge against a sorted list while Pumps join, leave and come back in mid-merge (I3, I4).

The model is the upstream: who has which transaction, up to where it was delivered, what was given
up with a Pump that was taken offline before it was read. Whatever the order of the rules, what came
out is the sorted list of the rest, each once, as far as the merge says that it is complete.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from tests.unit.pump.steps import CountedMachine, play
from tidelog_drainer.merge.merger import Disorder, Merger, Overtaken, SameCommitTs, Txn

MERGER_STEPS = 6_000
NODES = ("a", "b", "c", "d")
node_names = st.sampled_from(NODES)


@dataclass
class Pump:
    """`log[:sent]` was delivered; it is a source while it is `online`."""

    online: bool = True
    log: list[Txn] = field(default_factory=list)
    sent: int = 0
    resolved: int = 0


class MergerMachine(CountedMachine):
    @initialize(first=st.sets(node_names, min_size=1, max_size=3), after=st.integers(0, 50))
    def begin(self, *, first: set[str], after: int) -> None:
        self.oracle = after
        self.merger = Merger(after)
        self.pumps: dict[str, Pump] = {}
        self.out: list[Txn] = []
        self.written: list[Txn] = []
        self.delivered: list[Txn] = []
        for node in sorted(first):
            self.joins(node)

    def online(self) -> list[str]:
        return [node for node, pump in self.pumps.items() if pump.online]

    @rule(node=node_names)
    def joins(self, node: str) -> None:
        """A new Pump, or one that was offline and begins anew, as what it held is read or lost."""
        known = self.pumps.get(node)
        if known is not None and known.online:
            assert not self.merger.add(node)
            return
        assert self.merger.add(node)
        resolved = self.merger.sources[node].resolved
        assert resolved >= (known.resolved if known and self.kept(node) else self.merger.emitted)
        self.pumps[node] = Pump(resolved=resolved)

    def kept(self, node: str) -> bool:
        return node in self.merger.sources and bool(self.merger.sources[node].txns)

    @rule(picks=st.sets(st.integers(0, 3), min_size=1, max_size=3), skip=st.integers(1, 3))
    def commits(self, picks: set[int], skip: int) -> None:
        """A transaction on one Pump, or on several that a client tried one after the other."""
        online = self.online()
        homes = sorted({online[pick % len(online)] for pick in picks}) if online else []
        self.oracle += 2 * skip
        txn = (self.oracle, self.oracle - 1, b"%d" % self.oracle)
        for node in homes:
            self.pumps[node].log.append(txn)
        if homes:
            self.written.append(txn)

    @rule(node=node_names, count=st.integers(0, 6), fresh=st.booleans())
    def delivers(self, node: str, count: int, *, fresh: bool) -> None:
        """Some of what it holds; all of it, and then it may have learned a newer timestamp."""
        pump = self.pumps.get(node)
        if pump is None or not pump.online:
            return
        part = pump.log[pump.sent : pump.sent + count]
        pump.sent += len(part)
        if pump.sent == len(pump.log):
            pump.resolved = self.oracle if fresh or not part else part[-1][0]
        elif part:
            pump.resolved = part[-1][0]
        self.delivered += part
        self.merger.push(node, part, pump.resolved, sum(len(txn[2]) for txn in part))

    @rule()
    def merges(self) -> None:
        upto = self.merger.horizon()
        before = self.merger.emitted
        found = self.merger.take(upto)
        assert all(before < txn[0] <= upto for txn in found)
        self.out += found

    @rule(part=st.floats(0, 1))
    def merges_some(self, part: float) -> None:
        """Less than it could: a source joined while source 0 was asked."""
        emitted = self.merger.emitted
        upto = emitted + int((self.merger.horizon() - emitted) * part)
        self.out += self.merger.take(upto)

    @rule(node=node_names)
    def goes_offline(self, node: str) -> None:
        """After all it held was read; what is delivered is still merged."""
        pump = self.pumps.get(node)
        if pump is not None and pump.online and pump.sent == len(pump.log):
            self.merger.remove(node)
            pump.online = False

    @rule(node=node_names)
    def is_given_up(self, node: str) -> None:
        """`offline --accept-loss`: what it had not delivered is lost, if nobody else has it."""
        pump = self.pumps.get(node)
        if pump is None or not pump.online:
            return
        self.merger.remove(node)
        pump.online = False
        lost = pump.log[pump.sent :]
        del pump.log[pump.sent :]
        held = {txn for other in self.pumps.values() for txn in other.log}
        held.update(self.delivered)  # also by a Pump that went offline and began anew since
        self.written = [txn for txn in self.written if txn not in lost or txn in held]

    @precondition(lambda self: self.online())
    @rule(node=node_names, back=st.integers(0, 3))
    def disorder_is_a_typed_stop(self, node: str, back: int) -> None:
        source = self.merger.sources.get(node)
        if source is None or source.gone:
            return
        twin = copy.deepcopy(self.merger)
        ts = source.last - back
        with pytest.raises(Disorder) as caught:
            twin.push(node, [(ts, ts - 1, b"")], ts, 0)
        assert caught.value.commit_ts == ts

    @precondition(lambda self: self.merger.emitted > 0)
    @rule(back=st.integers(0, 4))
    def a_forgotten_pump_is_told_from_a_new_one(self, back: int) -> None:
        """It holds what was passed without it: nothing of that is emitted."""
        ts = max(1, self.merger.emitted - back)
        twin = copy.deepcopy(self.merger)
        twin.add("forgotten", ts - 1)
        assert twin.horizon() == twin.emitted
        with pytest.raises(Overtaken):
            twin.push("forgotten", [(ts, ts - 1, b"")], self.oracle, 0)

    @precondition(lambda self: len(self.online()) > 1)
    @rule(first=st.integers(0, 3))
    def one_commit_ts_twice_is_a_typed_stop(self, first: int) -> None:
        """All that stands in front of the two comes out, and nothing behind it, ever."""
        twin = copy.deepcopy(self.merger)
        online = self.online()
        for node in online:
            pump = self.pumps[node]
            twin.push(node, pump.log[pump.sent :], self.oracle, 0)
        two = {online[first % len(online)], online[(first + 1) % len(online)]}
        ts = self.oracle + 2
        for number, node in enumerate(sorted(two)):
            twin.push(node, [(ts, ts - 1 - number, b"")], ts, 0)
        for node in online:
            twin.push(node, [(ts + 1, ts, b"")], ts + 1, 0)
        found = twin.take(twin.horizon())
        assert self.out + found == self.written
        assert isinstance(twin.stopped, SameCommitTs)
        assert twin.stopped.commit_ts == ts
        assert all(node in str(twin.stopped) for node in two)
        assert twin.horizon() == twin.emitted == ts - 1
        assert twin.take(twin.horizon()) == []
        # An operator gives one of the two Pumps up: the other one's goes on.
        lost, kept = sorted(two) if first % 2 else sorted(two, reverse=True)
        twin.remove(lost)
        assert [txn[0] for txn in twin.take(twin.horizon())] == [ts, ts + 1]
        ((node, given_up),) = twin.given_up
        assert (node, given_up[1]) == (lost, ts - 1 - sorted(two).index(lost))
        assert twin.emitted == ts + 1
        assert kept in twin.sources

    @invariant()
    def what_is_out_is_the_sorted_list(self) -> None:
        if not hasattr(self, "merger"):
            return
        emitted = self.merger.emitted
        assert self.out == [txn for txn in self.written if txn[0] <= emitted]
        copies = sum(txn[0] <= emitted for txn in self.delivered)
        assert self.merger.duplicates == copies - len(self.out)
        assert emitted <= self.merger.horizon() <= max(self.oracle, emitted)
        for source in self.merger.sources.values():
            assert source.bytes == sum(len(payload) for _, _, payload in source.txns)
        # Nobody that is waited for still has something below.
        for node in self.online():
            pump = self.pumps[node]
            assert all(txn[0] > self.merger.horizon() for txn in pump.log[pump.sent :])

    def teardown(self) -> None:
        if not hasattr(self, "merger"):
            return
        self.oracle += 1
        for node in NODES:
            self.delivers(node, 1 << 20, fresh=True)
        self.merges()
        waiting = [txn for s in self.merger.sources.values() for txn in s.txns]
        assert not waiting or not self.online()
        self.what_is_out_is_the_sorted_list()


def test_any_order_of_the_rules() -> None:
    play(MergerMachine, at_least=MERGER_STEPS)
