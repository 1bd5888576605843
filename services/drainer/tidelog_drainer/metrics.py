"""What the Drainer counts. Names follow the original's where they mean the same (appendix A.8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import Counter, Histogram

from tidelog.metrics import SECONDS, position_ms, shown

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
APPEND_SECONDS = Histogram(
    "tidelog_drainer_append_seconds",
    "From sending an atomic batch to its acknowledgement",
    ["feed"],
    buckets=SECONDS,
)
APPEND_MESSAGES = Histogram(
    "tidelog_drainer_append_messages",
    "Messages of an atomic batch",
    ["feed"],
    buckets=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
)
APPEND_BYTES = Histogram(
    "tidelog_drainer_append_bytes",
    "Bytes of an atomic batch's bodies",
    ["feed"],
    buckets=[1 << n for n in range(8, 26, 2)],
)
PULLED_BYTES = Counter("tidelog_drainer_pulled_bytes", "Bytes of binlogs a Pump sent", ["pump"])
PULLED_TXNS = Counter("tidelog_drainer_pulled_txns", "Transactions that a Pump sent", ["pump"])
REACH_SECONDS = Histogram(
    "binlog_drainer_binlog_reach_duration_time",
    "From commit_ts until the oldest transaction of a frame was here, by the machines' clocks",
    ["nodeID"],
    buckets=(*SECONDS, 60, 300, 3600),
)


def _sources(said: Mapping[str, Any], value: str) -> dict[str, float | None]:
    return {pump: source[value] for pump, source in said["sources"].items()}


PUMP_POSITION = shown(
    "binlog_drainer_pump_position",
    "Up to where a Pump is read, in ms",
    "collector",
    lambda said: {
        pump: position_ms(source["resolved_ts"]) for pump, source in said["sources"].items()
    },
    "nodeID",
)
HOLDS = shown(
    "tidelog_drainer_source_holds_merge",
    "1 for a Pump that the merge waits for",
    "collector",
    lambda said: _sources(said, "holds_merge"),
    "pump",
)
BUFFERED = shown(
    "tidelog_drainer_source_buffer_bytes",
    "Bytes of a Pump's transactions that wait for the merge",
    "collector",
    lambda said: _sources(said, "bytes"),
    "pump",
)
FAILING = shown(
    "tidelog_drainer_source_failing",
    "1 while a Pump is not reached, or refuses to be read",
    "collector",
    lambda said: {pump: bool(source.get("error")) for pump, source in said["sources"].items()},
    "pump",
)
PUBLISHED = shown(
    "tidelog_drainer_published_ms",
    "Everything up to there is published, in ms",
    "publisher",
    lambda said: {said["feed"]: position_ms(said["published_ts"])},
    "feed",
)
QUEUED = shown(
    "tidelog_drainer_queued_bytes",
    "Bytes of merged transactions that wait to be decoded",
    "publisher",
    lambda said: said["queued_bytes"],
)
STOPPED = shown(
    "tidelog_drainer_feed_stopped",
    "1 while a typed stop holds the feed, or it stands at a DDL that asks",
    "publisher",
    lambda said: {said["feed"]: bool(said["error"])},
    "feed",
)
MERGE_STOPPED = shown(
    "tidelog_drainer_merge_stopped",
    "1 while the merge stands at something that only a person can mend",
    "collector",
    lambda said: bool(said["error"]),
)
LEADS = shown(
    "tidelog_drainer_leads", "1 for the Drainer that publishes", "lease", lambda said: said["leads"]
)
TABLES = shown(
    "tidelog_drainer_schema_tables",
    "Tables that the schema holds now",
    "publisher",
    lambda said: said["schema"]["tables"],
)
