"""What the workload does."""

from __future__ import annotations

import msgspec

from tidelog.security.tls import TlsFiles


class WorkloadConfig(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Shares are of transactions, 0..1. `seed` 0 = draw from the node's Rng port."""

    cluster: str = "default"
    cluster_id: int = 0
    strategy: str = "range"
    tls: TlsFiles = TlsFiles()
    """Of the Pumps' gRPC, which large rows travel by."""
    seed: int = 0
    seconds: float = 20.0
    """How long transactions are started; 0 = until somebody ends it."""
    transactions: int = 0
    """Stop after so many; 0 = only `seconds` counts."""
    rate: float = 200.0
    """Transactions started per second; 0 = as fast as the clients can."""
    clients: int = 8
    databases: tuple[str, ...] = ("shop", "crm")
    tables: int = 8
    """About so many tables exist at a time; one of each kind of key at least."""
    max_changes: int = 6
    """Row changes a transaction."""
    rows_per_table: int = 300
    ddl_share: float = 0.02
    rollback_share: float = 0.05
    dead_share: float = 0.03
    """Clients that die between Prewrite and the end: a third each was committed, was rolled back,
    and is undecided until its locks expire."""
    lock_ttl_s: float = 3.0
    large_row_bytes: int = 0
    """Size of the text of a large row; 0 = none. Above the bus limit it travels by gRPC."""
    large_share: float = 0.005
