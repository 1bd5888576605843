"""The whole Pump on virtual time: write, pull, restart, crash, refuse, resolve."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import pytest
from crc32c import crc32c

from tests.unit.pump.rig import (
    CONFIG,
    NODE,
    Client,
    commit,
    prewrite,
    rollback,
    start,
    ts_now,
)
from tidelog import failpoints
from tidelog.errors import DeadlineExceeded, ForeignCluster, ForeignDirectory, TidelogError
from tidelog.messages import PAUSED, TxnStatusReply
from tidelog.sim import World, run
from tidelog_proto.binlog_pb2 import Binlog
from tidelog_proto.transport_pb2 import WriteResult
from tidelog_pump.config import StorageConfig
from tidelog_pump.log.space import POLL_S
from tidelog_pump.service import build


def test_a_committed_transaction_comes_back_as_a_commit_with_the_prewrites_rows() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base, b"the rows"))
        frame = await client.pull(0, wait_ms=0)
        assert (frame.resolved_ts, len(frame.txns)) == (base, 0)
        await client.done(commit(base, base + 5))
        (txn,) = await client.pull_up_to(base + 5)
        binlog = Binlog.FromString(txn.payload)
        assert (binlog.tp, binlog.start_ts, binlog.commit_ts) == (1, base, base + 5)
        assert binlog.prewrite_value == b"the rows"
        assert txn.crc == crc32c(txn.payload)
        assert txn.total == len(txn.payload)

    run(main, 1)


def test_resolved_waits_for_an_open_prewrite_and_a_waiting_poll_wakes_with_it() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), prewrite(base + 1), commit(base + 1, base + 10))
        held = await client.pull(0)
        assert (held.resolved_ts, len(held.txns)) == (base, 0)
        waiting = asyncio.create_task(client.pull(base, wait_ms=4000))
        began = world.loop.time()
        await asyncio.sleep(0.5)
        await client.done(commit(base, base + 8))
        frame = await waiting
        assert world.loop.time() - began < 1.0
        assert [t.commit_ts for t in frame.txns] == [base + 8, base + 10]
        assert frame.resolved_ts == base + 10

    run(main, 2)


def test_a_nudge_moves_an_idle_pump_and_a_far_timestamp_does_not() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 1))
        assert (await client.pull(0, max_bytes=0, want_ts=base + 50)).resolved_ts == base + 50
        far = base + (120_000 << 18)
        assert (await client.pull(0, max_bytes=0, want_ts=far)).resolved_ts == base + 50

    run(main, 3)


def test_under_embedded_only_the_oracle_moves_w() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, oracle="embedded", gen_binlog_interval=3600.0)
        registry, client = await start(world, config)
        start_ts = registry.allocate()
        await client.done(prewrite(start_ts))
        commit_ts = registry.allocate()
        registry.oracle_answers = False
        await client.done(commit(start_ts, commit_ts))
        assert (await client.pull(start_ts, wait_ms=500)).resolved_ts < commit_ts
        registry.oracle_answers = True
        (txn,) = await client.pull_up_to(commit_ts)
        assert txn.commit_ts == commit_ts
        claimed = commit_ts + (3_600_000 << 18)
        await client.pull(0, max_bytes=0, want_ts=claimed)
        await asyncio.sleep(10)
        assert (await client.pull(0, max_bytes=0)).resolved_ts < claimed

    run(main, 4)


def test_an_idle_pump_under_embedded_writes_fakes_that_no_reader_gets() -> None:
    async def main(world: World) -> None:
        _, client = await start(world, msgspec.structs.replace(CONFIG, oracle="embedded"))
        before = (await client.control("status"))["high_ts"]
        await asyncio.sleep(10)
        pump = world.node(NODE)
        await pump.stop()
        pump.restart()
        await client.until_online()
        frame = await client.pull(0)
        assert frame.resolved_ts > before
        assert not frame.txns

    run(main, 5)


def test_a_fake_moves_resolved_of_an_idle_pump_but_not_past_an_open_prewrite() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, oracle="embedded", resolve_after_s=3600.0)
        registry, client = await start(world, config)
        for _ in range(3):
            before = (await client.pull(0, wait_ms=0)).resolved_ts
            # No want_ts: as an original Drainer waits.
            idle = await client.pull(before, wait_ms=4900)
            assert before < idle.resolved_ts <= registry.allocate()
        start_ts = registry.allocate()
        await client.done(prewrite(start_ts))
        await asyncio.sleep(20)
        held = await client.pull(0, wait_ms=0)
        assert held.high_ts > start_ts + (10_000 << 18)
        assert held.resolved_ts <= start_ts
        commit_ts = registry.allocate()
        await client.done(commit(start_ts, commit_ts))
        await asyncio.sleep(10)
        frame = await client.pull(0, wait_ms=0)
        assert [txn.commit_ts for txn in frame.txns] == [commit_ts]
        assert frame.resolved_ts > commit_ts

    run(main, 6)


def test_what_a_crashed_writer_left_in_the_log_is_indexed_nevertheless() -> None:
    """Synced, but neither acked nor told to the indexer: the Prewrite must not be lost to a Commit
    that the next writer takes, nor the Commit to the next start's head."""

    def crash() -> None:
        failpoints.disarm_all()
        raise TidelogError("a crash that is not fatal")

    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        for number in range(2):
            one = base + 100 * number
            payloads = [prewrite(one), commit(one, one + 1)]
            if number == 0:
                await client.done(payloads.pop(0))
            failpoints.arm("pump.writer.before_ack", crash)
            assert (await client.write(*payloads))[0].code == "ActorStopped"
            await client.until_online()
            await client.done(prewrite(one + 2), commit(one + 2, one + 3))
            found = await client.pull_up_to(one + 3, one)
            assert [txn.commit_ts for txn in found] == [one + 1, one + 3]
        assert world.node(NODE).service.status()["indexer"]["unpaired_commits"] == []

    run(main, 8)


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("broken", [False, True])
def test_what_was_acked_survives_power_losses(seed: int, *, broken: bool) -> None:
    """Every acked Commit of an acked Prewrite is pulled once and in order, whatever was torn."""

    async def main(world: World) -> None:
        _, client = await start(world)
        rng = world.random("test")
        pump = world.node(NODE)
        acked: dict[int, int] = {}
        started: dict[int, bytes] = {}
        for _ in range(6):
            for _ in range(rng.randrange(1, 30)):
                start_ts = ts_now(world, rng.randrange(1000)) + len(started)
                if start_ts in started:
                    continue
                value = rng.randbytes(rng.choice((10, 200, 5000)))
                started[start_ts] = value
                await client.done(prewrite(start_ts, value))
                # As an oracle: above everything that was allocated before.
                commit_ts = max([ts_now(world), *started, *acked.values()]) + 1
                started[commit_ts] = b""
                await client.done(commit(start_ts, commit_ts))
                acked[start_ts] = commit_ts
                await asyncio.sleep(rng.random() * 0.01)
            pump.kill(restart_after_s=0.2)
            for stored in pump.indexes.values():
                stored.broken = broken
            await asyncio.sleep(0.1)
            await client.until_online()
        found = await client.pull_up_to(max(acked.values()))
        assert [(t.start_ts, t.commit_ts) for t in found] == sorted(
            acked.items(), key=lambda pair: pair[1]
        )
        for txn in found:
            assert Binlog.FromString(txn.payload).prewrite_value == started[txn.start_ts]
        assert not pump.failures

    run(main, seed)


