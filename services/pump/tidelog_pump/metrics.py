"""The Pump's metrics; names of the original where they mean the same (original.md A.8)."""

from __future__ import annotations

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from tidelog.metrics import SECONDS, Count, position_ms, shown

LOSS = Count("binlog_pump_loss_binlog_count", "Commits whose Prewrite this Pump does not hold")
REFUSED = Counter("tidelog_pump_refused", "payloads not taken, by error class", ["error"])
WRITTEN = Counter("tidelog_pump_written", "binlogs fdatasynced")
SYNC_LOG = Gauge(
    "tidelog_pump_sync_log", "1 if an ack is after the fdatasync, 0 if sync-log is off"
)
DAMAGED = Counter(
    "tidelog_pump_damaged_segments", "closed segments found damaged or lost at a start"
)


class Gauges:
    """Where one Pump is. A process shows its own; `registry` None: an adopted Pump's are shown
    nowhere, two that took turns in one gauge would tell of neither. (What is counted, counts for
    both.) Of timestamps, as the original's: the physical part, milliseconds since 1970."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.max_commit_ts = Gauge(
            "binlog_pump_storage_max_commit_ts",
            "resolved_ts of this Pump, in ms",
            registry=registry,
        )
        self.gc_ts = Gauge(
            "binlog_pump_storage_gc_ts",
            "the purge point in ms: pulls from below it are refused",
            registry=registry,
        )
        self.done_gc_ts = Gauge(
            "binlog_pump_storage_done_gc_ts",
            "up to where the index was swept, too, in ms",
            registry=registry,
        )
        self.behind = Gauge(
            "tidelog_pump_readers_behind",
            "readers behind nearly as far as gc reaches",
            registry=registry,
        )
        self.chaser_on = Gauge(
            "tidelog_pump_slow_chaser_on",
            "1 while the writer hands nothing to the index",
            registry=registry,
        )


OWN = Gauges(REGISTRY)
NOTES = (
    "duplicate",
    "closed_prewrite",
    "conflict",
    "stray_rollback",
    "repeated_prewrite",
    "late_copy",
    "late_copy_not_verified",
    "refused_ts",
    "feed_not_kept",
    "feed_forgotten",
)
NOTED = Counter("tidelog_pump_noted", f"taken, but not as usual: {', '.join(NOTES)}", ["what"])
RPC_TIME = Histogram(
    "binlog_pump_rpc_duration_seconds",
    "of gRPC's WriteBinlog and PullBinlogs (until the stream ends), and of write, a message of "
    "many binlogs by NATS; label succ or fail, fail if one of them was refused",
    ["method", "label"],
    buckets=SECONDS,
)
RPC_SECONDS = {label: RPC_TIME.labels("WriteBinlog", label) for label in ("succ", "fail")}
PULL_SECONDS = {label: RPC_TIME.labels("PullBinlogs", label) for label in ("succ", "fail")}
NATS_SECONDS = {label: RPC_TIME.labels("write", label) for label in ("succ", "fail")}
ERRORS = Count(
    "binlog_pump_storage_error_count", "writes and pulls that met a Fatal, by class", ["type"]
)
WRITE_SIZE = Histogram(
    "binlog_pump_storage_write_binlog_size",
    "bytes of one write of what waited together (batch)",
    ["type"],
    buckets=[1 << n for n in range(8, 28, 2)],
)
BATCH_BYTES = WRITE_SIZE.labels("batch")
WRITE_TIME = Histogram(
    "binlog_pump_storage_write_binlog_duration_time",
    "of one write: in all (batch), beginning a segment (rotate), appending and syncing (to_disk)",
    ["type"],
    buckets=SECONDS,
)
BATCH_SECONDS = WRITE_TIME.labels("batch")
ROTATE_SECONDS = WRITE_TIME.labels("rotate")
TO_DISK_SECONDS = WRITE_TIME.labels("to_disk")
STORAGE_SIZE = Gauge(
    "binlog_pump_storage_storage_size_bytes", "capacity and available bytes of the disk", ["type"]
)
PULLED = Counter("tidelog_pump_pulled_transactions", "transactions sent to readers", ["way"])
LEFT_OUT = Counter(
    "tidelog_pump_left_out_transactions", "transactions that their reader's filters drop anyway"
)
UNFORESEEN = Counter(
    "tidelog_pump_unforeseen", "requests refused because of a bug of ours, by edge", ["edge"]
)
INDEX_DROPPED = Counter(
    "tidelog_pump_index_dropped", "indexes deleted to be built again: failed, or not of this log"
)
CHASER = Count(
    "binlog_pump_storage_slow_chaser_count",
    "turned_on, turned_off, catch_up, recovery (a try that holds the writer), given_up",
    ["type"],
)
CHASED = Counter("tidelog_pump_slow_chaser_records", "records the chaser read and had indexed")
CATCH_UP_SECONDS = Histogram(
    "binlog_pump_storage_slow_chaser_catchup_time_seconds",
    "seconds of one catch-up beside the writer",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300),
)
GC_SECONDS = Histogram("tidelog_pump_gc_seconds", "one run, without the sweep", buckets=SECONDS)
DELETED_SEGMENTS = Counter("tidelog_pump_deleted_segments", "segments purged")
DELETED_BYTES = Counter("tidelog_pump_deleted_bytes", "their bytes")
DELETED_KEYS = Counter(
    "binlog_pump_storage_deleted_kv", "index entries of purged transactions deleted one by one"
)
HARD_CAP_LOST = Counter(
    "tidelog_pump_hard_cap_lost",
    "what gc-hard-cap took: open_prewrite, and unread transactions: for each reader without them,"
    " and once each that was committed above the purge point",
    ["what"],
)
EARLY_ALERTS = Count(
    "binlog_pump_detected_drainer_binlog_purge_count",
    "times that a reader was found to be behind nearly as far as gc reaches",
    ["id"],
)
QUERIES = Count("binlog_pump_storage_query_tikv_count", "questions what became of a transaction")
LATE_VERDICTS = Counter(
    "tidelog_pump_late_copies",
    "Commits at or below resolved_ts by what became of them: settled, missing, accepted; those "
    "without their Prewrite: unpaired_settled, unpaired_missing, accepted",
    ["verdict"],
)

OPEN = shown(
    "tidelog_pump_open_prewrites",
    "Prewrites without their Commit or Rollback",
    "sorter",
    lambda said: said["open"],
)
OLDEST_OPEN = shown(
    "tidelog_pump_oldest_open_prewrite_seconds",
    "since the oldest open Prewrite's start_ts; 0 = none is open",
    "sorter",
    lambda said: said["oldest_open"]["age_s"] if said["oldest_open"] else 0,
)
HIGH = shown(
    "tidelog_pump_high_ms",
    "the largest timestamp known to have been allocated, in ms",
    "sorter",
    lambda said: position_ms(said["high_ts"]),
)
PULLED_UPTO = shown(
    "tidelog_pump_pulled_ms",
    "up to where a feed has pulled, in ms",
    "puller",
    lambda said: {feed: position_ms(ts) for feed, ts in said["feeds"].items()},
    "feed",
)
KEPT_FREE = shown(
    "tidelog_pump_kept_free_bytes",
    "Prewrites are refused while less than this is available",
    "writer",
    lambda said: said["kept_free"],
)
DISK_FULL = shown(
    "tidelog_pump_disk_full",
    "1 while Prewrites are refused for want of space",
    "writer",
    lambda said: said["disk_full"],
)
LATE = shown(
    "tidelog_pump_late_commits",
    "Commits at or below resolved_ts: unverified (other Pumps are asked), missing (readers lack "
    "them: a typed stop), unpaired (without their Prewrite)",
    "verifier",
    lambda said: {what: said[what] for what in ("unverified", "missing", "unpaired")},
    "what",
)
STRANDED = shown(
    "tidelog_pump_stranded_records",
    "records above this Pump's tombstone, exported",
    "stranded",
    lambda said: said["stranded"],
)
NODE = shown(
    "tidelog_pump_node",
    "1, with whom it is and the slot that it serves",
    "identity",
    lambda said: {tuple(map(str, (said["node"], said["slot"]))): 1},
    "node",
    "slot",
)
