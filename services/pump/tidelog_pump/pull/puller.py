"""The puller: long polls of the Drainers (design section 5, `pull`).

resolved_ts is taken first, from the sorter, then the index is scanned up to it (I2). Each poll runs
in a task of its own, so that a waiting one holds nobody back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TypeVar

import msgspec
import structlog
from google.protobuf.message import DecodeError

from tidelog.actor import Actor, Ref, Reply
from tidelog.compression import pack
from tidelog.errors import DiskFull, Overloaded, TidelogError, UnparsablePayload
from tidelog.failpoints import hit
from tidelog.ports import Bus, Clock, Disk, IndexStore, Request
from tidelog.sealed import read_sealed, seal
from tidelog_proto.transport_pb2 import PullFrame, PullRequest
from tidelog_pump.late.reader import Reader
from tidelog_pump.log.purge import PurgePoint
from tidelog_pump.log.segments import Segments
from tidelog_pump.metrics import LEFT_OUT, NOTED, PULLED
from tidelog_pump.pull.frames import FRAME_BYTES, Framer, Unwanted
from tidelog_pump.pull.idle import Idle
from tidelog_pump.sort.sorter_actor import AwaitResolved, HasRead, Resolved, SorterMessage
from tidelog_pump.unforeseen import check_ts, count_fatal, typed

log = structlog.get_logger()

T = TypeVar("T")
FEEDS_FILE = "feeds.json"
READERS_FILE = "readers.json"
MAX_POLLS = 256
MAX_FEEDS = 1024
MAX_FEED_NAME = 255
MAX_ERRORS = 64
MAX_WAIT_MS = 60_000
IDLE_SAVED_S = 600.0
FORGET_HINT = (
    "restore it, or delete it and so forget who read here: what a feed that is not registered has "
    "yet to read may then be purged, and one that missed a late pair is not stopped any more"
)


class Pull(msgspec.Struct, frozen=True):
    """A request of `pump.<node>.pull`; answered with one PullFrame."""

    request: Request


class ReadFeeds(msgspec.Struct, frozen=True):
    """Each feed's last pulled after_ts."""

    reply: Reply[dict[str, int]]


class ReadMissed(msgspec.Struct, frozen=True):
    """By feed the first transaction that it is past and was not given: (start_ts, commit_ts)."""

    reply: Reply[dict[str, tuple[int, int]]]


class Forget(msgspec.Struct, frozen=True):
    """Those of the feeds (None = of all but `registered`) that have not pulled for `idle_s` hold
    nothing any more. Answered with their last after_ts; a crash within a second may undo it."""

    feeds: list[str] | None
    idle_s: float
    reply: Reply[dict[str, int]]
    registered: frozenset[str] = frozenset()


PullerMessage = Pull | ReadFeeds | ReadMissed | Forget


