"""Histories whose oracle is `pd`: what they reach, and what the watches find in a wrong oracle."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from tests.quiet import quiet
from tests.simulation import tidb
from tests.simulation.cluster import play
from tests.simulation.plan import TIDB_FAULTS, TIDB_FROM, draw
from tests.simulation.reach import ENOUGH_OF_TIDB, OF_TIDB, missed
from tests.simulation.resolved_watch import ResolvedWatch
from tests.simulation.run import differing
from tidelog.batched_oracle import BatchedOracle
from tidelog_pump.sort.sorter import Sorter

SEEDS = range(TIDB_FROM, TIDB_FROM + 6)


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> None:
    quiet()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_history_is_clean(seed: int) -> None:
    history = play(seed)
    assert history.findings.clean, history.findings.text(seed)
    assert history.transactions >= 10, "a quiet run proves nothing"
    assert ResolvedWatch.present is not None
    assert ResolvedWatch.present.moves, "nobody was watched"


def test_a_seed_is_one_history() -> None:
    assert differing([play(SEEDS[0])], 1) == []


def test_all_faults_are_drawn_and_other_seeds_keep_their_course() -> None:
    plans = [draw(seed) for seed in range(TIDB_FROM, TIDB_FROM + 40)]
    drawn = {fault for plan in plans if plan.tidb for fault in plan.tidb.faults}
    assert drawn == set(TIDB_FAULTS)
    assert all(plan.tidb is not None and not plan.follow for plan in plans)
    assert {draw(seed).tidb for seed in range(40)} == {None}


def test_what_they_never_reach_is_told() -> None:
    every = Counter(OF_TIDB)
    assert missed(every, 0, ENOUGH_OF_TIDB) == []
    lost = OF_TIDB[-1]
    assert missed(every - Counter([lost]), 0, ENOUGH_OF_TIDB) == [lost]
    assert missed(Counter(), 0, ENOUGH_OF_TIDB - 1) == [], "too few to tell"


def _caught() -> bool:
    """Does one of the seeds, the first that can, find something?"""
    return any(not play(seed).findings.clean for seed in SEEDS)


def _breaks(rule: str) -> bool:
    return any(said.startswith(rule) for seed in SEEDS for said in play(seed).findings.rules)


def test_a_batch_of_timestamps_kept_for_later_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit_ts that was allocated before the Prewrite was acked."""
    take = BatchedOracle.take
    kept: dict[BatchedOracle, list[int]] = {}

    async def from_a_batch(self: BatchedOracle, at_least: int = 0) -> int:
        mine = kept.setdefault(self, [])
        while mine and mine[0] <= at_least:
            mine.pop(0)
        if not mine:
            last = await take(self, 50)
            mine.extend(range(last - 49, last + 1))
        return mine.pop(0)

    monkeypatch.setattr(BatchedOracle, "fresh", from_a_batch)
    assert _caught()


def test_a_resolved_ts_past_an_open_prewrite_breaks_i2(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = Sorter.enter

    def unbound(self: Sorter, start_ts: int, now_ms: int, at_s: float = 0.0) -> None:
        entered(self, start_ts, now_ms, at_s)
        self._bounds.clear()

    monkeypatch.setattr(Sorter, "enter", unbound)
    assert _breaks("I2")


def test_a_w_that_no_answer_of_pd_moved_breaks_i9(monkeypatch: pytest.MonkeyPatch) -> None:
    entered = Sorter.enter

    def ahead(self: Sorter, start_ts: int, now_ms: int, at_s: float = 0.0) -> None:
        entered(self, start_ts, now_ms, at_s)
        self.high.value = max(self.high.value, start_ts + (5 << 18))

    monkeypatch.setattr(Sorter, "enter", ahead)
    assert _breaks("I9")


def test_a_leader_that_begins_below_the_durable_bound_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PD itself breaks its promise: its timestamps go back, and nothing but the bound keeps them
    from it. One history in four has an election that shows it."""

    def forgetful(self: tidb.Pd, server: str) -> None:
        self.leader = server
        self.physical, self.logical = self._wall_ms() - 5_000, 0

    monkeypatch.setattr(tidb.Pd, "elect", forgetful)
    many = range(TIDB_FROM, TIDB_FROM + 24)
    shown = (seed for seed in many if not play(seed).findings.clean)
    assert len(list(islice(shown, 3))) == 3
