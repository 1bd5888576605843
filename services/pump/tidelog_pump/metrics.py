"""The Pump's metrics; names of the original where they mean the same (original.md A.8)."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

LOSS = Counter("binlog_pump_loss_binlog_count", "Commits whose Prewrite this Pump does not hold")
REFUSED = Counter("tidelog_pump_refused", "payloads not taken, by error class", ["error"])
WRITTEN = Counter("tidelog_pump_written", "binlogs fdatasynced")
NOTED = Counter(
    "tidelog_pump_noted",
    "binlogs taken but not as usual: duplicate, late_copy, repeated_prewrite, closed_prewrite, "
    "conflict, stray_rollback, refused_ts, feed_not_kept",
    ["what"],
)
BATCH_BYTES = Histogram(
    "binlog_pump_storage_write_binlog_size",
    "bytes of one write",
    buckets=[1 << n for n in range(8, 28, 2)],
)
MAX_COMMIT_TS = Gauge("binlog_pump_storage_max_commit_ts", "resolved_ts of this Pump")
AVAILABLE = Gauge("binlog_pump_storage_storage_size_available_bytes", "free bytes of the data disk")
PULLED = Counter("tidelog_pump_pulled_transactions", "transactions sent to readers", ["way"])
UNFORESEEN = Counter(
    "tidelog_pump_unforeseen", "requests refused because of a bug of ours, by edge", ["edge"]
)
INDEX_DROPPED = Counter(
    "tidelog_pump_index_dropped", "indexes that could not be opened, deleted to be built again"
)
QUERIES = Counter("binlog_pump_storage_query_tikv_count", "questions what became of a transaction")
