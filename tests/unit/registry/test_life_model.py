"""The life of Pumps under operators, crashes and losses, in any interleaving that chance finds."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.unit.registry.join_model import Broken
from tests.unit.registry.life_model import LifeModel
from tidelog.messages import NodeStatus
from tidelog_registry.nodes.cluster import Behind, Cluster, nobody
from tidelog_registry.nodes.node import Node


def walk(seed: int, steps: int = 1500) -> LifeModel:
    model = LifeModel(seed)
    model.run(steps)
    return model


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_orders_hold_and_nobody_leaves_unread(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 50):
        model = walk(seed)
        model.rest()
        counts += model.counts
    for what in ("online", "obeyed pause", "obeyed resume", "left", "tombstoned", "accepted loss"):
        assert counts[what] > 20, counts


def broken(seeds: range) -> str:
    for seed in seeds:
        try:
            walk(seed).rest()
        except Broken as error:
            return str(error)
    return ""


def test_one_that_leaves_before_it_was_read_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Cluster._said

    def hasty(self: Cluster, node: Node, status: NodeStatus, behind: Behind) -> str:
        return said(self, node, status, nobody)

    monkeypatch.setattr(Cluster, "_said", hasty)
    assert "have not read" in broken(range(50))


def test_a_registry_that_does_not_listen_to_kept_orders_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deaf(self: Node, status: NodeStatus) -> bool:
        return False

    monkeypatch.setattr(Node, "learn_order", deaf)
    assert "serves, and was told to" in broken(range(100))
