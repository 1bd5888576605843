"""Counters of the client: how much, how often again, what was given up."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

WRITES = Counter("tidelog_pump_client_writes", "Binlogs acked by a Pump", ["node"])
BATCHES = Counter("tidelog_pump_client_batches", "Messages that carried them", ["node"])
REFUSED = Counter("tidelog_pump_client_refused", "Binlogs a Pump refused", ["node", "code"])
LOST_ANSWERS = Counter("tidelog_pump_client_lost_answers", "Batches without an answer", ["node"])
RETRIES = Counter("tidelog_pump_client_retries", "Prewrites tried on another Pump")
GIVEN_UP = Counter(
    "tidelog_pump_client_given_up",
    "Commits and Rollbacks no Pump acked in time; the Pump asks txnstatus instead",
)
FORGOTTEN = Counter(
    "tidelog_pump_client_forgotten", "Open transactions dropped because too many were open"
)
SKIPPING = Gauge("tidelog_pump_client_skipping", "1 while `ignore_error` writes no binlogs")
SKIPPED = Counter(
    "tidelog_pump_client_skipped", "Transactions committed without binlogs under `ignore_error`"
)
