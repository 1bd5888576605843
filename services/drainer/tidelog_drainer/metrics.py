"""What the Drainer counts. Names follow the original's where they mean the same (appendix A.8)."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

TXNS_PUBLISHED = Counter("tidelog_drainer_txns_published_total", "Transactions published", ["feed"])
ROWS_PUBLISHED = Counter("tidelog_drainer_rows_published_total", "Row events published", ["feed"])
BATCHES = Counter("tidelog_drainer_batches_total", "Atomic batches appended", ["feed"])
DROPPED = Counter(
    "tidelog_drainer_dropped_total", "Transactions, DDLs and mutations dropped", ["feed", "reason"]
)
SKIPPED = Counter(
    "tidelog_drainer_skipped_upstream_total",
    "Transactions that writers say they committed without binlogs",
    ["feed"],
)
DUPLICATES = Counter(
    "tidelog_drainer_duplicates_total", "Transactions that came from two Pumps", ["feed"]
)
GIVEN_UP = Counter(
    "tidelog_drainer_given_up_total",
    "Transactions of pumps taken offline with their loss, whose commit_ts another one has",
    ["feed"],
)
REWINDS = Counter(
    "tidelog_drainer_rewinds_total", "Private streams begun for readers left behind", ["feed"]
)
PULL_ERRORS = Counter("tidelog_drainer_pull_errors_total", "Failed pulls", ["pump"])
APPEND_RETRIES = Counter(
    "tidelog_drainer_append_retries_total", "Batches whose outcome had to be read back", ["feed"]
)
SCHEMA_REBUILDS = Counter(
    "tidelog_drainer_schema_rebuilds_total",
    "Times the schema was read from the whole DDL history",
    ["feed", "why"],
)
UNKNOWN_VERSIONS = Counter(
    "tidelog_drainer_unknown_schema_versions_total",
    "Schema versions of rows that the DDL history did not tell of in time",
    ["feed"],
)
PUBLISHED_TS = Gauge("checkpoint_tso", "Published up to this commit_ts", ["feed"])
APPEND_SECONDS = Histogram(
    "tidelog_drainer_append_seconds",
    "From sending an atomic batch to its acknowledgement",
    ["feed"],
    buckets=(0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10),
)
