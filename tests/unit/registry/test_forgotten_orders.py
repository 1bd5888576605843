"""A registry that died before it could keep that an order to leave was done."""

from __future__ import annotations

import pytest

from tidelog.messages import APPLIER, CLOSING, DRAINER, ONLINE, NodeStatus, Order
from tidelog_registry.cluster import Cluster
from tidelog_registry.node import ReaderOrder


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
