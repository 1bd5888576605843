"""What a feed's stream no longer holds, filled by its Drainer for one reader (design section 5).

    reader = RewindingReader(bus, "default", "shop", after_commit_ts=position, reader="billing")
    while True:
        for change in await reader.next():
            ...

The Drainer fills a private stream from the Pumps. It is read as a feed of its own, `Replay.feed`,
with the same bodies and marks, up to `Replay.upto`: there the feed's own stream goes on.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Annotated, Generic, TypeVar

import msgspec
import structlog

from tidelog import ask_registry, messages, subjects
from tidelog.change_reader import Change, ChangeReader
from tidelog.errors import BadInput, NoResponders, NotOnline, Overloaded, Purged, Unavailable
from tidelog.feed_reader import FeedReader, Gap
from tidelog.messages import DRAINER, OFFLINE
from tidelog.ports import Bus

ASK_S = 5.0
RENEW_S = 10.0
"""A reader tells this often that it still reads."""
EXPIRE_S = 60.0
"""A replay that its reader has not asked for so long is taken away."""
PATIENCE_S = 90.0
"""How long a reader waits for a Drainer that can fill what it missed; the replays of readers that
are gone go sooner."""
ReaderName = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9-]{1,64}$")]

T = TypeVar("T")

log = structlog.get_logger()


class Rewind(msgspec.Struct, frozen=True):
    """`drainer.<node>.rewind`: fill a private stream for `reader` with what lies above `after_ts`.
    Asked again, with the reader's position, it keeps what is there alive, also over a restart of
    the Drainer. `end`: it is no longer needed."""

    reader: ReaderName
    after_ts: int
    end: bool = False


class Replay(msgspec.Struct, frozen=True):
    """The answer: read `feed` up to `upto`, then the feed itself. `upto` may get less: a replay is
    bounded in bytes, and what is missing then is asked for again. `filled_ts`: so far it is."""

    feed: str
    upto: int
    filled_ts: int


class Rewinding:
    """One reader's rewinds of a feed. Whichever of the feed's Drainers is the one that publishes
    is asked."""

    def __init__(self, bus: Bus, cluster: str, feed: str, reader: str) -> None:
        self._bus = bus
        self._cluster = cluster
        self._feed = feed
        self._reader = reader
        self._asked_at = 0.0
        self._after_ts = 0
        self.replay: Replay | None = None

    async def ask(self, after_ts: int) -> Replay:
        """Begin, or go on: `after_ts` is the reader's position; an `upto` not above it says that
        there is nothing to fill. Raises Purged where the Pumps do
        not hold it any more, Refused for too many at once, Unavailable: ask again."""
        self.replay = await self._ask(Rewind(self._reader, after_ts))
        self._asked_at, self._after_ts = asyncio.get_running_loop().time(), after_ts
        return self.replay

    async def renew(self, after_ts: int | None = None) -> None:
        """`ask`, but only each RENEW_S; None = as the last time. Who is not reached, or has too
        much to do, is asked again the next time."""
        assert self.replay is not None
        now = asyncio.get_running_loop().time()
        if now - self._asked_at >= RENEW_S:
            self._asked_at = now  # also of one that is cancelled: the reader goes on meanwhile
            with contextlib.suppress(Unavailable, Overloaded):
                await self.ask(self._after_ts if after_ts is None else after_ts)

    async def end(self) -> None:
        """It was read, or is not wanted. Who can't be told takes it away after EXPIRE_S."""
        replay, self.replay = self.replay, None
        if replay is not None:
            with contextlib.suppress(Unavailable, Overloaded):
                await self._ask(Rewind(self._reader, replay.upto, end=True))

    async def _ask(self, request: Rewind) -> Replay:
        nodes = await ask_registry.nodes(self._bus, self._cluster, timeout_s=ASK_S)
        found = [n for n in nodes.nodes if n.kind == DRAINER and n.feed == self._feed]
        found.sort(key=lambda node: (node.state == OFFLINE, not node.isAlive, node.nodeId))
        last: Exception | None = None
        for node in found:
            subject = subjects.drainer(self._cluster, node.nodeId, "rewind")
            try:
                body = messages.encode(request)
                answer = await self._bus.request(subject, body, timeout_s=ASK_S)
                return messages.decode_reply(answer.data, Replay)
            except (NoResponders, NotOnline) as error:
                last = error.with_traceback(None)  # which has this frame
        raise Unavailable(
            f"no Drainer of feed {self._feed!r} can fill what its stream no longer holds",
            hint="start its Drainer, or resume it: see `tidelog nodes`",
        ) from last


