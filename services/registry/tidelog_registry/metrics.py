"""What the registry counts. Names follow the original's where they mean the same."""

from __future__ import annotations

from prometheus_client import Counter

from tidelog.metrics import position_ms, shown

JOINS = Counter("tidelog_registry_joins", "Pump joins that ended, by outcome", ["outcome"])
STATE_CHANGES = Counter("tidelog_registry_state_changes", "State events published", ["state"])
EVENTS_DROPPED = Counter(
    "tidelog_registry_events_dropped",
    "State events that nobody was sent: NATS took none, or too many waited",
)
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
    "tidelog_registry_consumers_refused",
    "Consumers and feeds beyond the limits, with the Drainers' name, or of what is no feed's name",
)
FAR_POSITIONS = Counter(
    "tidelog_registry_far_positions",
    "Positions beyond the clock and its skew, kept from the oracle",
)
TIMESTAMPS = Counter("tidelog_registry_timestamps", "Timestamps given")
TSO_ASKS_EXPIRED = Counter("tidelog_registry_tso_expired", "Asks that found no allocator in time")
DDL_JOBS = Counter("tidelog_registry_ddl_jobs", "DDL jobs kept", ["outcome"])
DDL_TORN_BYTES = Counter(
    "tidelog_registry_ddl_torn_bytes", "Unacknowledged bytes cut from the tail"
)
PD_CHANGES = Counter(
    "tidelog_registry_pd_changes",
    "What others changed in PD's entries of our nodes, by what was done about it",
    ["answer"],
)
NODES = shown(
    "tidelog_registry_node",
    "1, with each node's state",
    "directory",
    lambda said: {(*place.split("/", 1), state): 1 for place, state in said["nodes"].items()},
    "kind",
    "node",
    "state",
)
REACHABLE = shown(
    "tidelog_registry_node_reachable",
    "0 for a node that is not offline and that nobody has heard of for a lease",
    "directory",
    lambda said: {
        tuple(place.split("/", 1)): place not in said["unreachable"] for place in said["nodes"]
    },
    "kind",
    "node",
)
SETTLED = shown(
    "tidelog_registry_settled",
    "0 for a lease after its own state was lost: no Pump goes online meanwhile",
    "directory",
    lambda said: said["settled"],
)
READ = shown(
    "tidelog_registry_read_ms",
    "up to where each reader that the Pumps keep data for has read, in ms",
    "directory",
    lambda said: {who: position_ms(ts) for who, ts in said["read"].items()},
    "reader",
)
SAFE_POINT = shown(
    "tidelog_registry_safe_point_ms",
    "what every reader has read, in ms",
    "directory",
    lambda said: position_ms(said["safe_point"]),
)
TSO_BOUND = shown(
    "tidelog_registry_tso_bound_ms",
    "the durable bound of timestamps, in ms",
    "tso",
    lambda said: position_ms(said["bound_ts"]),
)
