"""What the page's actor gathers from the bus and the directory, and whom it tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import msgspec
import pytest

from tests.unit.registry.test_console_shown import cluster
from tidelog.actor import Actor, Ref
from tidelog.bulk.control import JobStatus
from tidelog.changes import DdlMessage, MarkedTxn, Marker, Watermark
from tidelog.config import ServiceConfig
from tidelog.drainer_control import NOTED_KEY, Ddl, NotedDdls
from tidelog.errors import Forbidden
from tidelog.kv import Bucket
from tidelog.ports import Bus, Outgoing, Ports, StreamConfig
from tidelog.sim import World, run
from tidelog.sim.bus import SimBus
from tidelog.subjects import (
    changes_ddl,
    changes_stream,
    changes_txn,
    changes_watermark,
    ddl_bucket,
)
from tidelog.supervisor import Supervisor
from tidelog.timestamps import compose
from tidelog_registry.console.gatherer import First, Gatherer
from tidelog_registry.console.shown import Snapshot
from tidelog_registry.console.viewers import Viewer, Viewers
from tidelog_registry.mail import DirectoryMail, ListNodes

C, FEED = "c", "main"


class Directory(Actor[DirectoryMail]):
    """`crash_at`: ends at that question, and is started again."""

    asked = crash_at = 0

    async def on_batch(self, batch: list[DirectoryMail]) -> None:
        for one in batch:
            assert isinstance(one, ListNodes)
            Directory.asked += 1
            if Directory.asked == Directory.crash_at:
                raise RuntimeError("a bug of the directory")
            one.reply.set(cluster())


class Page:
    """One viewer of a console whose cluster is the one of `test_console_shown`."""

    def __init__(self, bus: Bus, viewers: Viewers, gatherer: Ref[First]) -> None:
        self.bus = bus
        self.viewer: Viewer = viewers.join()
        self.gatherer = gatherer

    async def next(self) -> Snapshot:
        told = await self.viewer.next()
        assert told is not None
        return msgspec.json.decode(told.removeprefix(b"data: "), type=Snapshot)

    async def until(self, wanted: Callable[[Snapshot], bool]) -> Snapshot:
        """Raises TimeoutError."""
        async with asyncio.timeout(60):
            while not wanted(found := await self.next()):
                pass
        return found


def on_a_page(
    scenario: Callable[[Page], Awaitable[None]], *, unreadable: int = 0, crash_at: int = 0
) -> None:
    Directory.asked, Directory.crash_at = 0, crash_at
    viewers = Viewers()
    found: list[Ref[First]] = []

    def build(_config: ServiceConfig, ports: Ports) -> Supervisor:
        tree = Supervisor("registry")
        directory = tree.actor("directory", Directory)
        found.append(tree.actor("console", lambda: Gatherer(ports, C, directory, viewers)))
        return tree

    async def main(world: World) -> None:
        node = world.node("r")
        node.start(build, ServiceConfig())
        await world.until(lambda: bool(found) and node.service.ready, 5, "the start")
        bus = world.ports().bus
        await bus.stream_create(StreamConfig(changes_stream(FEED), (f"changes.{FEED}.>",)))
        page = Page(bus, viewers, found[0])
        await scenario(page)
        assert (node.starts, node.service.restarts_total) == (1, bool(crash_at))
        told = node.service.status()["console"]
        assert (told["viewers"], told["unreadable"]) == (1, unreadable)

    run(main, 1)


def json(value: object) -> bytes:
    return msgspec.json.encode(value)


def test_a_viewer_is_told_each_second_also_while_the_directory_is_started_again() -> None:
    async def scenario(page: Page) -> None:
        times = [(await page.next()).at_ms for _ in range(6)]
        assert all(0 <= b - a <= 1500 for a, b in pairwise(times))
        assert Directory.asked > 3, "it did not ask again"

    on_a_page(scenario, crash_at=3)


def test_a_feed_that_may_not_be_read_ends_no_console(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    async def last_message(_: Bus, stream: str, subject: str) -> None:
        asked.append(stream)
        raise Forbidden(f"NATS denies {subject}")

    async def scenario(page: Page) -> None:
        await page.until(lambda found: bool(found.feeds))
        await page.until(lambda _: len(asked) == 5)

    monkeypatch.setattr(SimBus, "last_message", last_message)
    on_a_page(scenario)


def test_who_comes_is_told_what_was_and_what_is() -> None:
    async def scenario(page: Page) -> None:
        await page.until(lambda found: bool(found.feeds))
        past, present = (await page.gatherer.ask(First)).split(b"\n\n")[:2]
        assert past.startswith(b"event: history\ndata: ")
        found = msgspec.json.decode(present.removeprefix(b"data: "), type=Snapshot)
        assert [node.id for node in found.nodes] == ["p1", "p2", "d", "a"]

    on_a_page(scenario)


def test_what_a_feed_publishes_is_heard_and_what_it_noted_is_read() -> None:
    async def scenario(page: Page) -> None:
        bus = page.bus
        await page.until(lambda found: bool(found.feeds))
        ddls = Bucket(bus, ddl_bucket(FEED))
        await ddls.create()
        noted = NotedDdls([Ddl(9, 1, "flashback", "shop", "q9", "ddl_policy")])
        await ddls.put(NOTED_KEY, json(noted))
        ddl = DdlMessage(7, "q7", "add_column", "shop", 2)
        await bus.publish(changes_ddl(FEED, "shop", "t"), json(ddl))
        marked = [MarkedTxn(8, 7, 500, {"shop.t": 500})]
        await bus.publish(changes_txn(FEED), json(Marker("a", 1, 0, marked)))
        later = compose(1_700_000_000_000)
        await bus.publish(changes_watermark(FEED), json(Watermark(later, 8)))
        job = JobStatus("j", "replay", "running", {})
        await bus.publish("tidelog.c.backfill.b=2E1.event.j", json(job))

        found = await page.until(
            lambda found: len(found.feeds[0].ddls) == 2 and found.feeds[0].rows_per_s > 0
        )
        (feed,) = found.feeds
        assert [(one.commit_ts, one.why) for one in feed.ddls] == [("9", "ddl_policy"), ("7", "")]
        assert [table.name for table in feed.tables] == ["shop.t"]
        assert [(one.id, one.node, one.state) for one in found.jobs] == [("j", "b.1", "running")]

    on_a_page(scenario)


def test_the_last_ddl_before_anybody_listened_is_looked_up() -> None:
    async def scenario(page: Page) -> None:
        before = DdlMessage(3, "q3", "add_column", "shop", 2)
        subject = changes_ddl(FEED, "shop", "t")
        await page.bus.append(changes_stream(FEED), [Outgoing(subject, json(before))])
        found = await page.until(lambda found: bool(found.feeds and found.feeds[0].ddls))
        assert [one.query for one in found.feeds[0].ddls] == ["q3"]

    on_a_page(scenario)


def test_what_can_not_be_read_is_counted_and_the_rest_is_shown() -> None:
    async def scenario(page: Page) -> None:
        bus = page.bus
        await page.until(lambda found: bool(found.feeds))
        ddls = Bucket(bus, ddl_bucket(FEED))
        await ddls.create()
        await ddls.put(NOTED_KEY, b"[")
        await bus.publish(changes_txn(FEED), b"\xff")
        await bus.publish(changes_watermark(FEED), b"[]")
        await bus.publish("tidelog.c.backfill.b.event.j", b"{}")
        marked = [MarkedTxn(8, 7, 5, {"shop.t": 5})]
        await bus.publish(changes_txn(FEED), json(Marker("a", 1, 0, marked)))
        await page.until(lambda found: found.feeds[0].txns_per_s > 0)
        for _ in range(6):  # past the next look at what was noted
            await page.next()

    on_a_page(scenario, unreadable=3)
