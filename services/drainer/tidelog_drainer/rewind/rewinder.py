"""The rewinder: private streams for readers whom the feed's own stream has left behind (section 5).

Each is filled from the Pumps by cursors, a merge and a publisher of its own (`filling.py`), from
its own last mark on, so that a restart goes on with it. Few at once, each bounded in bytes, at a
share of the time: the feed itself goes first.
"""

from __future__ import annotations

import asyncio
import contextlib

import structlog

from tidelog import messages, subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.errors import (
    NotOnline,
    Overloaded,
    Purged,
    StreamMissing,
    TidelogError,
    Unavailable,
)
from tidelog.kv import Bucket
from tidelog.lease import Hold, LeaseMail, Role
from tidelog.membership import Member
from tidelog.messages import OFFLINE
from tidelog.ports import Ports
from tidelog.questions import serve_questions
from tidelog.rewind import EXPIRE_S, Replay, Rewind
from tidelog.sealed import read_sealed, seal
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.mail import (
    AskPublished,
    AskRewind,
    PublisherMail,
    RewinderMail,
)
from tidelog_drainer.merge.sources import SOURCES_FILE
from tidelog_drainer.metrics import REWINDS
from tidelog_drainer.publish.lives import EPOCH_FILE
from tidelog_drainer.rewind.filling import Filling, Kept
from tidelog_drainer.rewind.forget import forget
from tidelog_drainer.schema.structures import SCHEMAS_FILE

MAX_REPLAYS = 4
"""At once; each has a directory of its own, `rewind/<n>`."""
DIRECTORY = "rewind"
KEPT_FILE = "replay.json"
UNREADABLE = "delete it: its reader asks again, and its stream is filled anew"

log = structlog.get_logger()


