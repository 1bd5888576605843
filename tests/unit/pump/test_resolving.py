"""Transactions that nobody closed: asked of the upstream, forced only after the timeout, closed
before resolved_ts passes them, whatever is killed meanwhile; and what an operator may say."""

from __future__ import annotations

import asyncio
import contextlib
import re
from typing import Any, cast

import msgspec
import pytest

from tests.unit.pump.rig import (
    CLUSTER,
    CONFIG,
    NODE,
    Client,
    Registry,
    commit,
    join,
    prewrite,
    rollback,
    start,
    ts_now,
)
from tidelog import failpoints
from tidelog.errors import BadInput, Conflict, IoFailed, Purged, Refused, TidelogError
from tidelog.messages import TxnStatusReply, TxnStatusRequest
from tidelog.ports import Verdict
from tidelog.sim import World, run
from tidelog.timestamps import TS_MAX
from tidelog_cli.resolve import choose, resolve
from tidelog_pump.log.place import Place, Pointer
from tidelog_pump.log.segments import Segments
from tidelog_pump.sort.resolver import key_of
from tidelog_pump.sort.txn_status import BusTxnStatus

STEPS = (
    "pump.segments.before_append",
    "pump.segments.after_sync",
    "pump.writer.before_ack",
    "pump.indexer.before_write",
)
PATIENT = msgspec.structs.replace(CONFIG, resolve_after_s=3600.0)


async def read_up_to(client: Client, commit_ts: int, found: list[tuple[int, int]]) -> None:
    """Over restarts; what comes lies above the position, in order."""
    position = 0
    while position < commit_ts:
        with contextlib.suppress(TidelogError):
            frame = await client.pull(position, wait_ms=100)
            assert not frame.code, frame.message
            came = [(txn.start_ts, txn.commit_ts) for txn in frame.txns]
            assert all(position < ts <= frame.resolved_ts for _, ts in came)
            found += came
            position = max(position, frame.resolved_ts)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("lost_power", [False, True])
@pytest.mark.parametrize("nth", range(1, 5))
@pytest.mark.parametrize("step", STEPS)
def test_a_verdict_is_readable_before_resolved_passes_it(
    step: str, nth: int, *, lost_power: bool
) -> None:
    """Killed at the `nth` passage of each step of appending the verdicts."""

    async def main(world: World) -> None:
        registry, client = await start(world)
        pump = world.node(NODE)
        base = ts_now(world)
        orphans = {base + n: base + 100 - n for n in range(6)}
        for start_ts in orphans:
            await client.done(prewrite(start_ts))
        died: list[str] = []

        def die() -> None:
            failpoints.disarm_all()
            died.append(step)
            if lost_power:
                pump.kill(restart_after_s=0.2)
            raise IoFailed("a failpoint")

        failpoints.arm(step, die, nth)
        for n, (start_ts, commit_ts) in enumerate(orphans.items()):
            # The verdicts come one by one, the last one's first.
            world.loop.call_later(
                1.0 * (len(orphans) - n),
                registry.verdicts.__setitem__,
                start_ts,
                TxnStatusReply("committed", commit_ts),
            )
        found: list[tuple[int, int]] = []
        async with asyncio.timeout(60):
            await read_up_to(client, base + 100, found)
        assert died
        assert found == sorted(orphans.items(), key=lambda pair: pair[1])
        assert not any(asked.force for asked in registry.asked)
        # The client's own Commit comes after ours.
        for start_ts, commit_ts in orphans.items():
            await client.done(commit(start_ts, commit_ts))
        different = await client.write(commit(base, base + 200))
        assert different[0].code == "InvariantBroken"
        assert (await client.pull(base + 100, wait_ms=0)).txns == []

    try:
        run(main, nth)
    finally:
        failpoints.disarm_all()


@pytest.mark.parametrize("seed", range(12))
def test_clients_and_resolver_close_the_same_transactions_in_any_order(seed: int) -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        rng, pump = world.random("test"), world.node(NODE)
        decided: dict[int, int] = {}

        async def certainly(binlog: bytes) -> None:
            while True:
                with contextlib.suppress(TidelogError):
                    if not (await client.write(binlog))[0].code:
                        return
                await asyncio.sleep(0.05)

        async def transaction() -> None:
            await asyncio.sleep(rng.random() * 4)
            start_ts = registry.allocate()
            await certainly(prewrite(start_ts))
            end = registry.allocate() if rng.random() < 0.8 else 0
            decided[start_ts] = end
            state = "committed" if end else "rolled_back"
            registry.verdicts[start_ts] = TxnStatusReply(state, end)
            for _ in range(rng.randrange(3)):
                await asyncio.sleep(rng.random() * 2)
                await certainly(commit(start_ts, end) if end else rollback(start_ts))

        async def kills() -> None:
            for _ in range(3):
                await asyncio.sleep(rng.random() * 2)
                pump.kill(restart_after_s=rng.random() * 0.3)

        killing = asyncio.create_task(kills())
        await asyncio.gather(*(transaction() for _ in range(24)))
        await killing
        await client.until_online()
        found: list[tuple[int, int]] = []
        async with asyncio.timeout(60):
            await read_up_to(client, max(decided.values()), found)
        whole = [(start_ts, end) for start_ts, end in decided.items() if end]
        assert found == sorted(whole, key=lambda pair: pair[1])
        status = pump.service.status()
        assert status["verifier"]["unverified"] == status["indexer"]["conflicts"] == 0

    run(main, seed)


