"""Whole clusters under faults: nothing lost, doubled, disordered; every seed is one run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.planted.schedules import calm
from tests.quiet import quiet
from tests.simulation.cluster import Cluster, History, play
from tests.simulation.plan import ACTIONS, ALL_EVENTS, draw
from tests.simulation.reach import ENOUGH, ENOUGH_OF_TIDB, EXCUSED, wanted
from tests.simulation.run import differing, totals
from tidelog.downstream import TableShare
from tidelog.sim import World, run
from tidelog.sim.faults import Injected
from tidelog.sim.file import SimFile
from tidelog.sim.tables import SimTable
from tidelog_drainer.merge.merger import Merger, Txn
from tidelog_pump.log.purge import PURGED_FILE
from tidelog_pump.sort.sorter import Sorter

ROOT = Path(__file__).parents[2]
SEEDS = range(16)


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> None:
    quiet()


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_a_history_is_clean(seed: int) -> None:
    """These and many more are `make simulation`'s; here for who runs pytest alone."""
    history = play(seed)
    assert history.findings.clean, history.findings.text(seed)
    assert history.transactions >= 10, "a quiet run proves nothing"


def _digests(hash_seed: str, seeds: list[int]) -> list[str]:
    script = (
        "import sys\n"
        "from tests.quiet import quiet\n"
        "from tests.simulation.cluster import play\n"
        "quiet()\n"
        "for seed in map(int, sys.argv[1:]):\n"
        "    print(seed, play(seed).digest)\n"
    )
    env = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run(
        [sys.executable, "-c", script, *map(str, seeds)],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return found.stdout.splitlines()


def test_a_seed_is_the_same_history_under_any_hash_seed_and_in_any_order() -> None:
    second = next(seed for seed in range(4, 99) if draw(seed).second)
    worn = next(seed for seed in range(4, 99) if draw(seed).faults.get("bad disk"))
    seeds = [1, 2, 3, second, worn]
    forth, back = _digests("1", seeds), _digests("2", seeds[::-1])
    assert forth == back[::-1]
    assert len(set(forth)) == 5


def test_a_history_that_comes_out_differently_is_told() -> None:
    same, other = play(6), play(6)
    other.digest = "another"
    assert differing([same, other], 1) == [6]


def test_seeds_cover_every_kind_of_fault_and_topology() -> None:
    plans = [draw(seed) for seed in range(60)]
    assert {plan.pumps for plan in plans} == {1, 2, 3, 4, 5}
    second = [plan.second for plan in plans if plan.second is not None]
    assert {bool(feed.ignores) for feed in second} == {feed.applied for feed in second}
    assert {plan.standby for plan in plans} == {plan.appliers.standby for plan in plans}
    assert {action for p in plans for action, weight in p.faults.items() if weight} == set(ACTIONS)
    assert any(not plan.faults for plan in plans)
    assert {plan.follow for plan in plans} == {True, False}
    assert {plan.away for plan in plans if plan.late_s} == {"", "kill", "cut"}
    assert 10 < sum(bool(plan.late_s) for plan in plans) < 30
    assert {event for plan in plans for event, _ in plan.events} == set(ALL_EVENTS)


def _many(reached: Counter[str]) -> list[History]:
    return [History(n, transactions=1, reached=reached) for n in range(ENOUGH)]


def _total(done: list[History], asked: int = ENOUGH) -> int:
    return totals(done, 1.0, asked=asked)


def test_histories_that_never_reached_something_prove_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    every = Counter(name for name in wanted() if name not in EXCUSED)
    assert _total(_many(every)) == 0
    assert "0 lost, 0 duplicated, 0 out of order\n" in capsys.readouterr().out
    for name in ("accept loss", "message lost", "pump Writer takes Append", "pump online: stops"):
        assert _total(_many(every - Counter({name: 1}))) == 1
        told = capsys.readouterr().out
        assert f"NOT REACHED: {name}:" in told
        assert told.endswith("0 faults, 1 never reached\n")
    assert _total(_many(Counter())[1:], ENOUGH - 1) == 0, "too few to tell"
    assert set(EXCUSED) <= set(wanted())
    excused = next(iter(EXCUSED))
    assert _total(_many(every + Counter([excused]))) == 1
    assert f"{excused} (excused)" in capsys.readouterr().out


def test_zeros_are_said_of_no_run_that_fails(capsys: pytest.CaptureFixture[str]) -> None:
    every = Counter(name for name in wanted() if name not in EXCUSED)
    assert _total(_many(every), ENOUGH + 1) == 1
    assert capsys.readouterr().out.endswith("0 faults, 1 FEWER THAN ASKED FOR\n")
    assert totals(_many(every), 1.0, asked=ENOUGH, odd=2) == 1
    assert capsys.readouterr().out.endswith("0 faults, 2 NOT THE SAME\n")
    assert totals([History(1)], 1.0, asked=1) == 1
    assert capsys.readouterr().out.endswith("0 faults, NOTHING WAS TRIED\n")


def test_ci_plays_enough_of_them_to_tell() -> None:
    """Of fewer than that nothing is said."""
    makefile = (ROOT / "Makefile").read_text()
    played = [
        int(end) - int(first)
        for first, end in re.findall(r"^(?:PD_)?SEEDS \?= (\d+):(\d+)$", makefile, re.MULTILINE)
    ]
    assert len(played) == 2
    assert played[0] >= ENOUGH
    assert played[1] >= ENOUGH_OF_TIDB


def test_pumps_purge_what_was_read_in_a_part_of_the_histories() -> None:
    """Not in each: what a client left open keeps a short history's segments."""
    purged = 0
    for seed in [seed for seed in SEEDS if draw(seed).gc_s][:5]:
        clusters: list[Cluster] = []
        assert play(seed, prepare=clusters.append).findings.clean
        purged += any(pump.ports().disk.exists(PURGED_FILE) for pump in clusters[0].pumps)
    assert purged >= 2


def _caught(seeds: range) -> bool:
    """Does one of these seeds, the first that can, find something?"""
    return any(not play(seed).findings.clean for seed in seeds)


def test_a_drainer_that_drops_a_transaction_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Merger.take
    calls = 0

    def lossy(self: Merger, upto: int) -> list[Txn]:
        nonlocal calls
        taken = take(self, upto)
        calls += bool(taken)
        return taken[:-1] if calls % 5 == 0 else taken

    monkeypatch.setattr(Merger, "take", lossy)
    # Nothing goes wrong, and one writer's transactions come 50 ms apart: a batch each, or nearly.
    history = play(1, plan=calm(1, clients=1, rate=20.0))
    assert calls >= history.transactions / 2, "too few batches to drop anything of"
    assert history.findings.loss


def test_a_row_applied_twice_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    write = SimTable.share
    calls = 0

    def twice(self: SimTable, share: TableShare, *, safe: bool) -> None:
        nonlocal calls
        write(self, share, safe=safe)
        calls += bool(share.inserts) and not safe
        if calls == 5:
            calls += 1
            write(self, share, safe=safe)

    monkeypatch.setattr(SimTable, "share", twice)
    found = []
    for seed in range(6):
        calls = 0
        findings = play(seed).findings
        if calls > 5:  # in some histories all is applied in safe mode, where twice is once
            found.append(findings)
    assert len(found) >= 4
    assert not any(findings.clean for findings in found)
    assert any(findings.duplicates for findings in found)


def test_a_pump_that_acks_before_it_syncs_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lie(self: SimFile) -> None:
        await self._disk._take_time(self._disk.faults.sync_s)

    monkeypatch.setattr(SimFile, "sync", lie)
    assert _caught(range(12))


def test_a_resolved_ts_that_ignores_open_prewrites_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hasty(self: Sorter) -> bool:
        moved = self.high.value > self.resolved
        self.resolved = max(self.resolved, self.high.value)
        return moved

    monkeypatch.setattr(Sorter, "advance", hasty)
    assert _caught(range(12))


def test_the_load_reaches_the_downstream_without_faults() -> None:
    async def main(world: World) -> Cluster:
        plan = next(draw(seed) for seed in range(200) if not draw(seed).faults)
        cluster = Cluster(world, plan)
        await cluster.live()
        return cluster

    cluster = run(main, 3)
    assert cluster.findings.clean, cluster.findings.text(3)
    assert cluster.database.commits > 5
    injected = cluster.world.trace.injected
    of_the_database = injected[Injected.REFUSED] + injected[Injected.BROKEN_COMMIT]
    assert cluster.chaos.faults == of_the_database


def test_a_chaos_that_breaks_off_proves_nothing() -> None:
    async def breaks(action: str) -> bool:
        raise RuntimeError(f"no {action}")

    history = play(3, prepare=lambda cluster: setattr(cluster.chaos, "_do", breaks))
    assert any(said.startswith("RuntimeError: no ") for said in history.findings.other)