class Rewinder(Actor[RewinderMail]):
    """Owns the replays, by place. `held`: an operator paused the Drainer, so none is filled."""

    tick_s = 1.0

    def __init__(
        self,
        config: DrainerConfig,
        ports: Ports,
        lease: Ref[LeaseMail],
        role: Role,
        publisher: Ref[PublisherMail],
        *,
        held: bool = False,
    ) -> None:
        self._config = config
        self._ports = ports
        self._lease = lease
        self._role = role
        self._publisher = publisher
        self._held = held
        self._resumed = False
        self._fillings: dict[int, Filling] = {}
        self._changing = asyncio.Lock()

    async def on_start(self) -> None:
        subject = subjects.drainer(self._config.cluster, self._config.node, "rewind")
        serving = serve_questions(self._ports.bus, subject, Rewind, self.self_ref, AskRewind)
        self.spawn(serving, "rewind-edge")

    async def on_batch(self, batch: list[RewinderMail]) -> None:
        for message in batch:
            match message:
                case AskRewind():
                    self.spawn(self._serve(message.request, message.reply), "rewind")
                case Hold(held):
                    self._held = held
                    self.spawn(self._hold(), "hold")

    @property
    def _fills(self) -> bool:
        """Whoever stands by leaves other Drainers' replays alone."""
        return self._role.leads and not self._held

    async def _hold(self) -> None:
        """What is not filled now stays, and goes on later."""
        async with self._changing:
            while self._held and self._fillings:
                self._resumed = False
                _, filling = self._fillings.popitem()
                await filling.end()

    async def on_tick(self) -> None:
        now = self._ports.clock.monotonic()
        if self._fills and not self._resumed and not self._changing.locked():
            self._resume()
        for place, filling in list(self._fillings.items()):
            await filling.look()
            if now - filling.asked_at > EXPIRE_S and not self._changing.locked():
                log.info("the reader of a rewind is gone", reader=filling.kept.reader)
                self.spawn(self._expire(place, filling), "expire")

    # Asked by a reader

    async def _serve(self, request: Rewind, reply: Reply[Replay]) -> None:
        try:
            async with self._changing:
                reply.set(await self._answer(request))
        except TidelogError as error:
            reply.fail(error)

    async def _answer(self, request: Rewind) -> Replay:
        """Raises Purged, NotOnline, Overloaded, Unavailable."""
        if not self._fills:
            raise NotOnline(f"{self._config.node} publishes nothing now")
        if not self._resumed:
            self._resume()
        known = self._known(request.reader)
        if known is None and request.end:
            return await self._nothing(request)
        if known is None:
            return await self._begin(request)
        place, filling = known
        filling.asked_at = self._ports.clock.monotonic()
        answer, error = filling.answer, filling.error
        has = filling.kept.after_ts <= request.after_ts < answer.upto
        begins_anew = filling.leaving or not has
        if request.end or error is not None or begins_anew:
            await self._take_away(place, filling)
        if error is not None and not request.end:
            raise error
        if begins_anew and not request.end:
            return await self._begin(request)
        return answer

    def _known(self, reader: str) -> tuple[int, Filling] | None:
        found = [(p, f) for p, f in self._fillings.items() if f.kept.reader == reader]
        return found[0] if found else None

    async def _begin(self, request: Rewind) -> Replay:
        published = await self._publisher.ask(AskPublished)
        if not published.commit_ts:
            raise Unavailable("the feed's position is not known yet", hint="ask again")
        if request.after_ts >= published.commit_ts:  # the feed itself goes on from there
            return await self._nothing(request)
        await self._refuse_if_gone(request.after_ts)
        place = next((n for n in range(MAX_REPLAYS) if n not in self._fillings), None)
        if place is None:
            raise Overloaded(f"{MAX_REPLAYS} readers rewind this feed already")
        kept = Kept(request.reader, request.after_ts, published.commit_ts)
        ports = self._place(place)
        filling = self._filling(ports, kept)
        await self._clear(place, filling.config.feed)
        for parent in ("", DIRECTORY):
            await self._ports.disk.sync_dir(parent)
        await ports.disk.write_file(KEPT_FILE, seal(kept))
        self._start(place, filling)
        REWINDS.labels(self._config.feed).inc()
        log.info("a rewind begins", reader=kept.reader, after_ts=kept.after_ts, upto=kept.upto)
        return filling.answer

    async def _nothing(self, request: Rewind) -> Replay:
        """A stream may be left all the same: one that a life began which ended in the middle."""
        feed = subjects.replay_feed(self._config.feed, request.reader)
        await self._delete(feed)
        return Replay(feed, request.after_ts, request.after_ts)

    async def _delete(self, feed: str) -> None:
        schemas = Bucket(self._ports.bus, subjects.schemas_bucket(feed)).stream
        for stream in (subjects.changes_stream(feed), schemas):
            with contextlib.suppress(StreamMissing):
                await self._ports.bus.stream_delete(stream)

    async def _refuse_if_gone(self, after_ts: int) -> None:
        """A Pump that was taken offline had been read by all; what it held is nowhere now. Raises
        Purged; Unavailable, also while the registry has yet to write that bucket anew."""
        bucket = Bucket(self._ports.bus, subjects.members_bucket(self._config.cluster))
        try:
            entries, _ = await bucket.entries()
        except StreamMissing as error:
            raise Unavailable(
                f"{error.message}: which Pumps there were is not known yet"
            ) from error
        for entry in entries.values():
            member = messages.decode(entry.value, Member)
            tombstone = member.high_ts if member.state == OFFLINE else 0
            gone_ts = max(tombstone, member.left_ts)
            if after_ts < gone_ts:
                raise Purged(
                    f"{member.node} went offline with transactions up to {gone_ts}, and what"
                    f" it held above {after_ts} can't be read any more"
                )

    # Places

    def _place(self, place: int) -> Ports:
        return self._ports.within(f"{DIRECTORY}/{place}")

    def _filling(self, ports: Ports, kept: Kept) -> Filling:
        now = self._ports.clock.monotonic()
        return Filling(self._config, ports, self._lease, self._role, kept, now)

    def _start(self, place: int, filling: Filling) -> None:
        self._fillings[place] = filling
        filling.task = self.spawn(filling.run(), f"rewind-{place}")

    def _resume(self) -> None:
        """What an earlier life was asked for: its reader asks again, or it goes."""
        self._resumed = True
        for place in range(MAX_REPLAYS):
            ports = self._place(place)
            if place in self._fillings:
                continue
            directory = f"{DIRECTORY}/{place}"
            kept = read_sealed(ports.disk, KEPT_FILE, Kept, UNREADABLE, directory=directory)
            if kept is not None:
                self._start(place, self._filling(ports, kept))

    async def _expire(self, place: int, filling: Filling) -> None:
        async with self._changing:
            if self._fillings.get(place) is filling:
                with contextlib.suppress(Unavailable):
                    await self._take_away(place, filling)

    async def _take_away(self, place: int, filling: Filling) -> None:
        """Stream, directory, and what the Pumps remember of its pulls. Raises Unavailable: then it
        stays, and goes when it expires or its reader asks again."""
        filling.leaving = True
        await filling.end()
        await self._clear(place, filling.config.feed)
        del self._fillings[place]
        await forget(self._ports.bus, self._config.cluster, filling.config.feed)

    async def _clear(self, place: int, feed: str) -> None:
        await self._delete(feed)
        disk = self._place(place).disk
        for name in (EPOCH_FILE, SOURCES_FILE, SCHEMAS_FILE, KEPT_FILE):
            if disk.exists(name):
                await disk.remove(name)

    def status(self) -> dict[str, object]:
        return {
            "held": self._held,
            "rewinds": {f.kept.reader: f.status() for f in self._fillings.values()},
        }
