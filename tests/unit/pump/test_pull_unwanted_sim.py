"""Pulls that name unwanted tables: what changes no others isn't sent; all else is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.pump.rig import Client, commit, prewrite, start, ts_now
from tidelog.sim import World, run
from tidelog_proto.binlog_pb2 import Binlog, Insert, PrewriteValue, TableMutation
from tidelog_proto.transport_pb2 import PullFrame
from tidelog_pump.pull import frames
from tidelog_pump.pull.scan import Checksum, CommitScan, Committed

LARGE = 40_000
"""Rows of a transaction that is larger than a frame."""


def rows(*tables: int, version: int = 10, count: int = 1) -> bytes:
    mutations = [
        TableMutation(table_id=one, inserted_rows=[b"row of some bytes"] * count, sequence=[Insert])
        for one in tables
    ]
    return PrewriteValue(schema_version=version, mutations=mutations).SerializeToString()


async def written(world: World, client: Client, *values: bytes) -> list[int]:
    """A transaction of each value; their commit_ts."""
    base = ts_now(world)
    for number, value in enumerate(values):
        at = base + 10 * number
        await client.done(prewrite(at, value), commit(at, at + 5))
    return [base + 10 * number + 5 for number in range(len(values))]


async def read(client: Client, last: int, tables: list[int], version: int) -> tuple[list[int], int]:
    """The commit_ts of what comes up to `last`, and how many transactions were left out."""
    after, got, left_out = 0, list[int](), 0
    async with asyncio.timeout(60):
        while after < last:
            frame = await client.pull(
                after, unwanted_table_ids=tables, unwanted_upto_version=version
            )
            assert not frame.code, frame.message
            left_out += frame.left_out
            while frame.txns and is_cut(frame):
                cut = frame.txns[-1]
                frame = await client.pull(
                    frame.resolved_ts,
                    commit_ts=cut.commit_ts,
                    offset=cut.offset + len(cut.payload),
                    unwanted_table_ids=tables,
                    unwanted_upto_version=version,
                )
            got += [txn.commit_ts for txn in frame.txns]
            after = frame.resolved_ts
    return got, left_out


def is_cut(frame: PullFrame) -> bool:
    last = frame.txns[-1]
    return last.offset + len(last.payload) < last.total


def test_only_what_changes_no_other_table_is_left_out() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        times = await written(
            world,
            client,
            rows(1),
            rows(2),
            rows(1, 2),
            rows(1, 3),
            rows(1, version=11),
            rows(1, count=LARGE),
            rows(2, count=LARGE),
            b"no mutations",
            rows(),
            rows(1),
        )
        last = times[-1]
        assert await read(client, last, [], 99) == (times, 0)
        kept = [at for number, at in enumerate(times) if number not in (0, 5, 9)]
        assert await read(client, last, [1, 3], 10) == (
            [at for at in kept if at != times[3]],
            4,
        )
        assert await read(client, last, [1], 10) == (kept, 3)
        assert await read(client, last, [1], 9) == (times, 0)
        everything = await read(client, last, [1, 2, 3], 11)
        assert everything == ([times[7], times[8]], 8)

    run(main, 11)


def test_a_ddl_is_always_sent() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        at = ts_now(world)
        ddl = Binlog(
            tp=0,  # type: ignore[arg-type]
            start_ts=at,
            prewrite_key=b"k",
            prewrite_value=rows(1),
            ddl_query=b"TRUNCATE TABLE t",
            ddl_job_id=7,
        )
        await client.done(ddl.SerializeToString(), commit(at, at + 5))
        assert await read(client, at + 5, [1], 99) == ([at + 5], 0)

    run(main, 12)


def test_a_frame_ends_where_much_was_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LEFT_OUT_TXNS", 3)

    async def main(world: World) -> None:
        _, client = await start(world)
        times = await written(world, client, *[rows(1)] * 10, rows(2))
        frame = await client.pull(0, unwanted_table_ids=[1], unwanted_upto_version=10)
        assert (frame.resolved_ts, frame.left_out, len(frame.txns)) == (times[2], 3, 0)
        assert await read(client, times[-1], [1], 10) == ([times[-1]], 10)

    run(main, 13)


def test_what_was_left_out_counts_as_given_should_it_have_come_late() -> None:
    """Its Commit came before its Prewrite, above nobody's position: a reader that does not want it
    must not be stopped for it afterwards."""

    async def main(world: World) -> None:
        _, client = await start(world)
        (first,) = await written(world, client, rows(2))
        assert await read(client, first, [1], 10) == ([first], 0)
        at = ts_now(world) + 100
        await client.done(commit(at, at + 5), prewrite(at, rows(1)))
        (last,) = await written(world, client, rows(2))
        got, left_out = await read(client, max(last, at + 5), [1], 10)
        assert left_out == 1
        assert at + 5 not in got
        frame = await client.pull(max(last, at + 5), wait_ms=0)
        assert not frame.code, frame.message

    run(main, 14)


@pytest.mark.parametrize("unwanted", [[], [1]])
def test_one_that_is_read_in_pieces_is_summed_once_whatever_others_read_meanwhile(
    monkeypatch: pytest.MonkeyPatch, unwanted: list[int]
) -> None:
    summed: list[int] = []
    checksum = CommitScan.checksum

    def counting(scan: CommitScan, committed: Committed, *rest: Any) -> Checksum:
        summed.append(committed.commit_ts)
        return checksum(scan, committed, *rest)

    monkeypatch.setattr(CommitScan, "checksum", counting)

    async def main(world: World) -> None:
        _, client = await start(world)
        large = [rows(1, count=300)] * (frames.REMEMBERED_CHECKSUMS + 4)
        giant, *times = await written(world, client, rows(2, count=2000), *large)
        piece, at = await client.pull(0, feed="slow", max_bytes=4096), giant
        while is_cut(piece):
            for _ in range(4):
                frame = await client.pull(
                    at, max_bytes=4096, unwanted_table_ids=unwanted, unwanted_upto_version=10
                )
                at = frame.txns[0].commit_ts if frame.txns else frame.resolved_ts
                at = giant if at == times[-1] else at
            cut = piece.txns[0]
            piece = await client.pull(
                0,
                feed="slow",
                max_bytes=4096,
                commit_ts=giant,
                offset=cut.offset + len(cut.payload),
            )
        assert set(summed) == {giant, *times}
        assert summed.count(giant) == 1

    run(main, 15)
