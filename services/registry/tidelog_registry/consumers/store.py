"""Keeps the consumers, and operators' orders to readers, over restarts: in the registry bucket, and
in the data directory for the time when JetStream's store is gone.

Both copies name the epoch of the lease they were written under: a registry that comes back after
another one led must not begin with what it knew then. And how often it was saved by then: one epoch
may last for weeks, and a directory that was restored knows less than the bucket.
"""

from __future__ import annotations

import msgspec
import structlog

from tidelog import subjects
from tidelog.errors import (
    Conflict,
    Corrupt,
    MessageTooLarge,
    Stopped,
    StreamMissing,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.kv import Bucket
from tidelog.messages import NAME_CHARACTERS, Consumer
from tidelog.ports import Ports
from tidelog.sealed import read_sealed, seal
from tidelog.timestamps import TS_MAX
from tidelog.unreadable import NOT_READABLE
from tidelog_registry.consumers.consumers import Kept
from tidelog_registry.lease.tenure import Tenure
from tidelog_registry.nodes.node import ReaderOrder

log = structlog.get_logger()

FILE = "consumers.json"
KEY = "consumers"
WRITE_S = 2.0
TRIES = 3
HEADERS_BYTES = 1024
"""What a message has beside its data counts, too."""
TOO_LARGE_HINT = (
    "raise max_payload in nats-server's configuration and start again; consumers that are gone go "
    "by `tidelog feed unregister`"
)


class Stored(Kept, frozen=True):
    """`saves`: one more with each save, over all epochs. (Earlier releases counted none.)"""

    epoch: int = 0
    saves: int = 0

    @property
    def rank(self) -> tuple[int, int]:
        """Greater is later."""
        return self.epoch, self.saves


class _Unchecked(msgspec.Struct, frozen=True):
    """A consumer as an earlier release kept it: of any name, at any number."""

    name: str
    feed: str
    commit_ts: int


class _Read(msgspec.Struct, frozen=True):
    consumers: list[_Unchecked] = []
    feeds: dict[str, int] = {}
    orders: list[ReaderOrder] = []
    epoch: int = 0
    saves: int = 0


class ConsumerStore:
    def __init__(self, ports: Ports, cluster: str, tenure: Tenure) -> None:
        self._disk = ports.disk
        self._bus = ports.bus
        self._bucket = Bucket(ports.bus, subjects.registry_bucket(cluster))
        self._tenure = tenure
        self._revision = 0
        self._saves = 0

    async def load(self) -> Kept:
        """The copy that was saved later; it is written once more, so that what an earlier registry
        has under way is refused.

        Raises Unavailable, DiskFull, Corrupt; Stopped for more than nats-server takes.
        """
        found, self._revision = await self._recorded()
        own = read_sealed(self._disk, FILE, _Read)
        if own is not None:
            found = max(_checked(own, FILE), found, key=lambda stored: stored.rank)
        self._saves = found.saves
        kept = Kept(found.consumers, found.feeds, found.orders)
        try:
            await self.save(kept)
        except MessageTooLarge as error:
            raise Stopped(f"{FILE}: {error.message}", hint=TOO_LARGE_HINT) from error
        return kept

    async def save(self, kept: Kept) -> None:
        """Raises DiskFull, MessageTooLarge: nothing is written. Raises Unavailable: the copy in the
        data directory may be."""
        self._tenure.check()
        epoch = self._tenure.epoch
        self._saves += 1
        stored = Stored(kept.consumers, kept.feeds, kept.orders, epoch, self._saves)
        data = msgspec.json.encode(stored)
        limit = self._bus.max_payload - HEADERS_BYTES
        if len(data) > limit:
            raise MessageTooLarge(f"the kept consumers have {len(data)} bytes, above {limit}")
        hit("registry.consumers.before_copy")
        await self._disk.write_file(FILE, seal(stored))
        hit("registry.consumers.copied")
        for _ in range(TRIES):
            try:
                self._revision = await self._bucket.put(
                    KEY, data, expected=self._revision, timeout_s=WRITE_S
                )
                return
            except (Conflict, StreamMissing):
                # Lost or rolled back with its store, or written by us without our hearing of it.
                found, self._revision = await self._recorded()
                if found.epoch > epoch:
                    raise Unavailable("another registry keeps the consumers") from None
        raise Unavailable("the consumers' record changes all the time")

    async def _recorded(self) -> tuple[Stored, int]:
        """What stands in the bucket, and the revision to replace."""
        entry, revision = await self._bucket.read_or_create(KEY)
        if entry is None:
            return Stored(), revision
        try:
            read = msgspec.json.decode(entry.value, type=_Read)
        except NOT_READABLE as error:
            told = f"{self._bucket.name}: the kept consumers can't be read: {error}"
            raise Corrupt(told) from error
        return _checked(read, self._bucket.name), revision


def _checked(read: _Read, where: str) -> Stored:
    """What today's registry would have refused must not end it: a position that is no timestamp is
    the nearest one, and who can't be named in an answer is let go of, loudly."""
    consumers = [
        Consumer(one.name, one.feed, _ts(one.commit_ts))
        for one in read.consumers
        if _can_be_named(one.name, where) and _can_be_named(one.feed, where)
    ]
    feeds = {feed: _ts(ts) for feed, ts in read.feeds.items() if _can_be_named(feed, where)}
    return Stored(consumers, feeds, read.orders, read.epoch, read.saves)


def _can_be_named(name: str, where: str) -> bool:
    if len(name) <= NAME_CHARACTERS:
        return True
    log.error("a name is too long: what it held is let go of", name=name[:80], record=where)
    return False


def _ts(number: int) -> int:
    return min(max(0, number), TS_MAX)
