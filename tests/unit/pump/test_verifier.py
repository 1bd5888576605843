"""Who has a late copy (I2): one `have` settles it, `pending` is asked again, all `no` stops the
readers that missed it, anything else stays unverified; and all of it outlives a restart."""

from __future__ import annotations

from pathlib import Path

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
    ts_now,
)
from tests.unit.pump.rig import start as start_one
from tidelog import failpoints, subjects
from tidelog.errors import BadInput, Refused
from tidelog.messages import TxnStatusReply, decode_reply, encode
from tidelog.pump_control import ControlRequest, WhoHas
from tidelog.sim import World, run
from tidelog_cli.resolve import ask, resolve
from tidelog_pump.late.reader import MISSING, PENDING, SETTLED, UNVERIFIED, judge

OTHER = "pump-2"


async def start(world: World) -> tuple[Registry, Client, Client]:
    """A registry that knows of both, the Pump with the late copies, the other one."""
    registry, late = await start_one(world)
    other = await join(world, msgspec.structs.replace(CONFIG, node_id=OTHER))
    registry.pumps = [NODE, OTHER]
    return registry, late, other


def verdicts(world: World) -> tuple[int, int]:
    """How many the Pump shows as unverified, and as missing."""
    status = world.node(NODE).service.status()["verifier"]
    return status["unverified"], status["missing"]


async def until(world: World, unverified: int, missing: int) -> None:
    await world.until(lambda: verdicts(world) == (unverified, missing), 60, "the verdict")


async def passed(client: Client, base: int) -> int:
    """A reader of feed `past` and of `behind`; the first is beyond base + 100 afterwards."""
    await client.done(prewrite(base + 50), commit(base + 50, base + 100))
    await client.pull(0, feed="behind")
    frame = await client.pull(0, feed="past")
    assert frame.resolved_ts >= base + 100
    return frame.resolved_ts


@pytest.mark.parametrize(
    ("answers", "verdict"),
    [
        ({"a": "have"}, SETTLED),
        ({"a": "no", "b": "have", "c": "unreachable"}, SETTLED),
        ({"a": "no", "b": "pending", "c": "purged"}, PENDING),
        ({"a": "no", "b": "no"}, MISSING),
        ({}, MISSING),
        ({"a": "no", "b": "unreachable"}, UNVERIFIED),
        ({"a": "purged"}, UNVERIFIED),
        ({"a": "a word of a later version"}, UNVERIFIED),
    ],
)
def test_the_verdict_of_what_the_others_say(answers: dict[str, str], verdict: str) -> None:
    assert judge(answers) == verdict


@pytest.mark.parametrize("commits_later", [False, True])
def test_a_second_copy_is_settled_by_the_pump_that_has_it(*, commits_later: bool) -> None:
    async def main(world: World) -> None:
        _, late, other = await start(world)
        base = ts_now(world)
        await other.done(prewrite(base))
        if not commits_later:
            await other.done(commit(base, base + 60))
            await other.until_state(base, "committed")
        position = await passed(late, base)
        # The client's retry, on the way for so long that its transaction is over.
        await late.done(prewrite(base), commit(base, base + 60))
        await late.until_state(base, "committed")
        if commits_later:
            question = world.node(NODE).service.status
            await world.until(
                lambda: any(
                    "pending" in s["answer"] for s in question()["verifier"]["oldest_unverified"]
                ),
                10,
            )
            await other.done(commit(base, base + 60))
        await until(world, 0, 0)
        assert (await late.control("inspect", base))["late"] == ""
        assert not (await late.pull(position, feed="past", wait_ms=0)).code

    run(main, 1)


@pytest.mark.parametrize("broken", [False, True])
def test_what_nobody_has_stops_the_readers_that_missed_it_until_it_is_accepted(
    *, broken: bool
) -> None:
    async def main(world: World) -> None:
        registry, late, _ = await start(world)
        pump = world.node(NODE)

        async def again() -> None:
            """Killed and started; without its index, that is built anew from the log."""
            pump.kill()
            for stored in pump.indexes.values():
                stored.broken = broken
            pump.restart()
            await late.until_online()

        base = ts_now(world)
        position = await passed(late, base)
        await late.done(prewrite(base), commit(base, base + 60))
        await until(world, 0, 1)
        await world.until(lambda: "missing" in registry.beats[-1].status.detail, 10)
        for _ in range(2):
            frame = await late.pull(position, feed="past", wait_ms=0)
            where = await late.control("inspect", base)
            assert (frame.code, where["late"]) == ("LatePair", "missing")
            for told in (base, base + 60, f"segment {where['segment']} at {where['offset']}"):
                assert str(told) in frame.message
            assert f"tidelog resolve {base} --accept" in frame.message
            # Who was not past it is given it, and goes on.
            found = await late.pull_up_to(position, feed="behind")
            assert [txn.commit_ts for txn in found] == [base + 60, base + 100]
            assert not (await late.pull(position, feed="behind", wait_ms=0)).code
            await again()
            await until(world, 0, 1)

        with pytest.raises(BadInput):
            await resolve(late.bus, CLUSTER, base + 1, "accept", 0, print)
        done = await resolve(late.bus, CLUSTER, base, "accept", 0, print)
        assert {node: said.late for node, said in done.pumps.items()} == {NODE: ""}
        for _ in range(2):
            assert not (await late.pull(position, feed="past", wait_ms=0)).code
            assert verdicts(world) == (0, 0)
            await again()
        with pytest.raises(Refused):
            await resolve(late.bus, CLUSTER, base, "accept", 0, print)

    run(main, 2)