@pytest.mark.parametrize("seed", range(6))
def test_a_verdict_is_never_forced_before_the_timeout(seed: int) -> None:
    """Whatever the wall clock does, and however often the Pump starts."""

    async def main(world: World) -> None:
        rng = world.random("test")
        timeout_s = rng.choice((20.0, 60.0))
        config = msgspec.structs.replace(CONFIG, txn_timeout_s=timeout_s)
        registry, client = await start(world, config)
        pump = world.node(NODE)
        written: dict[int, float] = {}
        early: list[TxnStatusRequest] = []

        async def watch() -> None:
            seen = 0
            while True:
                new, seen = registry.asked[seen:], len(registry.asked)
                now = world.loop.time()
                early.extend(a for a in new if a.force and now - written[a.start_ts] < timeout_s)
                await asyncio.sleep(0.2)

        watching = asyncio.create_task(watch())
        for _ in range(6):
            start_ts = ts_now(world, len(written))
            written[start_ts] = world.loop.time()
            await client.done(prewrite(start_ts))
            await asyncio.sleep(rng.random() * timeout_s / 3)
            pump.clock.skew_ms += rng.choice((0, 0, -30_000, 30_000))
            if rng.random() < 0.2:
                pump.kill(restart_after_s=0.1)
                await client.until_online()
        assert registry.asked
        await world.until(
            lambda: {a.start_ts for a in registry.asked if a.force} == {*written},
            timeout_s + 60,
            "a forced question for each",
        )
        watching.cancel()
        assert not early

    run(main, seed)


def test_its_age_survives_a_restart_and_the_forcing_begins_anew() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world, msgspec.structs.replace(CONFIG, txn_timeout_s=60.0))
        await client.done(prewrite(ts_now(world)))
        await asyncio.sleep(600)
        assert registry.asked[-1].force
        node = world.node(NODE)
        await node.stop()
        node.restart()
        await client.until_online()
        asked = len(registry.asked)
        await asyncio.sleep(30)
        told = registry.beats[-1].status.detail["oldest_open"]
        age, watched = (int(n) for n in re.findall(r"(\d+) s\b", told))
        assert age >= 630
        assert 20 < watched <= 31
        oldest = node.service.status()["sorter"]["oldest_open"]
        assert (oldest["age_s"] >= 630, oldest["watched_s"] < 40) == (True, True)
        assert len(registry.asked) > asked
        assert not any(question.force for question in registry.asked[asked:])

    run(main, 1)


def test_the_oldest_open_prewrite_is_shown_with_its_key_and_the_last_answer() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base, key=b"k1"), prewrite(base + 1, key=b"k2"))
        await asyncio.sleep(30)
        told = registry.beats[-1].status.detail["oldest_open"]
        for part in (str(base), b"k1".hex(), "undecided", f"tidelog resolve {base}"):
            assert part in told
        registry.verdicts[base] = TxnStatusReply("committed", base - 1)
        await asyncio.sleep(20)
        assert "not above start_ts" in registry.beats[-1].status.detail["oldest_open"]
        await client.done(rollback(base), rollback(base + 1))
        await world.until(lambda: not registry.beats[-1].status.detail, 10)

    run(main, 1)


async def too_late(self: BusTxnStatus, start_ts: int, key: bytes, *, force: bool) -> Verdict:
    return Verdict("committed", TS_MAX + 1)


async def breaks(self: BusTxnStatus, start_ts: int, key: bytes, *, force: bool) -> Verdict:
    raise ValueError("planted")


@pytest.mark.parametrize(
    ("answers", "shown"),
    [
        (BusTxnStatus.verdict, "UnparsablePayload: a TxnStatusReply that can't be read"),
        (too_late, f"committed at {TS_MAX + 1}, which is no timestamp"),
        (breaks, "ValueError('planted')"),
    ],
)
def test_an_answer_that_is_none_is_shown_and_ends_no_pump(
    monkeypatch: pytest.MonkeyPatch, answers: Any, shown: str
) -> None:
    monkeypatch.setattr(BusTxnStatus, "verdict", answers)

    async def main(world: World) -> None:
        registry, client = await start(world)
        base = ts_now(world)
        registry.verdicts[base] = TxnStatusReply("committed", TS_MAX + 1)
        await client.done(prewrite(base))

        def is_shown() -> bool:
            return shown in registry.beats[-1].status.detail.get("oldest_open", "")

        await world.until(is_shown, 60)
        await client.done(prewrite(ts_now(world)))
        assert (world.node(NODE).starts, world.node(NODE).failures) == (1, [])

    run(main, 1)