def test_an_open_prewrite_still_holds_resolved_after_a_restart() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), prewrite(base + 1), commit(base + 1, base + 7))
        await client.pull(0)
        world.node(NODE).kill()
        world.node(NODE).restart()
        await client.until_online()
        assert (await client.pull(0, wait_ms=0)).resolved_ts == base
        await client.done(commit(base, base + 9))
        assert [t.commit_ts for t in await client.pull_up_to(base + 9)] == [base + 7, base + 9]

    run(main, 7)


def test_what_is_refused_says_why() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = ts_now(world)

        async def code(payload: bytes, cluster_id: int = CONFIG.cluster_id) -> str:
            return (await client.write(payload, cluster_id=cluster_id))[0].code

        assert await code(prewrite(base), cluster_id=8) == "ForeignCluster"
        assert await code(b"\xff\xff") == "UnparsablePayload"
        assert await code(Binlog(tp=3, start_ts=base).SerializeToString()) == "UnparsablePayload"  # type: ignore[arg-type]
        assert await code(commit(base, base)) == "UnparsablePayload"
        fake = Binlog(tp=2, start_ts=base, commit_ts=base)  # type: ignore[arg-type]
        assert await code(fake.SerializeToString()) == "UnparsablePayload"
        await client.done(prewrite(base))
        registry.state = PAUSED
        await asyncio.sleep(3)
        assert await code(prewrite(base + 1)) == "NotOnline"
        assert await code(b"") == "NotOnline"
        await client.done(commit(base, base + 2))

    run(main, 8)


