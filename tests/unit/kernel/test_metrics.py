"""Metrics of the original keep exactly their names; what actors say becomes gauges."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tidelog import metrics
from tidelog.metrics import Count
from tidelog.timestamps import TS_MAX


def test_a_count_keeps_its_name() -> None:
    registry = CollectorRegistry()
    Count("binlog_pump_loss_binlog_count", "x", registry=registry).inc(2)
    Count("binlog_pump_storage_error_count", "x", ["type"], registry=registry).labels("y").inc()
    text = generate_latest(registry).decode()
    assert "\nbinlog_pump_loss_binlog_count 2.0\n" in text
    assert '\nbinlog_pump_storage_error_count{type="y"} 1.0\n' in text
    assert "_total" not in text


def of(actors: metrics.Actors, name: str) -> list[str]:
    """The lines of a metric."""
    lines = metrics.exposition(actors).decode().splitlines()
    return [line for line in lines if line.startswith((f"{name} ", f"{name}{{"))]


DEPTH = metrics.shown("test_depth", "of a well", "well", lambda said: said["depth"])
FISH = metrics.shown("test_fish", "by kind", "well", lambda said: said["fish"], "kind")
PAIRS = metrics.shown("test_pairs", "", "well", lambda said: said["pairs"], "a", "b")


def test_what_an_actor_says_is_shown_when_somebody_looks() -> None:
    said = {"depth": 7, "fish": {"carp": 2, "pike": None}, "pairs": {("x", "y"): 3}}
    assert of({"well": said}, "test_depth") == ["test_depth 7.0"]
    assert of({"well": said}, "test_fish") == ['test_fish{kind="carp"} 2.0']
    assert of({"well": said}, "test_pairs") == ['test_pairs{a="x",b="y"} 3.0']
    assert of({"lake": said}, "test_depth") == []


@pytest.mark.parametrize("said", [{}, {"depth": None}, {"starting": True, "fish": None}])
def test_what_is_not_known_is_not_there(said: dict[str, object]) -> None:
    assert of({"well": said}, "test_depth") == []
    assert of({"well": said}, "test_fish") == []


def test_each_actors_mailbox_is_shown_by_its_name() -> None:
    found = of({"a": {"mailbox": 1}, "b": {"mailbox": 0}, "c": {}}, "tidelog_mailbox_messages")
    assert found == [
        'tidelog_mailbox_messages{actor="a"} 1.0',
        'tidelog_mailbox_messages{actor="b"} 0.0',
    ]


def test_a_position_is_shown_in_milliseconds_and_none_is_not() -> None:
    assert metrics.position_ms(5 << 18 | 3) == 5
    assert (
        metrics.position_ms(0) is metrics.position_ms(None) is metrics.position_ms(TS_MAX) is None
    )