def test_a_pump_that_does_not_answer_leaves_it_unverified_and_stops_nobody() -> None:
    async def main(world: World) -> None:
        registry, late, other = await start(world)
        base = ts_now(world)
        await other.done(prewrite(base), commit(base, base + 60))
        await other.until_state(base, "committed")
        world.node(OTHER).kill()
        position = await passed(late, base)
        await late.done(prewrite(base), commit(base, base + 60))
        await world.sleep(30)
        assert verdicts(world) == (1, 0)
        told = registry.beats[-1].status.detail["unverified"]
        assert str(base + 60) in told
        assert f"{OTHER}: unreachable" in told
        assert not (await late.pull(position, feed="past", wait_ms=0)).code
        world.node(NODE).kill()
        world.node(NODE).restart()
        await late.until_online()
        assert verdicts(world) == (1, 0)
        world.node(OTHER).restart()
        await until(world, 0, 0)

    run(main, 3)


def test_two_late_copies_do_not_vouch_for_each_other() -> None:
    async def main(world: World) -> None:
        _, late, other = await start(world)
        base = ts_now(world)
        position = await passed(late, base)
        await passed(other, base)
        for client in (late, other):
            await client.done(prewrite(base), commit(base, base + 60))
        await until(world, 0, 1)
        assert (await late.pull(position, feed="past", wait_ms=0)).code == "LatePair"

    run(main, 4)


def test_a_late_pair_is_dissolved_by_the_pump_that_has_it() -> None:
    async def main(world: World) -> None:
        _, late, other = await start(world)
        base = ts_now(world)
        await late.done(commit(base, base + 60))
        position = await passed(late, base)
        await late.done(prewrite(base))
        await late.until_state(base, "committed")
        assert (await late.pull(position, feed="past", wait_ms=0)).code == "LatePair"
        await until(world, 0, 1)
        await world.sleep(5)
        assert (await late.pull(position, feed="past", wait_ms=0)).code == "LatePair"
        # Another one, which the other Pump has whole.
        await other.done(prewrite(base + 5), commit(base + 5, base + 65))
        await late.done(commit(base + 5, base + 65))
        await late.done(prewrite(base + 5))
        await world.until(lambda: verdicts(world) == (0, 1), 30)
        assert (await late.control("inspect", base + 5))["late"] == ""

    run(main, 5)


def test_a_late_commit_by_our_own_resolver_is_verified_too() -> None:
    async def main(world: World) -> None:
        registry, late, other = await start(world)
        base = ts_now(world)
        await other.done(prewrite(base), commit(base, base + 60))
        position = await passed(late, base)
        registry.verdicts[base] = TxnStatusReply("committed", base + 60)
        await late.done(prewrite(base))
        await late.until_state(base, "committed")
        await until(world, 0, 0)
        assert not (await late.pull(position, feed="past", wait_ms=0)).code

    run(main, 6)


def test_a_pump_whose_index_is_behind_says_pending_not_no(tmp_path: Path) -> None:
    async def main(world: World) -> None:
        _, client = await start_one(world)
        base = ts_now(world)

        async def who_has(commit_ts: int) -> str:
            body = encode(ControlRequest("who-has", base, commit_ts))
            answer = await client.bus.request(
                subjects.pump(CLUSTER, NODE, "control"), body, timeout_s=5
            )
            return decode_reply(answer.data, WhoHas).answer

        assert await who_has(base + 9) == "no"
        stall = tmp_path / "stall"
        stall.touch()
        failpoints.arm_stall("pump.indexer.before_write", stall)
        await client.done(prewrite(base))
        assert await who_has(base + 9) == "pending"
        verdict = ControlRequest("resolve", base, base + 9)
        with pytest.raises(Refused, match="behind"):
            await ask(client.bus, CLUSTER, NODE, verdict)
        await client.done(commit(base, base + 9))
        assert await who_has(base + 9) == "pending"
        stall.unlink()
        await client.until_state(base, "committed")
        assert (await who_has(base + 9), await who_has(base + 8)) == ("have", "no")

    try:
        run(main, 7)
    finally:
        failpoints.disarm_all()
