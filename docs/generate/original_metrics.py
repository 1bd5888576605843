"""docs/reference/original-metrics.md: where each metric of TiDB Binlog is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from docs.generate import metrics
from docs.generate.markdown import WRITTEN, code, table

INTRODUCTION = """# Metrics of TiDB Binlog

Which service has them here, or what says the same. Dashboards and rules:
[metrics and alerts](../metrics-and-alerts.md).
"""
_FILES = "the files of a `file://` downstream are written by the Applier: its lag and errors tell"
_ARBITER = "there is no arbiter: applications subscribe to the feed"
INSTEAD: Mapping[str, str] = {
    "binlog_drainer_slow_chaser_catchup_time_seconds": (
        "`binlog_pump_storage_slow_chaser_catchup_time_seconds`, of the Pump, whose it is"
    ),
    "binlog_drainer_ddl_jobs_total": "`tidelog_applier_ddls_total`, `binlog_drainer_event`",
    "binlog_drainer_disorder_binlog_count": "a Drainer that meets disorder stops: `Disorder`",
    "binlog_drainer_query_duration_time": "`binlog_drainer_execute_duration_time`",
    "binlog_drainer_read_binlog_size": "`tidelog_drainer_pulled_bytes_total`",
    "binlog_drainer_queue_size": (
        "`tidelog_drainer_queued_bytes`, `tidelog_drainer_source_buffer_bytes`"
    ),
    "binlog_binlogfile_write_binlog_size": _FILES,
    "binlog_binlogfile_write_binlog_duration_time": _FILES,
    "binlog_binlogfile_read_binlog_duration_time": _FILES,
    "binlog_binlogfile_corruption_binlog_count": _FILES,
    "binlog_arbiter_checkpoint_tso": _ARBITER,
    "binlog_arbiter_query_duration_time": _ARBITER,
    "binlog_arbiter_event": _ARBITER,
    "binlog_arbiter_queue_size": _ARBITER,
    "binlog_arbiter_txn_latency_seconds": _ARBITER,
}


def page() -> str:
    """Raises AssertionError where what is named instead is not served."""
    served = {name for of_it in metrics.of_all().values() for name, *_ in of_it}
    named = {n for w in INSTEAD.values() for n in re.findall(r"`((?:tidelog|binlog)_\w+)`", w)}
    assert named <= served, named - served
    rows = sorted({**dict(_present()), **INSTEAD}.items())
    shown = table(("metric", "here"), [(code(name), where) for name, where in rows])
    return f"{WRITTEN}\n{INTRODUCTION}\n{shown}"


def _present() -> Iterator[tuple[str, str]]:
    """The original's names that are served, and by whom."""
    found: dict[str, list[str]] = {}
    for service, of_it in metrics.of_all().items():
        for name, *_ in of_it:
            if name.startswith("binlog_"):
                found.setdefault(name, []).append(service.capitalize())
    for name, services in found.items():
        yield name, ", ".join(services)