def test_a_full_disk_refuses_prewrites_only() -> None:
    async def main(world: World) -> None:
        storage = StorageConfig(stop_write_at_available_space="1 GiB")
        config = msgspec.structs.replace(CONFIG, storage=storage)
        _, client = await start(world, config)
        base = ts_now(world)
        await client.done(prewrite(base))
        pump = world.node(NODE)
        roomy, pump.disk.faults.capacity = pump.disk.faults.capacity, pump.disk.used() + (1 << 29)
        await asyncio.sleep(POLL_S + 1)
        for payload in (prewrite(base + 1), b""):
            refused = (await client.write(payload))[0]
            assert (refused.code, refused.definite) == ("DiskFull", True)
        await client.done(commit(base, base + 2))
        await client.done(rollback(base + 1))
        (txn,) = await client.pull_up_to(base + 2)
        assert txn.commit_ts == base + 2
        shown = pump.service.status()["writer"]
        assert shown["disk_full"]
        assert shown["free"] < shown["kept_free"] == 1 << 30
        pump.disk.faults.capacity = roomy
        await asyncio.sleep(POLL_S + 1)
        await client.done(prewrite(base + 3))
        assert not pump.service.status()["writer"]["disk_full"]

    run(main, 9)


def test_a_failed_sync_acks_nobody_and_the_next_life_serves() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base))
        pump = world.node(NODE)
        pump.disk.fail_nth(1)
        told: list[WriteResult] = []
        with contextlib.suppress(DeadlineExceeded):
            told = await client.write(commit(base, base + 1))
        assert all(result.code and not result.definite for result in told)
        await client.until_online()
        assert [type(error).__name__ for error in pump.failures] == ["IoFailed"]
        await client.done(commit(base, base + 1))
        assert [t.commit_ts for t in await client.pull_up_to(base + 1)] == [base + 1]

    for seed in range(10, 16):
        run(main, seed)


def test_a_commit_without_its_prewrite_is_shown_and_paired_when_the_prewrite_comes() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(commit(base, base + 4))
        await client.pull(0)
        pump = world.node(NODE)
        shown = pump.service.status()["indexer"]["unpaired_commits"]
        assert [(u["start_ts"], u["commit_ts"]) for u in shown] == [(base, base + 4)]
        assert (await client.control("inspect", base))["state"] == "unpaired"
        await client.done(prewrite(base, b"late"))
        await asyncio.sleep(0.1)
        assert not pump.service.status()["indexer"]["unpaired_commits"]
        (txn,) = await client.pull_up_to(base + 4)
        assert Binlog.FromString(txn.payload).prewrite_value == b"late"

    run(main, 11)


def test_a_second_commit_is_a_duplicate_or_an_error() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 4))
        for _ in range(2):
            await client.done(commit(base, base + 4))
            assert (await client.write(commit(base, base + 5)))[0].code == "InvariantBroken"
            await client.done(prewrite(base))
            world.node(NODE).kill()
            world.node(NODE).restart()
            await client.until_online()
        assert [t.commit_ts for t in await client.pull_up_to(base + 4)] == [base + 4]
        assert (await client.pull(0, wait_ms=0)).resolved_ts == base + 4

    run(main, 12)


def test_a_prewrite_after_its_rollback_is_stored_and_not_opened() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(rollback(base), prewrite(base))
        frame = await client.pull(0, max_bytes=0, want_ts=base + 9)
        assert frame.resolved_ts == base + 9

    run(main, 13)


def test_orphans_are_resolved_by_the_upstreams_word() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = ts_now(world)
        await client.done(*(prewrite(base + i, key=b"k%d" % i) for i in range(3)))
        registry.verdicts[base] = TxnStatusReply("committed", base + 10)
        registry.verdicts[base + 1] = TxnStatusReply("rolled_back")
        await client.until_state(base + 1, "rolled_back")
        assert {(a.start_ts, a.prewrite_key) for a in registry.asked} == {
            (base + i, b"k%d" % i) for i in range(3)
        }
        assert not any(a.force for a in registry.asked)
        assert (await client.pull(0, wait_ms=0)).resolved_ts == base + 2
        await asyncio.sleep(0.5)
        shown = world.node(NODE).service.status()["resolver"]["oldest"]
        assert [(s["start_ts"], s["answer"]) for s in shown] == [(base + 2, "undecided")]
        registry.verdicts[base + 2] = TxnStatusReply("committed", base + 9)
        txns = await client.pull_up_to(base + 10)
        assert [t.commit_ts for t in txns] == [base + 9, base + 10]

    run(main, 14)


