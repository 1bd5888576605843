"""Pulls by NATS: frames within their bound, from anywhere, compressed if asked for."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.pump.rig import CLUSTER, NODE, Client, commit, prewrite, start, ts_now
from tidelog import subjects
from tidelog.compression import unpack
from tidelog.sim import World, run
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest
from tidelog_pump.log.place import Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.pull import frames
from tidelog_pump.pull.frames import FRAME_BYTES
from tidelog_pump.pull.puller import MAX_POLLS
from tidelog_pump.pull.scan import Checksum, CommitScan, Committed

ROW = b"id=%08d,name=customer,city=somewhere;"


async def written(world: World, client: Client) -> tuple[int, int]:
    """Transactions of many sizes, one far larger than a frame: (before all, the last commit_ts)."""
    base = ts_now(world)
    for number, rows in enumerate((1, 3, 20_000, 7, 400, 9000, 24_000, 2)):
        value = b"".join(ROW % row for row in range(rows))
        at = base + 10 * number
        await client.done(prewrite(at, value), commit(at, at + 5))
    return base - 1, base + 75


def test_every_way_of_compression_gives_the_same() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        before, last = await written(world, client)
        plain = await client.pull_up_to(last, before)
        assert len(plain) == 8
        for way in ("zstd", "gzip", "none", "unknown"):
            assert await client.pull_up_to(last, before, compression=way) == plain

    run(main, 3)


@pytest.mark.parametrize("way", ["", "zstd", "gzip"])
def test_no_frame_is_larger_than_asked_or_than_the_limit(way: str) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        before, last = await written(world, client)
        subject = subjects.pump(CLUSTER, NODE, "pull")
        sizes: dict[int, list[int]] = {}
        for most in (1, 1000, 64 << 10, FRAME_BYTES, 1 << 30):
            after, cut, sizes[most] = before, None, []
            for _ in range(400):
                asked = PullRequest(
                    after_ts=after, max_bytes=most, wait_ms=100, feed="f", compression=way
                )
                if cut is not None:
                    asked.commit_ts, asked.offset = cut.commit_ts, cut.offset + len(cut.payload)
                answer = await client.bus.request(subject, asked.SerializeToString(), timeout_s=5.0)
                sizes[most].append(len(answer.data))
                frame = unpack(answer.data)
                assert not frame.code
                cut = unfinished(frame)
                after = frame.resolved_ts
                if after >= last:
                    break
            assert max(sizes[most]) <= max(1000, min(most, FRAME_BYTES))
        assert sum(sizes[FRAME_BYTES]) < (3 << 20 if not way else 1 << 20)

    run(main, 4)


def unfinished(frame: PullFrame) -> PulledTxn | None:
    last = frame.txns[-1] if frame.txns else None
    done = last is None or last.offset + len(last.payload) == last.total
    return None if done else last


def test_from_any_timestamp_exactly_what_is_above_it() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        before, last = await written(world, client)
        commits = [before + 1 + 10 * number + 5 for number in range(8)]
        for after in range(before, last):
            for budget in (700, FRAME_BYTES):
                if budget == FRAME_BYTES or after >= commits[-2]:
                    found = await client.pull_up_to(last, after, max_bytes=budget)
                    assert [txn.commit_ts for txn in found] == [c for c in commits if c > after]
        beyond = await client.pull(last, wait_ms=0)
        assert (list(beyond.txns), beyond.code) == ([], "")

    run(main, 5)


def test_a_long_poll_is_answered_when_something_comes_and_when_time_is_up() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        clock = world.clock()
        client.timeout_s = 20.0
        began = clock.monotonic()
        idle = await client.pull(base, wait_ms=8000)
        assert 7.9 < clock.monotonic() - began < 8.5
        assert idle.resolved_ts <= base
        await client.done(prewrite(base + 1))
        waiting = asyncio.ensure_future(client.pull(base + 1, wait_ms=15_000))
        await asyncio.sleep(2)
        assert not waiting.done()
        at = clock.monotonic()
        await client.done(commit(base + 1, base + 2))
        frame = await waiting
        assert [txn.commit_ts for txn in frame.txns] == [base + 2]
        assert clock.monotonic() - at < 0.5

    run(main, 6)


def test_who_asks_again_while_a_large_one_is_checked_waits_for_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[int] = []
    checksum = CommitScan.checksum

    def counting(scan: CommitScan, committed: Committed, *rest: Any) -> Checksum:
        begun.append(committed.commit_ts)
        return checksum(scan, committed, *rest)

    monkeypatch.setattr(CommitScan, "checksum", counting)
    monkeypatch.setattr(frames, "CHECKSUM_STEP", 1000)

    async def main(world: World) -> None:
        _, client = await start(world)
        before, _ = await written(world, client)
        after = before + 1 + 55
        asked = [client.pull(after, feed=str(number)) for number in range(5)]
        first, *others = await asyncio.gather(*asked)
        assert first.txns[0].total > FRAME_BYTES
        assert all(list(other.txns) == list(first.txns) for other in others)
        assert begun == [first.txns[0].commit_ts]

    run(main, 7)


def test_a_damaged_large_one_stops_its_reader_and_is_never_sent() -> None:
    """A frame holds only a piece of it: without its whole record's checksum, those who read would
    get the damaged bytes with a checksum that fits them."""

    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        small, large = b"rows", b"".join(ROW % row for row in range(24_000))
        await client.done(prewrite(base, small), commit(base, base + 1))
        await client.done(prewrite(base + 2, large), commit(base + 2, base + 3))
        assert len(large) > FRAME_BYTES
        pump = world.node(NODE)
        await pump.stop()
        disk = pump.ports().disk
        files = [f"value/{name}" for name in disk.listdir("value") if name.endswith(".vlog")]
        file, data = max(((name, disk.read_file(name)) for name in files), key=lambda f: len(f[1]))
        at = data.index(large) + len(large) // 2
        await disk.write_file(file, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        pump.restart()
        await client.until_online()
        first = await client.pull(base - 1)
        assert [txn.commit_ts for txn in first.txns] == [base + 1]
        assert first.resolved_ts == base + 1, "it may not be passed"
        for _ in range(2):
            frame = await client.pull(base + 1)
            assert (frame.code, len(frame.txns)) == ("Corrupt", 0)
            assert str(base + 2) in frame.message

    run(main, 8)


@pytest.mark.parametrize("nth", [0, 1, 100, 256, 299])
def test_what_stands_before_a_damaged_one_can_be_read(nth: int) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        starts = [base + 2 * number for number in range(300)]
        for at in starts:
            await client.done(prewrite(at, b"row %06d;" % at), commit(at, at + 1))
        pump = world.node(NODE)
        await pump.stop()
        disk = pump.ports().disk
        (file,) = (f"value/{name}" for name in disk.listdir("value") if name.endswith(".vlog"))
        data = disk.read_file(file)
        at = data.index(b"row %06d;" % starts[nth])
        await disk.write_file(file, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        pump.restart()
        await client.until_online()
        found: list[int] = []
        after = base - 1
        while not (frame := await client.pull(after)).code:
            found += [txn.start_ts for txn in frame.txns]
            after = frame.resolved_ts
        assert (frame.code, found) == ("Corrupt", starts[:nth])

    run(main, 11)


def test_the_log_is_read_once_whatever_the_order_of_the_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a thousand transactions in flight any may be committed next."""
    read = 0
    window = Segments.window

    def counting(segments: Segments, pointer: Pointer, length: int) -> bytes:
        nonlocal read
        found = window(segments, pointer, length)
        read += len(found)
        return found

    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        starts = [base + number for number in range(1024)]
        await client.done(*(prewrite(at, 900 * b"v") for at in starts))
        mixed = [starts[389 * number % 1024] for number in range(1024)]
        commits = [base + 1024 + number for number in range(1024)]
        await client.done(*map(commit, mixed, commits))
        monkeypatch.setattr(Segments, "window", counting)
        found = await client.pull_up_to(commits[-1], base - 1)
        assert [txn.start_ts for txn in found] == mixed
        assert read < 8 * sum(txn.total for txn in found)

    run(main, 12)


def test_so_many_may_wait_and_whoever_comes_then_is_told() -> None:
    """Each poll that waits takes memory, and anybody may ask (I8)."""

    async def main(world: World) -> None:
        _, client = await start(world)
        client.timeout_s = 20.0
        base = ts_now(world) + (1 << 40)
        asked = [
            asyncio.ensure_future(client.pull(base, wait_ms=5000)) for _ in range(MAX_POLLS + 5)
        ]
        await asyncio.sleep(2)
        refused = [one.result() for one in asked if one.done()]
        assert [frame.code for frame in refused] == ["Overloaded"] * 5
        assert {frame.code for frame in await asyncio.gather(*asked)} == {"", "Overloaded"}
        assert not (await client.pull(base, wait_ms=100)).code, "there is room again"

    run(main, 9)


def test_nobody_waits_longer_than_a_minute() -> None:
    """Whoever asked may be gone; his place is one of so many."""

    async def main(world: World) -> None:
        _, client = await start(world)
        client.timeout_s = 90.0
        began = world.clock().monotonic()
        assert not (await client.pull(ts_now(world) + (1 << 40), wait_ms=600_000)).txns
        assert 59 < world.clock().monotonic() - began < 62

    run(main, 10)
