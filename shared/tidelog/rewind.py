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
from typing import Annotated

import msgspec

from tidelog import ask_registry, messages, subjects
from tidelog.change_reader import Change, ChangeReader, Gap
from tidelog.errors import BadInput, NoResponders, NotOnline, Purged, Unavailable
from tidelog.messages import DRAINER, OFFLINE
from tidelog.ports import Bus

ASK_S = 5.0
RENEW_S = 10.0
"""A reader tells this often that it still reads."""
EXPIRE_S = 60.0
"""A replay that its reader has not asked for so long is taken away."""
ReaderName = Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9-]{1,64}$")]


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
        self.replay: Replay | None = None

    async def ask(self, after_ts: int) -> Replay:
        """Begin, or go on: `after_ts` is the reader's position; an `upto` not above it says that
        there is nothing to fill. Raises Purged where the Pumps do
        not hold it any more, Refused for too many at once, Unavailable: ask again."""
        self.replay = await self._ask(Rewind(self._reader, after_ts))
        self._asked_at = asyncio.get_running_loop().time()
        return self.replay

    async def renew(self, after_ts: int) -> Replay:
        """`ask`, but only each RENEW_S; meanwhile the last answer. One that is not reached is asked
        again the next time."""
        assert self.replay is not None
        if asyncio.get_running_loop().time() - self._asked_at >= RENEW_S:
            with contextlib.suppress(Unavailable):
                return await self.ask(after_ts)
        return self.replay

    async def end(self) -> None:
        """It was read, or is not wanted. Who can't be told takes it away after EXPIRE_S."""
        if self.replay is not None:
            with contextlib.suppress(Unavailable):
                await self._ask(Rewind(self._reader, self.replay.upto, end=True))
            self.replay = None

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
                last = error
        raise Unavailable(
            f"no Drainer of feed {self._feed!r} can fill what its stream no longer holds",
            hint="start its Drainer, or resume it: see `tidelog nodes`",
        ) from last


class RewindingReader:
    """A ChangeReader that goes through a replay where its feed's stream begins too late for it."""

    def __init__(
        self, bus: Bus, cluster: str, feed: str, after_commit_ts: int, *, reader: str
    ) -> None:
        self._bus = bus
        self._feed = feed
        self._rewinding = Rewinding(bus, cluster, feed, reader)
        self._reader = ChangeReader(bus, feed, after_commit_ts)

    @property
    def replaying(self) -> bool:
        """What comes now is from a replay."""
        return self._rewinding.replay is not None

    @property
    def position(self) -> int:
        """Everything with commit_ts <= this was returned."""
        position = self._reader.position
        assert position is not None
        return position

    async def next(self, max_wait_s: float = 1.0) -> list[Change]:
        """What is complete now, in order; empty after about `max_wait_s` without any. Raises
        Purged: neither the stream nor the Pumps hold what is next."""
        try:
            found = await self._reader.next(max_wait_s)
        except (Gap, Purged) as missed:
            await self._rewind(missed)
            return []
        replay = self._rewinding.replay
        if replay is not None:
            if not found:
                with contextlib.suppress(Unavailable):
                    replay = await self._rewinding.ask(self.position)
            else:
                replay = await self._rewinding.renew(self.position)
            if self.position >= replay.upto:
                await self._rewinding.end()
                await self._go_on_with(self._feed)
        return found

    async def _rewind(self, missed: Gap | Purged) -> None:
        """What the Drainer can't be asked for now, the next call asks for. Raises `missed` where
        the feed is not as far as this reader."""
        try:
            replay = await self._rewinding.ask(self.position)
        except Unavailable:
            await self._go_on_with(self._feed)
            await asyncio.sleep(1.0)
            return
        if replay.upto <= self.position:
            raise missed
        await self._go_on_with(replay.feed)

    async def _go_on_with(self, feed: str) -> None:
        position = self.position
        await self._reader.close()
        self._reader = ChangeReader(self._bus, feed, position)

    async def close(self) -> None:
        await self._reader.close()
        await self._rewinding.end()


def feed_name(feed: str, reader: str) -> str:
    """By which the replay of `feed` for `reader` is read. Raises BadInput."""
    try:
        msgspec.convert(reader, ReaderName)
    except msgspec.ValidationError as error:
        raise BadInput(f"a reader of a replay can't be called {reader!r}: {error}") from error
    return subjects.replay_feed(feed, reader)
