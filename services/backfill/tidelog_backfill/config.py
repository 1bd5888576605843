"""The backfill service's configuration."""

from __future__ import annotations

from typing import Annotated

from tidelog.config import Secret, ServiceConfig
from tidelog.ranges import Range

NODE = "backfill"


class BackfillConfig(ServiceConfig, frozen=True, kw_only=True, rename="kebab"):
    """One node does one job at a time. A job's own settings come with it (docs/replay.md)."""

    master: str = ""
    """Where every job runs, over what it says itself: `local[*]`, `local[2]`, a cluster's URL."""
    memory: str = ""
    """Of Spark's JVM, over what a job says."""
    downstream_password: Secret = Secret()
    """Of the account that jobs write by, if their URL names no `password_file=`."""
    source_password: Secret = Secret()
    """Of the account that backfills read by, the same."""
    queue: Annotated[int, Range(1, 1000, "jobs")] = 8
    """So many may wait; more are refused."""
    kept: Annotated[int, Range(1, 1000, "jobs")] = 32
    """So many that have ended are remembered, with their logs."""
    tries: Annotated[int, Range(1, 100, "tries")] = 5
    """Of a job whose process dies, or whose databases or servers can't be reached, without getting
    any further."""

    @property
    def node(self) -> str:
        return self.node_id or NODE
