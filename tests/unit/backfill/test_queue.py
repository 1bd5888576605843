"""What counts as getting further, for a job that is tried again and again."""

from __future__ import annotations

import pytest

from tidelog.bulk.jobs import BackfillJob
from tidelog.bulk.told import Progress
from tidelog.errors import Corrupt, Unavailable
from tidelog_backfill.jobs.queue import Queue

JOB = BackfillJob(source="/dump", parquet="/lake")
LOST = Unavailable("lost")
S = 100


@pytest.mark.parametrize("data", [b"", b'[{"id":1}]', b'[{"id":"\xff"}]', b"[" * 100_000])
def test_a_list_of_jobs_that_is_none_says_what_becomes_of_them(data: bytes) -> None:
    with pytest.raises(Corrupt, match=r"jobs\.json, can't be read") as raised:
        Queue.decode(data)
    assert raised.value.hint.startswith("delete it: what jobs have written stays")
    assert "unregister FEED job-ID" in raised.value.hint
    queue = _queue()
    (kept,) = Queue.decode(queue.encode())
    assert kept == queue.find("c")
    assert kept.consumer == "job-c"


def _tried(queue: Queue, *told: Progress) -> bool:
    """Whether it is tried again after one more try that told that much."""
    job = queue.begin(0)
    assert job is not None
    for progress in told:
        queue.told(job, progress)
    return queue.end(job, LOST, 0)


def _queue() -> Queue:
    queue = Queue([], waiting=1, kept=1, tries=1)
    queue.submit("c", JOB, 0)
    return queue


def _copied(chunks: int) -> Progress:
    return Progress("copying", chunks, 9, "chunks", lasting=chunks, needs_after=S)


def test_a_copy_gets_further_by_each_chunk() -> None:
    queue = _queue()
    for chunks in range(1, 9):
        assert _tried(queue, _copied(chunks))
    job = queue.find("c")
    assert job.reached == S, "what was committed before is needed no more"
    assert _tried(queue, Progress("planning"), _copied(8)) is False
    assert job.state == "failed"


def test_a_replay_gets_further_by_its_checkpoints() -> None:
    queue = _queue()
    for commit_ts in range(1, 9):
        assert _tried(queue, Progress("replaying", commit_ts=commit_ts))
    assert _tried(queue, Progress("replaying", done=99, commit_ts=8)) is False
