"""The DDL history in TiKV's meta data: what a real TiDB left there is what its status API tells."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fixtures import capture
from tidelog.errors import UnparsablePayload
from tidelog.schema.model import DdlJob
from tidelog.schema.tracker import SchemaTracker
from tidelog.upstream.memcomparable import decode_bytes, encode_bytes
from tidelog.upstream.meta_history import MetaHistory, Pairs
from tidelog.upstream.meta_keys import history_key, history_range, job_id_of


class Stored:
    """Pairs as they were at any moment."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = sorted(pairs)
        self.asked: list[int] = []

    async def scan(self, start: bytes, stop: bytes, *, at_ts: int, limit: int) -> Pairs:
        self.asked.append(at_ts)
        keys = [key for key, _ in self._pairs]
        return self._pairs[bisect_left(keys, start) : bisect_left(keys, stop)][:limit]


class Counting:
    def __init__(self) -> None:
        self.last = 0

    async def fresh(self, at_least: int) -> int:
        self.last = max(self.last, at_least) + 1
        return self.last


def read(stored: Stored, after_job_id: int = 0, page: int = 7) -> list[list[DdlJob]]:
    async def pages() -> list[list[DdlJob]]:
        return [
            jobs async for jobs in MetaHistory(stored, Counting(), page=page).jobs(after_job_id)
        ]

    return asyncio.run(pages())


@pytest.mark.parametrize("which", capture.SETS)
def test_the_schema_is_the_same_from_tikv_and_from_the_status_api(which: capture.Set) -> None:
    told, stored = SchemaTracker(), SchemaTracker()
    told.add_jobs(capture.ddl_history(which))
    for jobs in read(Stored(capture.meta_kv(which))):
        stored.add_jobs(jobs)
    assert stored.steps() == told.steps()
    assert len(stored.steps()) > 20
    assert (stored.seen_version, stored.last_job) == (told.seen_version, told.last_job)


def test_jobs_come_in_pages_in_order_all_of_one_moment() -> None:
    jobs = capture.ddl_history("set-a")
    stored = Stored(capture.meta_kv("set-a"))
    pages = read(stored, page=50)
    assert [job for page in pages for job in page] == jobs
    assert [len(page) for page in pages] == [50, 50, 50, len(jobs) - 150]
    assert set(stored.asked) == {1}


@pytest.mark.parametrize("page", [1, 43, 86, 500])
def test_only_later_jobs_are_asked_for(page: int) -> None:
    jobs = capture.ddl_history("set-a")
    for after in (jobs[0].id - 1, jobs[85].id, jobs[-1].id):
        found = [
            job for jobs in read(Stored(capture.meta_kv("set-a")), after, page) for job in jobs
        ]
        assert found == [job for job in jobs if job.id > after]


def test_what_is_no_job_is_named() -> None:
    with pytest.raises(UnparsablePayload, match="job 5 in the place of 4"):
        read(Stored([(history_key(4), b'{"id":5,"type":1}')]))
    with pytest.raises(UnparsablePayload, match=history_key(4).hex()):
        read(Stored([(history_key(4), b"{")]))


@given(st.lists(st.binary(max_size=20)))
def test_encoded_bytes_keep_their_order_and_come_back(parts: list[bytes]) -> None:
    encoded = sorted(encode_bytes(part) for part in parts)
    assert encoded == [encode_bytes(part) for part in sorted(parts)]
    assert [decode_bytes(b"x" + one + b"y", 1) for one in encoded] == [
        (part, 1 + len(encode_bytes(part))) for part in sorted(parts)
    ]


def test_no_encoded_bytes_are_the_beginning_of_others() -> None:
    texts = [b"", b"\0", b"1234567", b"12345678", b"12345678\0", b"123456789", b"\xff" * 8]
    encoded = sorted(map(encode_bytes, texts))
    assert not any(b.startswith(a) for a, b in pairwise(encoded))


@pytest.mark.parametrize("bad", ["", "00" * 8, "00" * 8 + "f6", "01" * 8 + "f7", "01" * 8 + "ff"])
def test_bytes_that_nobody_encoded_are_refused(bad: str) -> None:
    with pytest.raises(ValueError, match="a key"):
        decode_bytes(bytes.fromhex(bad))


def test_the_history_of_a_real_tidb_lies_where_it_is_looked_for() -> None:
    start, stop = history_range(0)
    inside = [key for key, _ in capture.meta_kv("set-a") if start <= key < stop]
    assert [job_id_of(key) for key in inside] == [job.id for job in capture.ddl_history("set-a")]
    for key in (b"m", inside[0][:-1], inside[0] + b"\0"):
        with pytest.raises(ValueError, match=r"key|field|history"):
            job_id_of(key)
