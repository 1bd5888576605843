"""What downstreams count. The names say applier: it writes nearly all of them."""

from __future__ import annotations

from prometheus_client import Counter

DDL_REFUSED = Counter(
    "tidelog_applier_ddl_refused_total", "Statements of DDLs that the downstream refused", ["kind"]
)
UNMATCHED = Counter(
    "tidelog_applier_unmatched_rows_total",
    "Rows that were not downstream as they were upstream; the log names their tables",
)
DRY_STATEMENTS = Counter(
    "tidelog_applier_dry_statements_total", "Statements that a dry run (blackhole:) made"
)
DRY_BYTES = Counter("tidelog_applier_dry_bytes_total", "Bytes of these statements")