def test_an_old_orphan_may_be_forced() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, txn_timeout_s=30.0)
        registry, client = await start(world, config)
        await client.done(prewrite(ts_now(world)))
        await asyncio.sleep(20)
        assert registry.asked
        assert not any(a.force for a in registry.asked)
        await asyncio.sleep(40)
        assert registry.asked[-1].force

    run(main, 15)


def test_a_transaction_larger_than_a_frame_comes_in_pieces() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, segment_bytes=8 << 20)
        _, client = await start(world, config)
        base = ts_now(world)
        value = world.random("value").randbytes(700_000)
        await client.done(prewrite(base))
        await client.done(prewrite(base + 1, value))
        await client.done(prewrite(base + 2))
        await client.done(*(commit(base + i, base + 10 + i) for i in range(3)))
        found = await client.pull_up_to(base + 12)
        assert [t.commit_ts for t in found] == [base + 10, base + 11, base + 12]
        assert Binlog.FromString(found[1].payload).prewrite_value == value
        assert all(crc32c(t.payload) == t.crc for t in found)
        tiny = await client.pull_up_to(base + 12, max_bytes=50_000)
        assert [t.payload for t in tiny] == [t.payload for t in found]

    run(main, 16)


def test_each_feeds_position_is_kept_and_announced() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base), commit(base, base + 1))
        await client.pull(base - 1, feed="one")
        await client.pull(base, feed="two")
        await asyncio.sleep(3)
        world.node(NODE).kill()
        world.node(NODE).restart()
        await asyncio.sleep(4)
        assert registry.beats[-1].feeds == {"one": base - 1, "two": base}
        status = registry.beats[-1].status
        assert (status.maxCommitTS, status.resolvedTS, status.epoch) == (base + 1, base + 1, 2)

    run(main, 17)


def test_before_an_oracle_answers_it_announces_what_its_log_holds() -> None:
    """Else it is taken for a new one, which a failed join tombstones (seed 289's loss)."""

    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, oracle="embedded", segment_bytes=200)
        registry, client = await start(world, config)
        first, second = registry.allocate(), registry.allocate()

        def told() -> tuple[int, int, int]:
            status = registry.beats[-1].status
            return status.highTS, status.maxCommitTS, status.logTS

        await client.done(prewrite(first))
        registry.oracle_answers = False
        for shown in ((0, 0, first), (0, second, second)):
            world.node(NODE).kill()
            world.node(NODE).restart()
            await asyncio.sleep(4)
            assert told() == shown
            await client.done(commit(first, second))
        third = registry.allocate()
        await client.done(prewrite(third, b"x" * 200))
        await asyncio.sleep(3)
        assert told() == (0, second, third)

    run(main, 18)


@pytest.mark.parametrize(
    ("change", "error"),
    [({"node_id": "pump-2"}, ForeignDirectory), ({"cluster_id": 8}, ForeignCluster)],
)
def test_a_directory_of_another_node_or_cluster_is_not_touched(
    change: dict[str, object], error: type[Exception]
) -> None:
    async def main(world: World) -> None:
        _, _ = await start(world)
        pump = world.node(NODE)
        await pump.stop()
        pump.start(build, msgspec.structs.replace(CONFIG, **change))
        await world.until(lambda: bool(pump.failures), 5)
        assert isinstance(pump.failures[0], error)

    run(main, 18)


def test_the_same_seed_gives_the_same_history() -> None:
    async def main(world: World) -> str:
        _, client = await start(world)
        for _ in range(5):
            base = ts_now(world)
            await client.done(prewrite(base), commit(base, base + 1))
            await asyncio.sleep(0.01)
        world.node(NODE).kill(restart_after_s=0.3)
        await asyncio.sleep(1)
        return world.trace.digest

    assert run(main, 19) == run(main, 19)


def test_two_clients_share_one_sync() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        other = Client(world.ports("other").bus)
        base = ts_now(world)
        await asyncio.gather(*(c.done(prewrite(base + i)) for i, c in enumerate((client, other))))
        assert (await client.pull(0)).resolved_ts >= base

    run(main, 20)
