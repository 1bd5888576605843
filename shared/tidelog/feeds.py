"""What was decided about each feed when it was created: a record in the bucket of feeds.

A feed is created once, by `tidelog feed create` or `tidelog up`: only then does "begin with what
commits from now on" name one moment, whatever crashes before its Drainer first starts.
"""

from __future__ import annotations

import re

import msgspec

from tidelog import ask_registry, subjects
from tidelog.errors import BadInput, Conflict, Corrupt, Refused, StreamMissing, Unavailable
from tidelog.kv import Bucket
from tidelog.messages import PUMP
from tidelog.oracle import RegistryOracle
from tidelog.ports import Bus
from tidelog.timestamps import TS_MAX, physical_ms
from tidelog.unreadable import NOT_READABLE

NOW = -1
"""`initial-commit-ts`: with what commits from now on."""
ASK_S = 5.0
AHEAD_MS = 3_600_000
"""How far ahead of what is known a feed may begin: clocks differ."""
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_PREFIX = "feed."


class Feed(msgspec.Struct, frozen=True):
    """`initial_commit_ts`: where it begins (exclusive). `begun`: its stream has held a mark, so a
    stream without one has lost what it held."""

    name: str
    initial_commit_ts: int = 0
    created_ms: int = 0
    begun: bool = False


def check_name(name: str) -> None:
    """Raises ValueError."""
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"feed {name[:80]!r}: 1 to 63 of a-z, 0-9, - and _, of which the first is no - or _"
        )


def checked_name(name: str) -> str:
    """The same, for what an application or an operator says. Raises BadInput."""
    try:
        check_name(name)
    except ValueError as error:
        raise BadInput(str(error)) from error
    return name


class Feeds:
    """The records of a cluster. Every call raises Unavailable."""

    def __init__(self, bus: Bus, cluster: str) -> None:
        self._bucket = Bucket(bus, subjects.feeds_bucket(cluster))

    async def get(self, name: str) -> Feed | None:
        try:
            entry = await self._bucket.get(_PREFIX + name)
        except StreamMissing:
            return None
        return None if entry is None else _decode(entry.value)

    async def all(self) -> list[Feed]:
        """By name."""
        try:
            entries, _ = await self._bucket.entries()
        except StreamMissing:
            return []
        return [_decode(e.value) for key, e in sorted(entries.items()) if key.startswith(_PREFIX)]

    async def create(self, feed: Feed) -> None:
        """Durable when it returns. Raises Refused if there is one of that name."""
        await self._bucket.create()
        entry, revision = await self._bucket.read(_PREFIX + feed.name)
        known = None if entry is None else _decode(entry.value)
        try:
            if known is None:
                await self._bucket.put(
                    _PREFIX + feed.name, msgspec.json.encode(feed), expected=revision
                )
        except (Conflict, Unavailable):
            known = await self.get(feed.name)
            if known is None:
                raise Unavailable(f"feed {feed.name} may or may not have been recorded") from None
        if known is not None and known != feed:
            raise Refused(
                f"feed {feed.name!r} exists, from {known.initial_commit_ts} on",
                hint=f"`tidelog feed show {feed.name}`; a feed is created once",
            )

    async def ensure(self, feed: Feed) -> None:
        """Create it unless there is one."""
        try:
            await self.create(feed)
        except Refused:
            return

    async def save(self, feed: Feed) -> None:
        """Whatever stood there: only for who leads the feed."""
        await self._bucket.create()
        await self._bucket.put(_PREFIX + feed.name, msgspec.json.encode(feed))

    async def remove(self, name: str) -> None:
        if await self.get(name) is not None:
            await self._bucket.delete(_PREFIX + name)


def _decode(data: bytes) -> Feed:
    try:
        return msgspec.json.decode(data, type=Feed)
    except NOT_READABLE as error:
        raise Corrupt(f"a feed's record can't be read: {error}") from error


def refuse_future(initial_commit_ts: int, newest_ts: int) -> None:
    """`newest_ts`: what was allocated by now, at the least. A feed that begins far above is silent
    until then, and its readers find everything in order. Raises BadInput."""
    if physical_ms(initial_commit_ts) > physical_ms(newest_ts) + AHEAD_MS:
        raise BadInput(
            f"initial-commit-ts {initial_commit_ts} lies in the future:"
            " nothing would be published until then",
            hint=f"a commit_ts of now is about {newest_ts}; {NOW} is now, 0 all that is there",
        )


async def beginning(bus: Bus, cluster: str, initial_commit_ts: int) -> int:
    """`initial_commit_ts`, NOW resolved: what commits from now on lies above it, by the oracle that
    gives the transactions their timestamps (I9); no machine's clock says anything about that.

    Raises BadInput, Unavailable.
    """
    if not NOW <= initial_commit_ts <= TS_MAX:
        raise BadInput(f"initial-commit-ts {initial_commit_ts}: {NOW} to {TS_MAX}")
    if initial_commit_ts != NOW:
        return initial_commit_ts
    found = await ask_registry.nodes(bus, cluster, timeout_s=ASK_S)
    if found.oracle == "embedded":
        return await RegistryOracle(bus, cluster).fresh()
    pumps = [status for status in found.nodes if status.kind == PUMP]
    if not pumps or not found.settled:
        raise Unavailable("no Pump has registered yet, to tell the feed what time it is")
    return max(max(pump.highTS, pump.resolvedTS) for pump in pumps)
