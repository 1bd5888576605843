"""Gathers what the page shows, and tells the viewers each second. Encoded once for all of them."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from tidelog import messages, subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.bulk.control import JobStatus
from tidelog.drainer_control import NOTED_KEY, NotedDdls
from tidelog.errors import ActorStopped, TidelogError, UnparsablePayload
from tidelog.kv import Bucket
from tidelog.messages import Nodes
from tidelog.ports import Handler, Ports, Request
from tidelog.unreadable import NOT_READABLE
from tidelog_registry.console import heard
from tidelog_registry.console.model import Model
from tidelog_registry.console.viewers import Viewers
from tidelog_registry.mail import DirectoryMail, ListNodes

log = structlog.get_logger()

LOOK_S = 1.0
NOTED_S = 5.0
"""How often a feed's DDLs are looked up while somebody looks."""


class First(msgspec.Struct, frozen=True):
    """A viewer came: what was until now, and the present, as events."""

    reply: Reply[bytes]


class Gatherer(Actor[First]):
    def __init__(
        self, ports: Ports, cluster: str, directory: Ref[DirectoryMail], viewers: Viewers
    ) -> None:
        self._ports = ports
        self._cluster = cluster
        self._directory = directory
        self._viewers = viewers
        self._model = Model(cluster)
        self._unreadable = 0
        self._looked_back: set[str] = set()

    async def on_start(self) -> None:
        await self._listen()
        self.spawn(self._look(), "look")
        self.spawn(self._read_noted(), "read-noted")

    async def on_batch(self, batch: list[First]) -> None:
        now = self._ports.clock.wall_ms()
        past = event(self._model.history(now), "history")
        present = self._present(now)
        for first in batch:
            first.reply.set(past + present)

    def status(self) -> dict[str, object]:
        viewers = self._viewers
        return {
            "viewers": len(viewers),
            "viewers_dropped": viewers.dropped,
            "unreadable": self._unreadable,
        }

    def _present(self, now_ms: int) -> bytes:
        return event(self._model.snapshot(now_ms, bus=self._ports.bus.connected))

    async def _look(self) -> None:
        clock = self._ports.clock
        while True:
            try:
                found: Nodes = await self._directory.ask(ListNodes)
            except ActorStopped as error:
                log.info("the console waits for the directory", reason=error.message)
            else:
                self._model.looked(found, clock.wall_ms())
            if len(self._viewers):
                self._viewers.tell(self._present(clock.wall_ms()))
            await clock.sleep(LOOK_S)

    async def _read_noted(self) -> None:
        """What the feeds' Drainers did not publish as it came (`tidelog ddl`)."""
        while True:
            for feed in self._model.feeds if len(self._viewers) else ():
                try:
                    await self._look_back(feed)
                    await self._read_noted_of(feed)
                except (TidelogError, *NOT_READABLE) as error:
                    log.debug("a feed's DDLs can't be read", feed=feed, reason=str(error))
            await self._ports.clock.sleep(NOTED_S if len(self._viewers) else LOOK_S)

    async def _look_back(self, feed: str) -> None:
        """Once: the DDL that was published last before anybody listened."""
        if feed in self._looked_back:
            return
        stream, subject = subjects.changes_stream(feed), subjects.changes_ddls(feed)
        found = await self._ports.bus.last_message(stream, subject)
        self._looked_back = {feed, *self._looked_back.intersection(self._model.feeds)}
        if found is not None and (told := heard.ddl(found.subject, found.data, found.headers)):
            self._model.ddl(feed, told)

    async def _read_noted_of(self, feed: str) -> None:
        bucket = Bucket(self._ports.bus, subjects.ddl_bucket(feed))
        entry = await bucket.get(NOTED_KEY)
        if entry is not None:
            self._model.noted(feed, msgspec.json.decode(entry.value, type=NotedDdls))

    # What is published ------------------------------------------------------------------------

    async def _listen(self) -> None:
        bus = self._ports.bus
        await bus.serve(subjects.changes_txn("*"), self._hears(self._marker))
        await bus.serve(subjects.changes_watermark("*"), self._hears(self._watermark))
        await bus.serve(subjects.changes_ddls("*"), self._hears(self._ddl))
        await bus.serve(subjects.backfill_events(self._cluster), self._hears(self._job))

    def _hears(self, take: Callable[[Request], bool]) -> Handler:
        async def handle(request: Request) -> None:
            if not take(request):
                self._unreadable += 1

        return handle

    def _marker(self, request: Request) -> bool:
        feed, told = heard.feed_of(request.subject), heard.marker(request.data)
        if feed and told is not None:
            self._model.marker(feed, told, self._ports.clock.wall_ms())
        return told is not None

    def _watermark(self, request: Request) -> bool:
        feed, ts = heard.feed_of(request.subject), heard.watermark(request.data)
        if feed and ts is not None:
            self._model.watermark(feed, ts, self._ports.clock.wall_ms())
        return ts is not None

    def _ddl(self, request: Request) -> bool:
        feed = heard.feed_of(request.subject)
        told = heard.ddl(request.subject, request.data, request.headers)
        if feed and told is not None:
            self._model.ddl(feed, told)
        return told is not None

    def _job(self, request: Request) -> bool:
        try:
            told = messages.decode(request.data, JobStatus)
        except UnparsablePayload:
            return False
        self._model.job(subjects.unescape(request.subject.split(".")[3]), told)
        return True


def event(body: msgspec.Struct, name: str = "") -> bytes:
    """One server-sent event. JSON has no line breaks."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(body) + b"\n\n"
