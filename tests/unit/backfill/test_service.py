"""Jobs over NATS: kept before they are answered, one at a time, over crashes of the service."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from tests.unit.backfill.service_rig import CONFIG, END_TS, JOB, Client, started
from tests.unit.registry.nodes import CLUSTER, nodes
from tidelog import subjects
from tidelog.bulk.control import JobStatus
from tidelog.bulk.jobs import SparkSettings
from tidelog.bulk.process import JobProcessEnded
from tidelog.errors import (
    BadInput,
    Conflict,
    DeadlineExceeded,
    MessageTooLarge,
    NotFound,
    Overloaded,
    Stopped,
    Unavailable,
)
from tidelog.messages import Consumer
from tidelog.ports import Headers, Request
from tidelog.sim.bus import SimBus
from tidelog.sim.world import World, run
from tidelog_backfill import metrics
from tidelog_backfill.jobs.keeper import JOBS_FILE
from tidelog_backfill.jobs.queue import Kept
from tidelog_cli import bulk
from tidelog_registry.config import RegistryConfig
from tidelog_registry.service import build as build_registry


def test_a_job_is_done_and_told_of() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        heard: list[JobStatus] = []

        async def hear(request: Request) -> None:
            heard.append(msgspec.json.decode(request.data, type=JobStatus))

        await world.ports().bus.serve(subjects.backfill(CLUSTER, "backfill", "event.*"), hear)
        assert (await client.submit("a")).kind == "replay"
        done = await client.until(world, "a", "done")
        assert done.report is not None
        assert done.report.commit_ts == END_TS
        assert 0 < done.submitted <= done.started < done.ended
        states = [status.state for status in heard]
        assert states[0] in ("queued", "running")
        assert states.count("running") >= 9
        assert states[-1] == "done"
        placed = clockwork.jobs[0]
        assert (placed.cluster, placed.nats_url) == (CLUSTER, "nats://here")

    run(main, 1)


def test_one_runs_and_the_others_wait_their_turn() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        await client.submit("a")
        await world.sleep(1)
        for job_id in ("b", "c"):
            assert (await client.submit(job_id)).state == "queued"
        with pytest.raises(Overloaded, match="2 jobs are waiting"):
            await client.submit("d")
        assert (await client.submit("b")).id == "b"
        with pytest.raises(Conflict):
            await client.submit("b", msgspec.structs.replace(JOB, part_rows=1))
        await client.until(world, "c", "done")
        assert clockwork.began == ["a", "b", "c"]
        assert [job.id for job in await client.all()] == ["a", "b", "c"]

    run(main, 2)


def test_a_job_that_is_cancelled_ends_before_the_next_begins() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        await client.submit("a")
        await client.submit("b")
        await world.sleep(2)
        assert clockwork.running == ["a"]
        assert (await client.cancel("a")).state == "cancelled"
        assert (await client.cancel("a")).state == "cancelled"
        await client.until(world, "b", "done")
        assert (await client.one("a")).state == "cancelled"
        with pytest.raises(Conflict, match="is done already"):
            await client.cancel("b")
        await client.submit("c")
        await client.submit("d")
        assert (await client.cancel("d")).state == "cancelled"
        await client.until(world, "c", "done")
        assert "d" not in clockwork.began
        with pytest.raises(NotFound):
            await client.cancel("e")

    run(main, 3)


def test_who_asks_for_a_job_that_is_not_known_is_told_so() -> None:
    async def main(world: World) -> None:
        client, _ = await started(world)
        await client.submit("a")
        with pytest.raises(NotFound, match="no job 'b' is known here"):
            await client.one("b")
        assert (await client.one("a")).id == "a"

    run(main, 3)


@pytest.mark.parametrize("seed", range(6))
def test_what_was_answered_outlives_every_crash(seed: int) -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        await client.submit("a")
        await client.submit("b")
        rng = world.random("chaos")
        for _ in range(4):
            await world.sleep(6 * rng.random())
            world.node("backfill").kill()
            clockwork.running.clear()
            world.node("backfill").restart()
            await world.sleep(1)
        await client.until(world, "b", "done")
        assert [job.state for job in await client.all()] == ["done", "done"]

    run(main, seed)


def test_an_orderly_stop_ends_the_job_which_goes_on_after() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        await client.submit("a")
        await world.sleep(3)
        await world.node("backfill").stop()
        assert clockwork.running == []
        world.node("backfill").restart()
        await world.sleep(1)
        await client.until(world, "a", "done")
        assert clockwork.began == ["a", "a"]

    run(main, 4)


def test_what_may_pass_is_tried_again_and_what_may_not_is_not() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        clockwork.fails = [JobProcessEnded("killed")] * 2
        await client.submit("a")
        assert (await client.until(world, "a", "done")).tries == 3
        clockwork.fails = [Stopped("a foreign checkpoint", hint="use another table")]
        await client.submit("b")
        failed = await client.until(world, "b", "failed")
        assert failed.failed is not None
        assert (failed.failed.code, failed.failed.hint) == ("Stopped", "use another table")

    run(main, 5)


def test_a_job_that_gets_no_further_is_given_up() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        clockwork.fails = [JobProcessEnded("killed") for _ in range(9)]
        await client.submit("a")
        failed = await client.until(world, "a", "failed")
        assert failed.error == "killed"
        assert len(clockwork.began) == CONFIG.tries + 1

    run(main, 6)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"downstream": "mysql://a:pw@db/"}, "downstream holds a password"),
        ({"downstream": "", "parquet": "s3://KEY:pw@bucket/x"}, "parquet holds a password"),
        ({"ddl_history": "http://a:pw@tidb:10080"}, "ddl-history holds a password"),
        ({"spark": SparkSettings(settings={"spark.hadoop.fs.s3a.secret.key": "pw"})}, "secret.key"),
    ],
)
def test_passwords_are_neither_kept_nor_shown(change: dict[str, Any], told: str) -> None:
    async def main(world: World) -> None:
        client, _ = await started(world)
        with pytest.raises(BadInput, match=told) as refused:
            await client.submit("a", msgspec.structs.replace(JOB, **change))
        assert "pw" not in str(refused.value)
        assert await client.all() == []

    run(main, 7)


def test_of_the_submitters_nats_url_nothing_is_kept() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        status = await client.submit("a", msgspec.structs.replace(JOB, nats_url="nats://a:pw@h"))
        assert status.job["nats-url"] == ""
        await client.until(world, "a", "running")
        assert clockwork.jobs[0].nats_url == CONFIG.nats_url

    run(main, 7)


def test_many_large_jobs_are_told_of_in_pages_and_none_is_too_large() -> None:
    async def main(world: World) -> None:
        config = msgspec.structs.replace(CONFIG, queue=20)
        client, _ = await started(world, config)
        large = msgspec.structs.replace(JOB, tables=("x" * 60_000,))
        for number in range(20):
            await client.submit(f"j{number}", large)
        found = await bulk.Service(world.ports().bus, CLUSTER).jobs()
        assert [one.id for one in found] == [f"j{number}" for number in range(20)]
        with pytest.raises(BadInput, match="65536 are the most"):
            await client.submit("k", msgspec.structs.replace(JOB, tables=("x" * 66_000,)))

    run(main, 7)


def test_what_a_job_ended_by_fits_into_a_message() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        clockwork.fails = [Stopped("begin" + "x" * 2_000_000 + "end")]
        clockwork.warnings = ["w" * 500] * 4000
        await client.submit("a")
        failed = await client.until(world, "a", "failed")
        assert failed.error.startswith("begin")
        assert failed.error.endswith("end")
        await client.submit("b")
        done = await client.until(world, "b", "done")
        assert done.report is not None
        assert done.report.warnings[-1].startswith("and 3900 more")

    run(main, 7)


async def consumers(world: World) -> list[Consumer]:
    found = await nodes(world.ports().bus)
    return [one for one in found.consumers if one.name.startswith("job-")]


async def done(world: World, client: Client, job_id: str) -> None:
    await client.until(world, job_id, "done")
    await world.sleep(5)


def test_the_pumps_keep_what_a_job_still_needs() -> None:
    async def main(world: World) -> None:
        config = RegistryConfig(cluster=CLUSTER, oracle="embedded")
        world.node("registry").start(build_registry, config)
        await world.sleep(8)
        client, clockwork = await started(world)
        clockwork.step_s = 2.0
        await client.submit("a")
        await world.sleep(9)
        (held,) = await consumers(world)
        assert (held.name, held.feed) == ("job-a", "main")
        assert 100 <= held.commit_ts <= 104
        await done(world, client, "a")
        assert await consumers(world) == []
        for job_id in ("b", "c", "d"):
            await client.submit(job_id)
            await done(world, client, job_id)
        assert clockwork.forgotten == ["a", "b"]

    run(main, 8)


def test_a_job_that_can_not_be_held_hides_no_other() -> None:
    """As an earlier release has taken one."""

    async def main(world: World) -> None:
        config = RegistryConfig(cluster=CLUSTER, oracle="embedded")
        world.node("registry").start(build_registry, config)
        await world.sleep(8)
        of_no_feed = msgspec.structs.replace(JOB, feed="Main.v2")
        kept = [Kept("a", of_no_feed, tries=1), Kept("b", JOB, tries=1)]
        world.node("backfill").disk.restore({JOBS_FILE: msgspec.json.encode(kept)})
        client, clockwork = await started(world)
        clockwork.step_s = 2.0
        await world.sleep(9)
        assert [one.name for one in await consumers(world)] == ["job-b"]
        await done(world, client, "a")
        await done(world, client, "b")
        assert await consumers(world) == []
        with pytest.raises(BadInput, match=r"feed 'Main\.v2': 1 to 63 of a-z") as refused:
            await client.submit("c", of_no_feed)
        assert "tidelog feed list" in refused.value.hint

    run(main, 8)


def test_what_nobody_foresaw_ends_its_job_only() -> None:
    async def main(world: World) -> None:
        client, clockwork = await started(world)
        clockwork.fails = [TypeError("not foreseen")]
        await client.submit("a")
        await client.submit("b")
        await client.until(world, "b", "done")
        failed = await client.one("a")
        assert (failed.state, failed.tries) == ("failed", 1)
        assert "TypeError: not foreseen" in str(failed.failed)

    run(main, 1)


def test_a_word_that_comes_twice_of_a_job_that_is_forgotten_ends_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the keeper waits to be rid of an event of `c`, it is told twice that `a` is released,
    and in between that `b` has ended, which lets it forget `a`."""

    async def publish(_: SimBus, subject: str, data: bytes, headers: Headers | None = None) -> None:
        await asyncio.sleep(6)

    async def main(world: World) -> None:
        config = RegistryConfig(cluster=CLUSTER, oracle="embedded")
        world.node("registry").start(build_registry, config)
        await world.sleep(8)
        client, clockwork = await started(world, msgspec.structs.replace(CONFIG, kept=1))
        await client.submit("a")
        await client.submit("b")
        await client.until(world, "a", "running")
        clockwork.step_s = 0.3
        await client.cancel("a")
        await client.until(world, "b", "running")
        with monkeypatch.context() as patch:
            patch.setattr(SimBus, "publish", publish)
            await client.submit("c")
            await world.sleep(1)
        await world.sleep(6)
        await client.until(world, "c", "done")
        assert clockwork.began == ["a", "b", "c"]
        assert clockwork.forgotten[0] == "a"
        assert world.node("backfill").service.restarts_total == 0

    run(main, 9)


@pytest.mark.parametrize("kind", [DeadlineExceeded, MessageTooLarge, Unavailable])
def test_an_event_that_can_not_be_sent_ends_no_job(
    kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def publish(_: SimBus, subject: str, data: bytes, headers: Headers | None = None) -> None:
        raise kind("not sent")

    async def main(world: World) -> None:
        client, clockwork = await started(world)
        before = metrics.EVENTS_DROPPED._value.get()
        with monkeypatch.context() as patch, capture_logs() as logs:
            patch.setattr(SimBus, "publish", publish)
            await client.submit("a")
            await client.until(world, "a", "done")
        told = metrics.EVENTS_DROPPED._value.get() - before
        assert told >= 10, "at each step, and at the end"
        assert [line["event"] for line in logs].count("events of jobs are dropped") == 1
        assert clockwork.began == ["a"]
        assert world.node("backfill").service.restarts_total == 0

    run(main, 10)
