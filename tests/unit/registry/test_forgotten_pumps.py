"""A Pump that was away when the membership was lost, and that only a Drainer remembers (ADR 6)."""

from __future__ import annotations

import pytest

from tidelog.membership import Member
from tidelog.messages import (
    CLOSING,
    DRAINER,
    JOINING,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    PUMP,
    NodeStatus,
    Order,
    StateRequest,
)
from tidelog_registry.nodes.cluster import Cluster
from tidelog_registry.nodes.effects import Write
from tidelog_registry.nodes.node_state import NODE_LEASE_S

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


@pytest.mark.parametrize("state_kept", [JOINING, ONLINE, PAUSING, PAUSED])
def test_one_that_left_and_still_runs_is_let_go_by_a_registry_that_has_it_before_that(
    state_kept: str,
) -> None:
    """Seed 15538: the bucket went back to when it joined. It never asks to be let in, so that one
    who waited for it waited for ever."""
    kept = Member("p", state_kept, epoch=3, high_ts=50, mark="m", order=Order("", 1))
    cluster = Cluster({"p": kept}, 0.0, fresh=False, lost=True)
    left = NodeStatus(
        "p", state=OFFLINE, isAlive=True, epoch=3, mark="m", maxCommitTS=50, order=Order("", 7)
    )
    state, effects = cluster.heartbeat(left, LATER_S, lambda ts: ["reader"] if ts >= 50 else [])
    assert state == CLOSING, "what it holds is to be read"
    assert [e.member.state for e in effects if isinstance(e, Write)] == [CLOSING]
    assert cluster.unheard(2 * LATER_S) == []
    state, effects = cluster.heartbeat(left, LATER_S + 1)
    assert state == OFFLINE
    assert [e.member.state for e in effects if isinstance(e, Write)] == [OFFLINE]


def test_a_late_word_of_its_earlier_life_does_not_send_one_away_that_joins_again() -> None:
    kept = Member("p", JOINING, epoch=4, high_ts=50, mark="m", order=Order("", 8))
    cluster = Cluster({"p": kept}, 0.0, fresh=False, lost=True)
    late = NodeStatus("p", state=OFFLINE, isAlive=True, epoch=3, mark="m", order=Order("", 7))
    assert cluster.heartbeat(late, LATER_S)[0] is None
    assert cluster.members() == ["p"]
    assert cluster.nodes[PUMP, "p"].state == JOINING
