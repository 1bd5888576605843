"""The Applier's Prometheus metrics."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

ROWS = Counter("tidelog_applier_rows_total", "Row changes applied downstream")
TXNS = Counter("tidelog_applier_transactions_total", "Upstream transactions applied")
DDLS = Counter("tidelog_applier_ddls_total", "DDLs applied, by kind", ["kind"])
WINDOWS = Counter("tidelog_applier_windows_total", "Windows of changes handed to the lanes")
FLUSHES = Counter(
    "tidelog_applier_flushes_total",
    "Windows that waited for all before them, as their keys were in flight in several lanes",
)
SKIPPED = Counter(
    "tidelog_applier_skipped_rows_total", "Rows that the downstream refused and on-refused skipped"
)
NOT_HELD = Counter("tidelog_applier_not_held_total", "Things the downstream can't hold")
RECONNECTS = Counter("tidelog_applier_reconnects_total", "Times the downstream was opened again")
APPLIED_TS = Gauge("tidelog_applier_applied_ts", "Everything up to this commit_ts is downstream")
GROUP_SECONDS = Histogram(
    "tidelog_applier_group_seconds", "Time of one downstream transaction of one lane"
)
