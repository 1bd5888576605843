"""What the registry counts. Names follow the original's where they mean the same."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

JOINS = Counter("tidelog_registry_joins", "Pump joins that ended, by outcome", ["outcome"])
STATE_CHANGES = Counter("tidelog_registry_state_changes", "State events published", ["state"])
MEMBERSHIP_LOST = Counter(
    "tidelog_registry_membership_lost", "Times the membership bucket was missing or rolled back"
)
STATUS_LOST = Counter(
    "tidelog_registry_status_lost", "Times the status bucket was found missing or changed"
)
REFUSED = Counter(
    "tidelog_registry_refused", "Requests refused, by subject and error", ["verb", "code"]
)
CONSUMERS_REFUSED = Counter(
    "tidelog_registry_consumers_refused", "Consumers beyond the limit, or with the Drainers' name"
)
FAR_POSITIONS = Counter(
    "tidelog_registry_far_positions",
    "Positions beyond the clock and its skew, kept from the oracle",
)
TIMESTAMPS = Counter("tidelog_registry_timestamps", "Timestamps given")
TSO_ASKS_EXPIRED = Counter("tidelog_registry_tso_expired", "Asks that found no allocator in time")
TSO_BOUND = Gauge("tidelog_registry_tso_bound", "The durable bound, as a timestamp")
DDL_JOBS = Counter("tidelog_registry_ddl_jobs", "DDL jobs kept", ["outcome"])
DDL_TORN_BYTES = Counter(
    "tidelog_registry_ddl_torn_bytes", "Unacknowledged bytes cut from the tail"
)