class RewindingFeed(Generic[T]):
    """A feed that is read through a replay where its stream begins too late. `opened` makes a
    reader of a feed after a position; None = wherever the stream begins. `rewinding` None: what the
    stream lacks is an error.

    Before a replay, who can't be asked for one is waited for, PATIENCE_S at most; so is a Drainer
    that has no place for it any more. In the midst of one the Drainer is waited for as long as it
    takes.
    """

    def __init__(
        self,
        rewinding: Rewinding | None,
        feed: str,
        opened: Callable[[str, int | None], FeedReader[T]],
        after_commit_ts: int | None,
    ) -> None:
        self._feed = feed
        self._opened = opened
        self._rewinding = rewinding
        self._reader = opened(feed, after_commit_ts)
        self._silent_since: float | None = None
        self._idle = False

    @property
    def replaying(self) -> bool:
        """What comes now is from a replay."""
        return self._rewinding is not None and self._rewinding.replay is not None

    @property
    def position(self) -> int | None:
        """Everything with commit_ts <= this was returned."""
        return self._reader.position

    async def next(self, max_wait_s: float = 1.0) -> list[T]:
        """What is complete now, in order; empty after about `max_wait_s` without any. It may be
        cancelled. What it returned last can be read in the stream until the next call.

        Raises Gap, Purged: neither the stream nor the Pumps hold what is next; Unavailable,
        Overloaded: nobody fills it.
        """
        await self._tend()
        try:
            found = await self._reader.next(max_wait_s)
        except (Gap, Purged) as missed:
            await self._rewind(missed)
            return []
        self._idle = not found
        if found:
            self._silent_since = None
        return found

    async def keep(self) -> None:
        """What was returned last is still being read."""
        if self._rewinding is not None and self._rewinding.replay is not None:
            await self._rewinding.renew()

    async def _tend(self) -> None:
        """A replay is kept alive, or left at its end."""
        position = self._reader.position
        if self._rewinding is None or self._rewinding.replay is None or position is None:
            return
        if position >= self._rewinding.replay.upto:
            await self._go_on_with(self._feed, position)
            await self._rewinding.end()
        elif self._idle:
            self._idle = False  # who is asked may be silent: what came meanwhile is read first
            with contextlib.suppress(Unavailable):
                await self._ask(position)
        else:
            await self._rewinding.renew(position)

    async def _rewind(self, missed: Gap | Purged) -> None:
        """Raises `missed` where the feed is not as far as this reader."""
        position = self._reader.position
        if self._rewinding is None or position is None:
            raise missed
        await self._go_on_with(self._feed, position)
        await self._rewinding.end()  # a replay that lacks something is of no use
        replay = await self._ask(position)
        if replay is None:
            await asyncio.sleep(1.0)
        elif replay.upto <= position:
            raise missed
        else:
            await self._go_on_with(replay.feed, position)

    async def _ask(self, position: int) -> Replay | None:
        """None = nobody can say. After PATIENCE_S without an answer and without anything to read
        it raises Unavailable, Overloaded."""
        assert self._rewinding is not None
        now = asyncio.get_running_loop().time()
        self._silent_since = now if self._silent_since is None else self._silent_since
        try:
            replay = await self._rewinding.ask(position)
        except (Unavailable, Overloaded) as error:
            if now - self._silent_since >= PATIENCE_S:
                raise
            log.warning("what the stream lacks is waited for", feed=self._feed, why=error.message)
            return None
        self._silent_since = None
        return replay

    async def _go_on_with(self, feed: str, position: int) -> None:
        await self._reader.close()
        self._reader = self._opened(feed, position)

    async def close(self) -> None:
        await self._reader.close()
        if self._rewinding is not None:
            await self._rewinding.end()


class RewindingReader(RewindingFeed[Change]):
    """A ChangeReader that goes through a replay where its feed's stream begins too late for it."""

    def __init__(
        self, bus: Bus, cluster: str, feed: str, after_commit_ts: int, *, reader: str
    ) -> None:
        super().__init__(
            Rewinding(bus, cluster, feed, reader),
            feed,
            lambda feed, after: ChangeReader(bus, feed, after),
            after_commit_ts,
        )


def feed_name(feed: str, reader: str) -> str:
    """By which the replay of `feed` for `reader` is read. Raises BadInput."""
    try:
        msgspec.convert(reader, ReaderName)
    except msgspec.ValidationError as error:
        raise BadInput(f"a reader of a replay can't be called {reader!r}: {error}") from error
    return subjects.replay_feed(feed, reader)
