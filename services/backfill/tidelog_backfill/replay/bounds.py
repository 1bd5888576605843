"""From where to where a replay goes, by what the downstream and the job say. Pure."""

from __future__ import annotations

from tidelog.bulk.jobs import ReplayJob
from tidelog.config import redacted_url
from tidelog.errors import BadInput
from tidelog_backfill.replay.position import Position


def held(position: Position, job: ReplayJob) -> int | None:
    """Up to where the downstream holds everything; None: nothing says it."""
    if position.saved is not None:
        return position.commit_ts
    return job.start_ts or None


def check_until(position: Position, job: ReplayJob) -> None:
    """Raises BadInput where the downstream is past what the job asks for, or may be: a replay to
    a later time, or an Applier, may have ended in the midst of writing."""
    until, reached = job.until_ts, held(position, job) or 0
    hint = "a replay doesn't go back: begin with a copy of the downstream from before"
    where = redacted_url(job.downstream or job.parquet)
    if until and until < reached:
        raise BadInput(f"{where} holds everything up to {reached}: that is past {until}", hint=hint)
    if until and until < position.doubtful:
        raise BadInput(
            f"{where} may hold changes up to {position.doubtful}, of a replay or an Applier that"
            f" ended in the midst of them: that is past {until}",
            hint=hint,
        )
