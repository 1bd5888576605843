"""Where a feed begins whose stream doesn't say it: it is new, or its stream is gone.

What is missing is never made up: a feed that had begun goes on where a reader or an operator says,
and one that nobody created waits until somebody does.
"""

from __future__ import annotations

import contextlib

import structlog
from msgspec.structs import replace

from tidelog.errors import (
    Corrupt,
    DiskFull,
    ForeignDirectory,
    PositionUnknown,
    TidelogError,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.feeds import Feed, Feeds
from tidelog.messages import DRAINER_CONSUMER
from tidelog.ports import Ports
from tidelog.sealed import read_sealed, seal
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.settled import settled_nodes

FEED_FILE = "feed.json"
UNREADABLE = "delete it: the bucket of feeds has the record, too"
FOLLOW_S = 2.0

log = structlog.get_logger()


class FeedNotCreated(TidelogError):
    """Nobody said where the feed begins: no record, no stream, no reader, no Pump that was asked
    for it. It goes on by itself once the feed is created."""


def refuse_foreign(config: DrainerConfig, ports: Ports) -> None:
    """Raises ForeignDirectory for a data directory that another feed's Drainer wrote. (Of a record
    that can't be read says whoever needs it.)"""
    with contextlib.suppress(Corrupt):
        kept = FeedRecord(config, ports).kept()
        if kept is not None and kept.name != config.feed:
            raise ForeignDirectory(
                f"the data directory belongs to a Drainer of feed {kept.name}, this one's is"
                f" {config.feed}",
                hint=f"give this Drainer a data-dir of its own, or set feed = {kept.name!r}",
            )


class FeedRecord:
    """The feed's record in the bucket, and a copy in the data directory for the time when
    JetStream's store is gone."""

    def __init__(self, config: DrainerConfig, ports: Ports) -> None:
        self._name = config.feed
        self._is_replay = config.is_replay
        self._ports = ports
        self._feeds = Feeds(ports.bus, config.cluster)
        self._is_durable = False
        """What is there may be of a life whose last sync failed: each writes it once itself."""

    async def read(self) -> Feed | None:
        """Of a feed that was created again the later one; what either copy knows to have begun,
        has. Raises Unavailable."""
        recorded, kept = await self._feeds.get(self._name), self.kept()
        if recorded is None or kept is None:
            return recorded or kept
        newer = max(recorded, kept, key=lambda feed: feed.created_ms)
        same = recorded.created_ms == kept.created_ms
        return replace(newer, begun=newer.begun or (same and (recorded.begun or kept.begun)))

    async def begun(self) -> None:
        """The stream holds a mark: durable in both copies when it returns. A feed that nobody
        recorded (its stream is older than records, or the record was lost) is from now on. Raises
        Unavailable."""
        if self._is_replay:
            return  # no feed of anybody's: nothing is lost with it
        known = await self.read() or Feed(self._name, created_ms=self._ports.clock.wall_ms())
        feed = replace(known, begun=True)
        if self.kept() != feed or not self._is_durable:
            await self._ports.disk.write_file(FEED_FILE, seal(feed))
            hit("drainer.feed.kept")
            self._is_durable = True
        if await self._feeds.get(self._name) != feed:
            await self._feeds.save(feed)

    async def follow(self) -> None:
        """Until it is cancelled, beside another Drainer that leads: kept here too, and put back
        where the bucket lost it, as that Drainer may have met the feed after the loss."""
        while not self._is_replay:
            with contextlib.suppress(Unavailable, Corrupt, DiskFull):  # who leads says it
                known = await self.read()
                if known is not None and self.kept() != known:
                    await self._ports.disk.write_file(FEED_FILE, seal(known))
                if known is not None and await self._feeds.get(self._name) is None:
                    await self._feeds.ensure(known)
            await self._ports.clock.sleep(FOLLOW_S)

    def kept(self) -> Feed | None:
        """The copy in the data directory. Raises Corrupt."""
        return read_sealed(self._ports.disk, FEED_FILE, Feed, UNREADABLE)


async def beginning(config: DrainerConfig, ports: Ports) -> tuple[int, int]:
    """The position of a feed without a mark in its stream, and the prev_commit_ts of its first
    mark: the same, as a reader below it misses something; of a feed at its beginning 0, as nothing
    below that belongs to it, so that a reader begins with it at any position (I5).

    Waits for the registry. Raises Corrupt, FeedNotCreated, PositionUnknown, Unavailable.
    """
    if config.start_ts or config.is_replay:
        return config.start_ts, config.start_ts
    nodes = await settled_nodes(config, ports)
    feed = await FeedRecord(config, ports).read()
    initial, begun = (feed.initial_commit_ts, feed.begun) if feed is not None else (0, False)
    ours = [c for c in nodes.consumers if c.feed == config.feed]
    # What the Drainers published is lost with the stream: only those who read it know a position.
    consumers = [c.commit_ts for c in ours if c.name != DRAINER_CONSUMER]
    pulled = nodes.feeds.get(config.feed)
    begun = begun or pulled is not None or len(consumers) < len(ours)
    if consumers and (begun or min(consumers) > 0):
        lowest = min(consumers)
        log.info("the stream is filled from its lowest consumer", feed=config.feed, after_ts=lowest)
        return (lowest, lowest) if lowest > initial else (initial, 0)
    if begun:
        known = [c.commit_ts for c in ours] + ([pulled] if pulled is not None else [])
        if config.accept_loss and known:
            return min(known), min(known)
        raise PositionUnknown(_lost(config.feed, pulled), hint=_choices(known=bool(known)))
    if feed is None:
        raise FeedNotCreated(
            f"feed {config.feed} was never created",
            hint=f"`tidelog feed create {config.feed}`, with --initial-commit-ts -1 for what "
            "commits from now on; its Drainer then goes on by itself",
        )
    return initial, 0


def _lost(feed: str, pulled: int | None) -> str:
    upto = f"was pulled up to {pulled}" if pulled is not None else "had begun"
    return f"feed {feed} {upto}, but its stream is gone and no consumer is registered"


def _choices(*, known: bool) -> str:
    choices = "start its readers, then this Drainer; or set --start-ts TS"
    return f"{choices} or --accept-loss" if known else choices