async def operated(world: World) -> tuple[Registry, Client, int]:
    """A Pump that asks nobody, with an open Prewrite."""
    registry, client = await start(world, PATIENT)
    registry.pumps = [NODE]
    base = ts_now(world)
    await client.done(prewrite(base, b"rows"))
    await client.until_state(base, "open")
    return registry, client, base


def test_an_operator_says_what_became_of_a_transaction() -> None:
    async def main(world: World) -> None:
        _, client, base = await operated(world)
        await client.done(prewrite(base + 1))
        await client.until_state(base + 1, "open")
        asked: list[str] = []
        done = await resolve(client.bus, CLUSTER, base, "commit", base + 9, asked.append)
        said = done.pumps[NODE]
        assert (said.state, said.commit_ts, said.late) == ("committed", base + 9, "")
        assert str(base + 9) in asked[0]
        gone = await resolve(client.bus, CLUSTER, base + 1, "rollback", 0, asked.append)
        assert gone.pumps[NODE].state == "rolled_back"
        (txn,) = await client.pull_up_to(base + 9)
        assert (txn.start_ts, txn.commit_ts) == (base, base + 9)
        for verdict, ts in (("commit", base + 9), ("commit", base + 10), ("rollback", 0)):
            with pytest.raises(Refused, match="committed at"):
                await resolve(client.bus, CLUSTER, base, verdict, ts, asked.append)
        with pytest.raises(BadInput, match="no Pump that answers"):
            await resolve(client.bus, CLUSTER, base + 77, "rollback", 0, asked.append)
        # It is as good as a client's: equal is a duplicate, anything else an error.
        await client.done(commit(base, base + 9), rollback(base + 1))
        assert (await client.write(commit(base + 1, base + 20)))[0].code == "InvariantBroken"

    run(main, 2)


def test_a_verdict_that_would_break_an_invariant_is_refused() -> None:
    async def main(world: World) -> None:
        _, client, base = await operated(world)

        async def refused(error: type[TidelogError], commit_ts: int, start_ts: int = base) -> None:
            with pytest.raises(error):
                await resolve(client.bus, CLUSTER, start_ts, "commit", commit_ts, print)
            assert (await client.control("inspect", start_ts))["state"] == "open"

        await refused(BadInput, base)
        await refused(BadInput, base - 5)
        await client.done(prewrite(base + 2), commit(base + 2, base + 50))
        await client.done(prewrite(base + 3))
        await client.until_state(base + 3, "open")
        # Allocated before that Prewrite came: readers may be past it once the first is closed.
        await refused(Refused, base + 40, base + 3)
        await refused(Conflict, base + 50)
        await refused(Refused, base + (120_000 << 18))
        with pytest.raises(Refused, match="not agree"):
            await resolve(client.bus, CLUSTER, base, "rollback", 0, _disagree)
        assert (await client.control("inspect", base))["state"] == "open"
        for given in (
            {"commit": None},
            {"commit": 5, "rollback": True},
            {"commit": 0, "accept": 1},
        ):
            with pytest.raises(BadInput):
                choose(given.pop("commit"), **{"rollback": False, "accept": False} | given)

    run(main, 3)


def _disagree(question: str) -> None:
    raise Refused(f"I do not agree: {question}")


def test_under_embedded_a_commit_ts_that_was_never_allocated_is_refused() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(PATIENT, oracle="embedded")
        registry, client = await start(world, config)
        registry.pumps = [NODE]
        start_ts = registry.allocate()
        await client.done(prewrite(start_ts))
        await client.until_state(start_ts, "open")
        commit_ts = registry.allocate()
        with pytest.raises(Refused, match="not been allocated"):
            await resolve(
                client.bus, CLUSTER, start_ts, "commit", commit_ts + (60_000 << 18), print
            )
        await resolve(client.bus, CLUSTER, start_ts, "commit", commit_ts, print)
        (txn,) = await client.pull_up_to(commit_ts)
        assert txn.commit_ts == commit_ts

    run(main, 4)


def test_each_pump_that_holds_it_open_gets_the_verdict() -> None:
    async def main(world: World) -> None:
        registry, client, base = await operated(world)
        others = [
            await join(world, msgspec.structs.replace(PATIENT, node_id=f"pump-{n}")) for n in (2, 3)
        ]
        registry.pumps = [NODE, "pump-2", "pump-3"]
        await others[0].done(prewrite(base))
        await others[0].until_state(base, "open")
        world.node("pump-3").kill()
        done = await resolve(client.bus, CLUSTER, base, "commit", base + 7, print)
        assert sorted(done.pumps) == [NODE, "pump-2"]
        with pytest.raises(BadInput) as caught:
            await resolve(client.bus, CLUSTER, base + 1, "rollback", 0, print)
        assert "pump-3" in caught.value.hint

    run(main, 5)


def test_a_prewrite_that_gc_has_just_taken_is_asked_about_without_its_key() -> None:
    class Gone:
        def read(self, pointer: Pointer, begin: int, size: int) -> bytes:
            raise Purged(f"{pointer} is no longer stored")

    assert key_of(cast(Segments, Gone()), Place(3, 100, 50, 9)) == b""
