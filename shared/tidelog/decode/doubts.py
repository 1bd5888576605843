"""Whether readers know a DDL, where the stream that would tell was lost or begins behind it.

A job's FinishedTS is never below its binlog's commit_ts (fixtures README), and may be some hundred
milliseconds above it. A feed that goes on from a position between the two sees the job as one that
is still to finish: a row of its version would bring it early, though readers know it. What lies
ahead, up to FinishedTS, tells: its binlog comes there, or readers have it.
"""

from __future__ import annotations

from tidelog.timestamps import LOGICAL_BITS

DOUBT_MS = 60_000
"""Of jobs that finished so soon behind the position; TiDB took up to 350 ms from a DDL's binlog to
its FinishedTS."""


class InDoubt(Exception):
    """Look for the binlog of `job_id` among what comes up to commit_ts `upto`, tell `Doubts`, and
    decode again. Internal to the publisher and `Decoding`."""

    def __init__(self, job_id: int, upto: int) -> None:
        super().__init__(job_id, upto)
        self.job_id = job_id
        self.upto = upto


class Doubts:
    """Pure. Holds at most one answer for each job that was in doubt."""

    def __init__(self) -> None:
        self._until = 0
        self._known: dict[int, bool] = {}

    def begin(self, position: int, *, told: bool) -> None:
        """`told`: the stream says which DDLs it has passed, or nothing lies below its position."""
        self._until = 0 if told else position + (DOUBT_MS << LOGICAL_BITS)

    def readers_know(self, job_id: int, commit_ts: int, finished_ts: int) -> bool:
        """Of a DDL that a transaction needs, and whose binlog was not met. Raises InDoubt."""
        if finished_ts >= self._until:
            return False
        if commit_ts >= finished_ts:
            return True
        if job_id not in self._known:
            raise InDoubt(job_id, finished_ts)
        return self._known[job_id]

    def settle(self, job_id: int, *, comes: bool) -> None:
        """Its binlog is still to come, or readers know it."""
        self._known[job_id] = not comes
