"""A Pump that was away when the membership was lost, and that only a Drainer remembers (ADR 6)."""

from __future__ import annotations

from tidelog.messages import DRAINER, JOINING, OFFLINE, PUMP, NodeStatus, StateRequest
from tidelog_registry.cluster import Cluster
from tidelog_registry.effects import Write
from tidelog_registry.node_state import NODE_LEASE_S

LATER_S = 3 * NODE_LEASE_S


def forgotten() -> Cluster:
    """The membership was lost at 0; a Drainer is there, its Pump p isn't."""
    cluster = Cluster({}, 0.0, fresh=False, lost=True)
    cluster.register(NodeStatus("d", kind=DRAINER, isAlive=True, feed="main"), LATER_S)
    return cluster


def recall(cluster: Cluster, now: float) -> list[tuple[str, str]]:
    effects = cluster.recall(["p"], now)
    return [(e.member.node, e.member.state) for e in effects if isinstance(e, Write)]


def test_pumps_may_first_announce_themselves() -> None:
    cluster = forgotten()
    assert recall(cluster, 1.0) == []
    assert recall(cluster, LATER_S) == [("p", JOINING)]
    assert recall(cluster, LATER_S) == []


def test_it_waits_for_its_pump_or_an_operator_whatever_its_lease() -> None:
    cluster = forgotten()
    recall(cluster, LATER_S)
    later = 2 * LATER_S
    cluster.tick(later)
    assert cluster.members() == ["p"]
    assert cluster.unheard(later) == ["p"], "its W is not known"
    answer, effects = cluster.operate(
        StateRequest("p", "offline", accept_loss=True), later, {"reader": 70}
    )
    assert answer.status.state == OFFLINE
    assert [e.member.state for e in effects if isinstance(e, Write)] == [OFFLINE]
    assert cluster.members() == []
    assert recall(cluster, later) == [], "the Drainer has not met the tombstone yet"


def test_back_it_joins_as_one_that_brings_data() -> None:
    cluster = forgotten()
    recall(cluster, LATER_S)
    status = NodeStatus("p", isAlive=True, epoch=3, mark="m", logTS=50)
    state, effects = cluster.register(status, LATER_S + 1)
    assert state is None, "a join is under way"
    written = [e.member for e in effects if isinstance(e, Write)]
    assert [(m.state, m.high_ts) for m in written] == [(JOINING, 50)]
    assert cluster.nodes[PUMP, "p"].join is not None
