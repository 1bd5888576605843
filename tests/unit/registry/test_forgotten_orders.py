"""A registry that died before it could keep that an order to leave was done."""

from __future__ import annotations

import msgspec
import pytest

from tidelog.messages import (
    APPLIER,
    CLOSING,
    DRAINER,
    OFFLINE,
    ONLINE,
    PAUSED,
    PAUSING,
    NodeStatus,
    Order,
    StateRequest,
)
from tidelog_registry.nodes.cluster import Cluster
from tidelog_registry.nodes.effects import Forget
from tidelog_registry.nodes.node import ReaderOrder


@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
def test_a_reader_that_left_and_is_started_again_is_not_sent_away_twice(kind: str) -> None:
    """Seed 231: the registry ended a moment after the Applier had left."""
    given = ReaderOrder(kind, "r", "main", CLOSING, Order("offline", 5))

    def comes_back(order: Order) -> str | None:
        cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
        return cluster.register(NodeStatus("r", kind=kind, feed="main", order=order), 1.0)[0]

    assert comes_back(Order("", 5)) == ONLINE
    assert comes_back(Order("offline", 5)) == CLOSING, "it had not left yet"
    assert comes_back(Order("resume", 4)) == CLOSING, "it has not heard of it"


@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
@pytest.mark.parametrize("died", ["while it left", "when it had left"])
def test_a_reader_that_died_before_it_was_told_that_it_left_is_let_in_again(
    kind: str, died: str
) -> None:
    """Seed 12254: it keeps the order, and only the registry knows that there is nothing to do any
    more, also when it was started again meanwhile."""
    cluster = Cluster({}, 0.0, fresh=False, lost=False)
    cluster.register(NodeStatus("r", kind=kind, feed="main"), 1.0)
    given = cluster.operate(StateRequest("r", "offline"), 2.0, {}, 1000)[0].status.order
    status = NodeStatus("r", kind=kind, feed="main", state=CLOSING, isAlive=True, order=given)
    assert cluster.heartbeat(status, 3.0)[0] == CLOSING
    if died == "when it had left":
        assert cluster.heartbeat(msgspec.structs.replace(status, state=OFFLINE), 4.0)[0] == OFFLINE
    else:
        cluster.tick(60.0)
        answer, _ = cluster.operate(StateRequest("r", "offline"), 61.0, {}, 2000)
        assert answer.status.state == OFFLINE

    orders = cluster.reader_orders()
    assert [one.state for one in orders] == [OFFLINE]
    again = Cluster({}, 0.0, fresh=False, lost=False, orders=orders)
    assert not again.has_drainer("main")
    assert again.reader_orders() == orders, "until it comes back"
    assert again.register(status, 1.0)[0] == ONLINE
    assert again.reader_orders() == []


@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
def test_that_a_reader_left_is_forgotten_once_it_knows(kind: str) -> None:
    given = ReaderOrder(kind, "r", "main", CLOSING, Order("offline", 5))
    cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
    drained = NodeStatus(
        "r", kind=kind, feed="main", state=OFFLINE, isAlive=True, order=given.order
    )
    assert cluster.heartbeat(drained, 1.0)[0] == OFFLINE
    assert cluster.reader_orders() != []
    told = msgspec.structs.replace(drained, order=Order("", 5))
    assert cluster.heartbeat(told, 2.0)[0] == OFFLINE
    assert cluster.reader_orders() == []


@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
@pytest.mark.parametrize(
    ("order", "state"),
    [(Order("", 6), ONLINE), (Order("resume", 7), ONLINE), (Order("pause", 7), PAUSING)],
)
def test_one_that_was_let_in_again_is_not_sent_away_by_the_next_registry(
    kind: str, order: Order, state: str
) -> None:
    """Seed 2333: the registry ended a moment after it had let the Applier in again."""
    given = ReaderOrder(kind, "r", "main", CLOSING, Order("offline", 5))
    status = NodeStatus("r", kind=kind, feed="main", state=ONLINE, isAlive=True, order=order)

    cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
    told, effects = cluster.heartbeat(status, 1.0)
    assert told is None, "it shall register"
    assert not [effect for effect in effects if isinstance(effect, Forget)]
    assert cluster.register(status, 2.0)[0] == state
    assert cluster.order(kind, "r") == order
    assert cluster.heartbeat(status, 3.0)[0] == state

    cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
    assert cluster.register(status, 1.0)[0] == state, "started again, too"
    assert cluster.order(kind, "r") == order


@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
def test_one_that_was_let_in_again_and_stops_is_not_forgotten(kind: str) -> None:
    """Its position must hold what it has yet to read."""
    given = ReaderOrder(kind, "r", "main", CLOSING, Order("offline", 5))
    cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
    last = NodeStatus("r", kind=kind, feed="main", state=OFFLINE, isAlive=False, order=Order("", 6))
    state, effects = cluster.heartbeat(last, 1.0)
    assert state == OFFLINE
    assert not [effect for effect in effects if isinstance(effect, Forget)]


@pytest.mark.parametrize("kept", [ONLINE, PAUSING, PAUSED, CLOSING])
@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
def test_one_that_left_by_an_order_that_the_registry_forgot_is_forgotten(
    kind: str, kept: str
) -> None:
    given = ReaderOrder(kind, "r", "main", kept, Order("offline", 5))
    cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
    left = NodeStatus("r", kind=kind, feed="main", state=OFFLINE, isAlive=True, order=Order("", 8))
    state, effects = cluster.heartbeat(left, 1.0)
    assert state == OFFLINE
    assert [effect for effect in effects if isinstance(effect, Forget)]


@pytest.mark.parametrize("kind", [APPLIER, DRAINER])
def test_an_order_that_is_given_once_more_holds(kind: str) -> None:
    """To a reader that has left and come back since the first one, and that was not heard yet."""
    given = ReaderOrder(kind, "r", "main", CLOSING, Order("offline", 5))
    cluster = Cluster({}, 0.0, fresh=False, lost=False, orders=[given])
    answer, _ = cluster.operate(StateRequest("r", "offline"), 1.0, {}, 1000)
    assert (answer.status.state, answer.status.order) == (CLOSING, Order("offline", 1000))
    status = NodeStatus("r", kind=kind, feed="main", state=ONLINE, isAlive=True, order=Order("", 6))
    assert cluster.heartbeat(status, 2.0)[0] == CLOSING
    assert cluster.order(kind, "r") == Order("offline", 1000)
