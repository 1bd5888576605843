"""For each alert: series by which it fires, and series by which it does not, as `promtool test
rules` writes them (a value each 15 s). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

Series = Mapping[str, str]
MINUTE_MS = 60_000


class Case(NamedTuple):
    """`bad` fires at 10 minutes; `good` does not, nor `young`, each with `also` beside it."""

    bad: Series
    good: Series
    also: Series = MappingProxyType({})
    young: Series = MappingProxyType({})


def still(value: float) -> str:
    return f"{value}x60"


def growing(step: float, start: float = 0) -> str:
    return f"{start}+{step}x60"


def once(to: float = 1) -> str:
    """From 0, in the last minute before 10."""
    return f"0x37 {to}x20"


def born() -> str:
    return "_x37 1x20"


def histogram(name: str, labels: str, slow: str, fast: str) -> tuple[Series, Series]:
    """Observations above `slow` seconds, and below `fast`."""

    def of(bound: str) -> Series:
        bounds = (fast, slow, "+Inf")
        return {
            f'{name}_bucket{{instance="a",{labels}le="{le}"}}': growing(
                10 if le == "+Inf" or float(le) >= float(bound) else 0
            )
            for le in bounds
        }

    return of("1e9"), of(fast)


def one(bad: str, good: str, series: str, **also: str) -> Case:
    return Case({series: bad}, {series: good}, dict(also))


RPC = histogram("binlog_pump_rpc_duration_seconds", 'method="write",label="succ",', "5", "0.01")
DISK = histogram("binlog_pump_storage_write_binlog_duration_time", 'type="batch",', "5", "0.01")
EXECUTE = histogram("binlog_drainer_execute_duration_time", "", "60", "0.01")
STALL = histogram("tidelog_loop_stall_seconds", 'job="pump",', "5", "0.001")
LEADS = {'tidelog_applier_leads{instance="a"}': still(1)}
PUMP = 'binlog_pump_storage_max_commit_ts{instance="p1"}'
OTHER_PUMP = 'binlog_pump_storage_max_commit_ts{instance="p2"}'
PUBLISHED = 'tidelog_drainer_published_ms{feed="main",instance="d"}'
APPLIED = 'tidelog_applier_applied_ms{feed="main",instance="a"}'
CHECKPOINT = 'binlog_drainer_checkpoint_tso{instance="a"}'
NODE = 'tidelog_registry_node{instance="r",kind="pump",node="p1",state="%s"}'
REACHABLE = 'tidelog_registry_node_reachable{instance="r",kind="%s",node="p1"}'
UP = 'up{job="%s",instance="i"}'
SETTLED = {'tidelog_registry_settled{instance="r"}': still(1)}
MOVES = growing(15_000, 1_000_000)
STANDS = still(1_000_000)

CASES: dict[str, Case] = {
    "PumpStorageError": one(
        born(), still(3), 'binlog_pump_storage_error_count{instance="p1",type="IoFailed"}'
    ),
    "CheckpointDelay": Case({CHECKPOINT: still(-3_100_000)}, {CHECKPOINT: growing(15_000)}, LEADS),
    "PumpWriteSlow": Case(*RPC),
    "PumpDiskSlow": Case(*DISK),
    "PumpSpaceLow": one(
        still(19),
        still(21),
        'binlog_pump_storage_storage_size_bytes{instance="p1",type="available"}',
        **{'tidelog_pump_kept_free_bytes{instance="p1"}': still(10)},
    ),
    "ExecuteSlow": Case(*EXECUTE),
    "CheckpointStuck": Case(
        {CHECKPOINT: STANDS, PUBLISHED: MOVES},
        {CHECKPOINT: STANDS, PUBLISHED: STANDS},
        {**LEADS, APPLIED: STANDS},
        {CHECKPOINT: born(), PUBLISHED: MOVES},
    ),
    "ServiceDown": one(still(0), still(1), 'up{job="pump",instance="p1"}'),
    "ServiceGone": Case(
        {UP % "registry": "_x60"},
        {UP % "registry": still(1)},
        {UP % job: still(1) for job in ("pump", "drainer", "applier")},
    ),
    "ServiceNotReady": one(still(0), still(1), 'tidelog_ready{job="pump",instance="p1"}'),
    "RestartsLoop": one(
        growing(15, 1), still(1), 'process_start_time_seconds{job="pump",instance="p1"}'
    ),
    "NatsDown": one(still(0), still(1), 'tidelog_bus_connected{instance="p1"}'),
    "PumpUnreachable": one(still(0), still(1), REACHABLE % "pump"),
    "NodeUnreachable": one(still(0), still(1), REACHABLE % "applier"),
    "NoPumpTakesWrites": Case(
        {NODE % "paused": still(1)},
        {NODE % "online": still(1)},
        {REACHABLE % "pump": still(1), **SETTLED},
    ),
    "PumpRefusesWrites": one(still(1), still(0), 'tidelog_pump_disk_full{instance="p1"}'),
    "PumpStranded": one(still(2), still(0), 'tidelog_pump_stranded_records{instance="p1"}'),
    "ClockAhead": one(once(), still(2), 'tidelog_registry_far_positions_total{instance="r"}'),
    "FeedStopped": one(
        still(1), still(0), 'tidelog_drainer_feed_stopped{feed="main",instance="d"}'
    ),
    "MergeStopped": one(still(1), still(0), 'tidelog_drainer_merge_stopped{instance="d"}'),
    "FeedBehind": one(STANDS, MOVES, PUBLISHED, **{PUMP: MOVES}),
    "PumpHoldsMerge": Case(
        {OTHER_PUMP: STANDS},
        {OTHER_PUMP: MOVES},
        {PUMP: MOVES, 'tidelog_drainer_source_holds_merge{instance="d",pump="p2"}': still(1)},
    ),
    "OpenPrewriteOld": one(
        still(661), still(659), 'tidelog_pump_oldest_open_prewrite_seconds{instance="p1"}'
    ),
    "CommitsMissing": one(
        still(1), still(0), 'tidelog_pump_late_commits{instance="p1",what="missing"}'
    ),
    "CommitsUnverified": one(
        "1x80", still(0), 'tidelog_pump_late_commits{instance="p1",what="unverified"}'
    ),
    "UpstreamSkipped": one(
        once(), still(4), 'tidelog_drainer_skipped_upstream_total{feed="main",instance="d"}'
    ),
    "RetentionHeldBack": one(still(1), still(0), 'tidelog_pump_readers_behind{instance="p1"}'),
    "DataPurgedUnread": one(
        once(), still(4), 'tidelog_pump_hard_cap_lost_total{instance="p1",what="unread"}'
    ),
    "ApplierStopped": one(still(1), still(0), 'tidelog_applier_stopped{feed="main",instance="a"}'),
    "ApplierWaits": one(still(1), still(0), 'tidelog_applier_waiting{instance="a"}'),
    "ApplierBehind": one(STANDS, MOVES, APPLIED, **{PUBLISHED: MOVES}),
    "DownstreamDiffers": one(
        once(), still(4), 'tidelog_applier_unmatched_rows_total{instance="a"}'
    ),
    "BackfillFailed": one(
        once(), still(4), 'tidelog_backfill_jobs_ended_total{instance="b",state="failed"}'
    ),
    "LoopStalls": Case(*STALL),
    "BusDrops": one(
        once(), still(4), 'tidelog_bus_dropped_requests_total{instance="p1",subject="s"}'
    ),
}
"""By the alert's name, without `Tidelog`."""
