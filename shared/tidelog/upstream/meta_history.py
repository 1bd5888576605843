"""The DDL history as TiDB itself keeps it: in TiKV, read at a timestamp (`ports.DdlHistory`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from tidelog.actor import off_loop
from tidelog.errors import UnparsablePayload
from tidelog.ports import Oracle
from tidelog.schema.model import DdlJob
from tidelog.upstream.meta_keys import history_range, job_id_of

PAGE = 128
"""Jobs a page: one carries its whole table, of a wide one some MiB."""

_JOB = msgspec.json.Decoder(DdlJob)

Pairs = Sequence[tuple[bytes, bytes]]


class MetaScan(Protocol):
    """Reads a range of TiKV's keys as they were at a timestamp."""

    async def scan(self, start: bytes, stop: bytes, *, at_ts: int, limit: int) -> Pairs:
        """The first of the pairs with start <= key < stop, up to `limit` of them, in the order of
        keys; none only where none is left. Raises Unavailable."""


class MetaHistory:
    """All pages of one call are of one moment, which the oracle gives when it begins."""

    def __init__(self, scan: MetaScan, oracle: Oracle, *, page: int = PAGE) -> None:
        self._scan = scan
        self._oracle = oracle
        self._page = page

    async def jobs(self, after_job_id: int) -> AsyncIterator[list[DdlJob]]:
        """Oldest first. Raises Unavailable."""
        at_ts = await self._oracle.fresh(0)
        start, stop = history_range(after_job_id)
        while pairs := await self._scan.scan(start, stop, at_ts=at_ts, limit=self._page):
            yield await off_loop(_decoded, pairs)
            start = pairs[-1][0] + b"\0"


def _decoded(pairs: Pairs) -> list[DdlJob]:
    return [_job(key, value) for key, value in pairs]


def _job(key: bytes, value: bytes) -> DdlJob:
    try:
        job_id, job = job_id_of(key), _JOB.decode(value)
    except (ValueError, RecursionError) as error:
        raise UnparsablePayload(f"TiKV's DDL history has at {key.hex()}: {error}") from error
    if job.id != job_id:
        raise UnparsablePayload(f"TiKV's DDL history has job {job.id} in the place of {job_id}")
    return job
