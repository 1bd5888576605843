"""What the Applier counts. The original's Drainer wrote downstream, too: what it counted there has
its name here, `binlog_drainer_…`, for the dashboards and rules people have (appendix A.8)."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

from tidelog import feed_metrics
from tidelog.metrics import SECONDS, position_ms, shown

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
EXECUTE_SECONDS = Histogram(
    "binlog_drainer_execute_duration_time",
    "Time of one downstream transaction of one lane",
    buckets=(*SECONDS, 60, 120),
)
SAVED = feed_metrics.EVENTS.labels("savepoint")
CHECKPOINT_DELAY = Histogram(
    "binlog_drainer_checkpoint_delay_seconds",
    "How far behind the clock a checkpoint was when it was saved",
    buckets=(*SECONDS, 60, 300, 3600, 86400),
)
SAVED_AT = Gauge(
    "tidelog_applier_checkpoint_saved_seconds", "When the checkpoint was last saved, since 1970"
)
CHECKPOINT = shown(
    "binlog_drainer_checkpoint_tso",
    "The checkpoint that is saved downstream, in ms",
    "applier",
    lambda said: position_ms(said["checkpoint_ts"]),
)
APPLIED = shown(
    "tidelog_applier_applied_ms",
    "Everything up to there is downstream, in ms",
    "applier",
    lambda said: {said["feed"]: position_ms(said["applied_ts"])},
    "feed",
)
STOPPED = shown(
    "tidelog_applier_stopped",
    "1 while a typed stop holds the Applier",
    "applier",
    lambda said: {said["feed"]: bool(said["stopped"])},
    "feed",
)
WAITS = shown(
    "tidelog_applier_waiting",
    "1 while something keeps it from getting on: the downstream, or a typed stop",
    "applier",
    lambda said: bool(said["error"]),
)
CONSISTENT = shown(
    "tidelog_applier_consistent",
    "1 while the downstream is exactly at its checkpoint",
    "applier",
    lambda said: said["consistent"],
)
ON_THEIR_WAY = shown(
    "tidelog_applier_windows_on_their_way",
    "Windows handed to the lanes and not yet applied",
    "applier",
    lambda said: said["on_their_way"],
)
LANES = shown(
    "tidelog_applier_lanes", "Connections that write", "applier", lambda said: said["lanes"]
)
RELAY_BYTES = shown(
    "tidelog_applier_relay_bytes",
    "Bytes of the relay log",
    "applier",
    lambda said: said["relay_bytes"],
)
LEADS = shown(
    "tidelog_applier_leads", "1 for the Applier that applies", "lease", lambda said: said["leads"]
)