class Puller(Actor[PullerMessage]):
    tick_s = 1.0

    def __init__(
        self,
        clock: Clock,
        disk: Disk,
        bus: Bus,
        segments: Segments,
        store: IndexStore,
        purge: PurgePoint,
        sorter: Ref[SorterMessage],
    ) -> None:
        self._clock = clock
        self._disk = disk
        self._bus = bus
        self._store = store
        self._framer = Framer(segments, store, purge, clock)
        self._sorter = sorter
        self._polls = 0
        self._feeds: dict[str, int] = {}
        self._saved: dict[str, int] = {}
        self._saving: asyncio.Task[None] | None = None
        self._readers: dict[str, Reader] = {}
        self._readers_changed = False
        self._unsaved = ""
        """Why the disk does not have what this knows."""
        self._numbers: dict[str, int] = {}
        self._errors: dict[str, str] = {}
        self._idle = Idle(clock)
        self._idle_saved_s = clock.monotonic()
        self._not_kept = 0

    async def on_start(self) -> None:
        self._feeds = self._load(FEEDS_FILE, dict[str, int])
        self._saved = dict(self._feeds)
        self._readers = self._load(READERS_FILE, dict[str, Reader])
        for feed in self._feeds:
            reader = self._readers.get(feed)
            self._idle.begin(feed, 0.0 if reader is None else reader.idle_s)
        read = max((self._has_read(feed, ts) for feed, ts in self._feeds.items()), default=0)
        await self._sorter.tell(HasRead(read))

    def _load(self, path: str, kind: type[dict[str, T]]) -> dict[str, T]:
        """Never as if nobody had read here: retention goes by it. Raises Corrupt."""
        return read_sealed(self._disk, path, kind, FORGET_HINT) or {}

    async def on_batch(self, batch: list[PullerMessage]) -> None:
        for message in batch:
            match message:
                case Pull():
                    self._accept(message.request)
                case ReadFeeds():
                    message.reply.set(dict(self._feeds))
                case ReadMissed():
                    message.reply.set(self._missed())
                case Forget():
                    message.reply.set(self._forget(message))

    def _forget(self, message: Forget) -> dict[str, int]:
        chosen = self._feeds if message.feeds is None else message.feeds
        gone = {
            feed: self._feeds[feed]
            for feed in set(chosen) & self._feeds.keys() - message.registered
            if self._idle.of(feed) >= message.idle_s
        }
        for feed, after_ts in gone.items():
            log.warning("a feed is forgotten", feed=feed, after=after_ts)
            NOTED.labels("feed_forgotten").inc()
            del self._feeds[feed]
            self._readers.pop(feed, None)
            self._errors.pop(feed, None)
            self._idle.forget(feed)
            self._readers_changed = True
        return gone

    def _missed(self) -> dict[str, tuple[int, int]]:
        found: dict[str, tuple[int, int]] = {}
        for feed in self._feeds.keys() & self._readers.keys():
            missed = self._readers[feed].missed(self._store, self._feeds[feed])
            if missed is not None:
                found[feed] = missed[:2]
        return found

    def _accept(self, request: Request) -> None:
        try:
            wanted = parse(request.data)
        except UnparsablePayload as error:
            refuse(request, error)
            return
        if self._polls >= MAX_POLLS:
            refuse(request, Overloaded(f"{MAX_POLLS} polls are waiting"))
            return
        self._polls += 1
        self.spawn(self._serve(request, wanted), "poll")

    async def _serve(self, request: Request, wanted: PullRequest) -> None:
        try:
            frame = await self._answer(wanted)
            frame.number = self._next_number(wanted.feed)
            hit("pump.puller.before_answer")
            PULLED.labels("nats").inc(len(frame.txns))
            request.respond(pack(frame, wanted.compression))
            self._errors.pop(wanted.feed, None)
        except Exception as raised:  # noqa: BLE001 (a bug that one request meets ends that one)
            error = typed(raised, "pull")
            count_fatal(error)
            self._remember(wanted.feed, error)
            log.warning("a pull failed", feed=wanted.feed, after=wanted.after_ts, error=str(error))
            refuse(request, error)
        finally:
            self._polls -= 1

    def _remember(self, feed: str, error: TidelogError) -> None:
        """Each feed's last error, until it is served; of many feeds those that failed last."""
        self._errors.pop(feed, None)
        self._errors[feed] = str(error)
        if len(self._errors) > MAX_ERRORS:
            del self._errors[next(iter(self._errors))]

    def _next_number(self, feed: str) -> int:
        self._numbers[feed] = self._numbers.get(feed, 0) + 1 & 0xFFFF_FFFF
        if len(self._numbers) > MAX_FEEDS:
            del self._numbers[next(iter(self._numbers))]
        return self._numbers[feed]

    async def _answer(self, wanted: PullRequest) -> PullFrame:
        if wanted.max_bytes == 0:
            resolved = await self._resolved(-1, wanted.want_ts)
            return PullFrame(resolved_ts=resolved.resolved_ts, high_ts=resolved.high_ts)
        budget = min(wanted.max_bytes, FRAME_BYTES, self._bus.max_payload)
        if wanted.offset:
            frame = await self._framer.continued(
                wanted.after_ts, wanted.commit_ts, wanted.offset, budget
            )
            self._took(wanted.feed, frame)
            return frame
        reader = self._reader(wanted.feed, wanted.after_ts)
        self._note(wanted.feed, wanted.after_ts)
        reader.goes_on(self._store, wanted.after_ts)
        resolved = await self._wait(wanted)
        if resolved.resolved_ts <= wanted.after_ts:
            return PullFrame(resolved_ts=resolved.resolved_ts, high_ts=resolved.high_ts)
        unwanted = Unwanted(frozenset(wanted.unwanted_table_ids), wanted.unwanted_upto_version)
        frame, left_out = await self._framer.frame(
            wanted.after_ts, resolved.resolved_ts, budget, unwanted
        )
        self._took(wanted.feed, frame, left_out)
        frame.high_ts = resolved.high_ts
        frame.left_out = len(left_out)
        LEFT_OUT.inc(len(left_out))
        return frame

    def _reader(self, feed: str, after_ts: int) -> Reader:
        """What is known of a feed's reading. One that is new begins where it says; of one without
        a name, or whose beginning was not kept, nothing is known but that it may miss a pair."""
        reader = self._readers.get(feed)
        if reader is not None:
            self._readers_changed |= after_ts < reader.begins
            return reader
        if not feed or len(self._readers) >= MAX_FEEDS:
            return Reader(0)
        reader = self._readers[feed] = Reader(0 if feed in self._feeds else after_ts)
        self._readers_changed = True
        return reader

    def _has_read(self, feed: str, after_ts: int) -> int:
        """Up to where it read here, 0 if that is not known: one that is new, or has no name, may
        begin where nobody was promised anything."""
        reader = self._readers.get(feed)
        return after_ts if reader is not None and after_ts > reader.begins else 0

    def _took(self, feed: str, frame: PullFrame, left_out: Iterable[int] = ()) -> None:
        """A frame goes out: late pairs that are whole in it, or unwanted, are given."""
        reader = self._readers.get(feed)
        if reader is not None:
            whole = [txn.commit_ts for txn in frame.txns if txn.commit_ts <= frame.resolved_ts]
            if reader.took(self._store, [*whole, *left_out], frame.resolved_ts):
                self._readers_changed = True

    async def _wait(self, wanted: PullRequest) -> Resolved:
        """resolved_ts once it passes after_ts, or as it is after wait_ms."""
        try:
            async with asyncio.timeout(min(wanted.wait_ms, MAX_WAIT_MS) / 1000):
                read = self._has_read(wanted.feed, wanted.after_ts)
                return await self._resolved(wanted.after_ts, wanted.want_ts, read)
        except TimeoutError:
            return await self._resolved(-1, 0)

    async def _resolved(self, above: int, want_ts: int, read: int = 0) -> Resolved:
        return await self._sorter.ask(lambda reply: AwaitResolved(above, want_ts, reply, read))

    def _note(self, feed: str, after_ts: int) -> None:
        if feed in self._feeds or (feed and len(self._feeds) < MAX_FEEDS):
            self._feeds[feed] = after_ts
            self._idle.pulled(feed)
        elif feed:
            NOTED.labels("feed_not_kept").inc()
            self._not_kept += 1

    async def on_tick(self) -> None:
        if self._clock.monotonic() - self._idle_saved_s >= IDLE_SAVED_S:
            self._idle_saved_s = self._clock.monotonic()
            self._readers_changed = True
        changed = self._readers_changed or self._feeds != self._saved
        if changed and (self._saving is None or self._saving.done()):
            self._saving = self.spawn(self._save(), "save feeds")

    async def on_stop(self) -> None:
        if self._saving is not None:
            await asyncio.wait([self._saving])
        self._readers_changed |= bool(self._readers)
        await self._save()

    async def _save(self) -> None:
        """Nothing, if nothing changed. On a full disk the next tick tries again: until then a
        restart finds older positions, which hold more back, and does not know the newest readers.
        """
        try:
            await self._save_changed()
        except DiskFull as error:
            if not self._unsaved:
                log.warning("what the feeds have read can't be saved", reason=error.message)
            self._unsaved = error.message
        else:
            self._unsaved = ""

    async def _save_changed(self) -> None:
        if self._readers_changed:
            self._readers_changed = False
            for feed, reader in self._readers.items():
                reader.idle_s = round(self._idle.of(feed), 1)
            try:
                await self._disk.write_file(READERS_FILE, seal(self._readers))
            except DiskFull:
                self._readers_changed = True
                raise
        hit("pump.puller.between_saves")
        if self._feeds != self._saved:
            feeds = dict(self._feeds)
            await self._disk.write_file(FEEDS_FILE, seal(feeds))
            self._saved = feeds

    def status(self) -> dict[str, object]:
        return {
            "polls": self._polls,
            "feeds": self._feeds,
            "idle_s": {feed: round(self._idle.of(feed)) for feed in self._feeds},
            "not_kept": self._not_kept,
            "errors": self._errors,
            "unsaved": self._unsaved,
        }


def parse(data: bytes) -> PullRequest:
    """Raises UnparsablePayload."""
    try:
        wanted = PullRequest.FromString(data)
    except DecodeError as error:
        raise UnparsablePayload("the body is no PullRequest") from error
    check_ts("after_ts", wanted.after_ts)
    check_ts("want_ts", wanted.want_ts)
    check_ts("commit_ts", wanted.commit_ts)
    if wanted.offset and not wanted.commit_ts:
        raise UnparsablePayload(f"offset {wanted.offset} of no transaction")
    if len(wanted.feed.encode()) > MAX_FEED_NAME:
        raise UnparsablePayload(f"a feed's name is longer than {MAX_FEED_NAME} bytes")
    return wanted


def refuse(request: Request, error: TidelogError) -> None:
    request.respond(PullFrame(code=type(error).__name__, message=error.message).SerializeToString())
