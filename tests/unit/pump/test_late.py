"""What comes too late is stored, counted, logged with its position, and never passes silently."""

from __future__ import annotations

import pytest
import structlog

from tests.unit.pump.rig import NODE, commit, prewrite, start, ts_now
from tidelog.sim import World, run
from tidelog_pump.late.verifier import SHOWN

Logs = list[structlog.typing.EventDict]


def lines(logs: Logs, text: str) -> list[tuple[int, int]]:
    return [(line["start_ts"], line["commit_ts"]) for line in logs if text in line["event"]]


@pytest.mark.parametrize("restart", [False, True])
def test_a_pair_below_what_a_reader_has_stops_that_reader_only(*, restart: bool) -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(commit(base, base + 5))
        await client.done(prewrite(base + 10), commit(base + 10, base + 20))
        passed = (await client.pull(0, feed="past")).resolved_ts
        await client.pull(0, feed="behind")
        assert passed >= base + 20
        with structlog.testing.capture_logs() as logs:
            await client.done(prewrite(base))
            await client.until_state(base, "committed")
        assert lines(logs, "after its Commit") == [(base, base + 5)]
        assert [line["offset"] > 0 for line in logs if "after its Commit" in line["event"]]
        for attempt in range(2):
            frame = await client.pull(passed, feed="past")
            assert (frame.code, str(base + 5) in frame.message) == ("LatePair", True)
            # One that reads it now has it, and goes on; so does one that begins above it.
            for feed in ("behind", "new"):
                found = await client.pull_up_to(passed, feed=feed)
                assert [txn.commit_ts for txn in found] == [base + 5, base + 20]
            assert not (await client.pull(passed, feed="above", wait_ms=0)).code
            assert (await client.pull(passed, feed="", wait_ms=0)).code == "LatePair"
            if restart and not attempt:
                await world.node(NODE).stop()
                world.node(NODE).restart()
                await client.until_online()
                for feed in ("behind", "new", "above"):
                    assert not (await client.pull(passed, feed=feed, wait_ms=0)).code
        # Filled again from below it, the reader that missed it has it too.
        assert len(await client.pull_up_to(passed, feed="past")) == 2
        assert not (await client.pull(passed, feed="past", wait_ms=0)).code

    run(main, 1)


def test_a_late_pair_larger_than_a_frame_is_given_with_its_last_piece() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(commit(base, base + 5))
        await client.pull(0)
        await client.done(prewrite(base, bytes(20_000)))
        await client.until_state(base, "committed")
        first = await client.pull(0, max_bytes=5000)
        assert first.txns[0].total > len(first.txns[0].payload)
        assert (await client.pull(base + 5, wait_ms=0)).code == "LatePair"
        assert len(await client.pull_up_to(base + 5, max_bytes=5000)) == 1
        assert not (await client.pull(base + 5, wait_ms=0)).code

    run(main, 2)


def test_late_copies_are_shown_as_unverified_and_stop_nobody() -> None:
    async def main(world: World) -> None:
        registry, client = await start(world)
        base = ts_now(world)
        count = SHOWN + 4
        await client.done(prewrite(base + 500), commit(base + 500, base + 1000))
        passed = (await client.pull(0)).resolved_ts
        with structlog.testing.capture_logs() as logs:
            for n in range(count):
                await client.done(prewrite(base + n), commit(base + n, base + 100 + n))
            await client.done(commit(base, base + 100))
            await client.until_state(base + count - 1, "committed")
            assert not (await client.pull(passed, wait_ms=0)).code
        expected = [(base + n, base + 100 + n) for n in range(count)]
        assert lines(logs, "unverified") == expected
        pump = world.node(NODE)
        status = pump.service.status()["verifier"]
        assert (status["unverified"], status["missing"]) == (count, 0)
        shown = status["oldest_unverified"]
        assert [(late["start_ts"], late["commit_ts"]) for late in shown] == expected[:SHOWN]
        where = await client.control("inspect", base)
        assert (shown[0]["segment"], shown[0]["offset"]) == (where["segment"], where["offset"])
        assert where["late"] == "unverified"
        await world.until(lambda: bool(registry.beats[-1].status.detail), 10)
        assert str(base + 100) in registry.beats[-1].status.detail["unverified"]

    run(main, 3)


def test_a_commit_without_its_prewrite_and_a_late_one_are_logged_where_they_lie() -> None:
    async def main(world: World) -> None:
        _, client = await start(world)
        base = ts_now(world)
        await client.done(prewrite(base + 5))
        with structlog.testing.capture_logs() as logs:
            await client.done(commit(base, base + 9))
            await client.until_state(base, "unpaired")
        (line,) = [line for line in logs if "without its Prewrite" in line["event"]]
        where = world.node(NODE).service.status()["indexer"]["unpaired_commits"][0]
        assert (line["start_ts"], line["commit_ts"]) == (base, base + 9)
        assert (line["file"], line["offset"]) == ("value/000000.vlog", where["at"])

    run(main, 4)
