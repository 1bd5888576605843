"""Counted by the Drainer and by the Applier, which share what the original's Drainer did."""

from __future__ import annotations

from tidelog.metrics import Count

EVENTS = Count(
    "binlog_drainer_event",
    "Published rows (Insert, Update, Delete) and DDLs by the Drainer, saved checkpoints (savepoint)"
    " by the Applier",
    ["type"],
)
STOPS = Count("binlog_drainer_error_count", "Typed stops of the feed, by class", ["type"])
