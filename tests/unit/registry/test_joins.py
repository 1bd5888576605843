"""I3 and I4: no Drainer ever emits past a commit of a Pump that joins; the seed's example."""

from __future__ import annotations

import pytest

from tests.unit.registry.join_model import Broken, Drainer, Model, Pump, first_break
from tidelog.membership import Member
from tidelog.messages import DRAINER, JOINING, OFFLINE, ONLINE, NodeStatus
from tidelog_drainer.merge.merger import Merger
from tidelog_registry.nodes.cluster import Cluster
from tidelog_registry.nodes.effects import Effect, Joined, Notify, Write


def test_nothing_is_emitted_past_a_joining_pump_in_any_interleaving() -> None:
    emissions = 0
    for seed in range(300):
        model = Model(seed)
        model.run(1000)
        emissions += model.emissions
    assert emissions > 2000, "the model has to emit to prove anything"


@pytest.mark.parametrize("notify", [False, True])
def test_without_source_0_the_model_finds_the_lost_transaction(notify: bool) -> None:
    found = first_break(range(100), 600, source_0=False, notify=notify)
    assert found is not None
    assert "without" in found[1] or "comes now" in found[1]


def scene() -> tuple[Model, Drainer, Pump]:
    """The seed's: Pump1 {1,3,5,7,9}, Pump2 {2,4,6,10}, 7 processed, Pump3 joins and has {8,12}."""
    model = Model(0)
    for node in ("p0", "p1"):
        model.bucket[node] = Member(node, ONLINE)
        model.sequence += 1
    drainer = model.drainers[0]
    drainer.sources = {"p0": 7, "p1": 7}
    drainer.emitted = 7
    drainer.seen = (1, model.sequence)
    model.pumps[0].commits, model.pumps[1].commits = [1, 3, 5, 7, 9], [2, 4, 6, 10]
    return model, drainer, model.pumps[2]


def test_the_seeds_example_loses_8_without_the_notification_and_source_0() -> None:
    model, drainer, pump3 = scene()
    model.source_0 = False
    model.drainers = [drainer]
    pump3.commits = [8, 12]
    drainer.sources = {"p0": 9, "p1": 10}
    drainer.pending = 9
    with pytest.raises(Broken, match="without 8 of p2"):
        model.emit()


def test_the_seeds_example_waits_for_pump3_once_it_is_recorded() -> None:
    model, drainer, pump3 = scene()
    model.drainers = [drainer]
    model.effects(model.cluster.register(drainer.status(), model.now)[1])
    model.ask_to_join(pump3)
    assert [m.state for m in model.writes] == [JOINING]
    model.write_next()
    drainer.sources = {"p0": 9, "p1": 10}
    drainer.pending = 9
    model.emit()
    assert drainer.emitted == 7
    assert "p2" in drainer.sources
    model.arrive()
    assert pump3.state == OFFLINE, "no Prewrite before the ack is in and recorded"
    model.arrive()
    model.write_next()
    model.arrive()
    assert pump3.state == ONLINE
    pump3.commits = [8, 12]
    pump3.high_ts = model.ts = 12
    model.receive()
    model.emit()
    model.emit()
    assert drainer.emitted == 12


def test_joining_is_recorded_before_a_drainer_is_asked_and_online_after_all_acked() -> None:
    cluster = Cluster({}, 0.0, fresh=True, lost=False)
    for name in ("d1", "d2"):
        cluster.register(NodeStatus(name, kind=DRAINER, isAlive=True), 0.0)
    state, effects = cluster.register(NodeStatus("p", isAlive=True), 0.0)
    assert state is None
    assert [e.member.state for e in effects if isinstance(e, Write)] == [JOINING]
    assert not [e for e in effects if isinstance(e, Notify)]
    effects = cluster.joins.recorded(Member("p", JOINING), 0.1)
    assert [e.drainer for e in effects if isinstance(e, Notify)] == ["d1", "d2"]
    assert cluster.joins.acked("d1", "p", 0.2) == []
    effects = cluster.joins.acked("d2", "p", 0.2)
    assert [e.member.state for e in effects if isinstance(e, Write)] == [ONLINE]
    assert not [e for e in effects if isinstance(e, Joined)]
    effects = cluster.joins.recorded(Member("p", ONLINE), 0.3)
    assert [e.state for e in effects if isinstance(e, Joined)] == [ONLINE]


def test_the_seeds_example_through_the_drainers_merge() -> None:
    """Pump1 {1,3,5,7,9}, Pump2 {2,4,6,10}, both read up to 7; Pump3 joins, and has {8,12}."""
    merger = Merger(0)
    cluster = Cluster({}, 0.0, fresh=True, lost=False)
    cluster.register(NodeStatus("d", kind=DRAINER, isAlive=True, feed="f"), 0.0)

    def deliver(pump: str, commits: list[int], resolved: int) -> None:
        merger.push(pump, [(ts, 100 + ts, b"") for ts in commits], resolved, 0)

    def written(effects: list[Effect]) -> Member:
        return next(effect.member for effect in effects if isinstance(effect, Write))

    def emitted() -> list[int]:
        return [commit_ts for commit_ts, _, _ in merger.take(merger.horizon())]

    for pump, commits in (("p1", [1, 3, 5, 7]), ("p2", [2, 4, 6])):
        merger.add(pump, 0)
        deliver(pump, commits, 7)
    assert emitted() == [1, 2, 3, 4, 5, 6, 7]
    effects = cluster.register(NodeStatus("p3", isAlive=True), 0.0)[1]
    effects = cluster.joins.recorded(written(effects), 0.1)
    assert [e.pump for e in effects if isinstance(e, Notify)] == ["p3"]
    merger.add("p3", merger.emitted)
    deliver("p1", [9], 10)
    deliver("p2", [10], 10)
    assert emitted() == [], "9 and 10 wait for Pump3, which takes no Prewrite yet"
    effects = cluster.joins.acked("d", "p3", 0.2)
    effects = cluster.joins.recorded(written(effects), 0.3)
    assert [e.state for e in effects if isinstance(e, Joined)] == [ONLINE]
    deliver("p3", [8, 12], 12)
    assert emitted() == [8, 9, 10]
    deliver("p1", [], 12)
    deliver("p2", [], 12)
    assert emitted() == [12]
