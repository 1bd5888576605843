"""Metrics of the original are exported under exactly their names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from tidelog.metrics import Count


def test_a_count_keeps_its_name() -> None:
    registry = CollectorRegistry()
    Count("binlog_pump_loss_binlog_count", "x", registry=registry).inc(2)
    Count("binlog_pump_storage_error_count", "x", ["type"], registry=registry).labels("y").inc()
    text = generate_latest(registry).decode()
    assert "\nbinlog_pump_loss_binlog_count 2.0\n" in text
    assert '\nbinlog_pump_storage_error_count{type="y"} 1.0\n' in text
    assert "_total" not in text
