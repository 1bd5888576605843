"""Where a feed goes on (design section 5, "Position at start").

The stream itself says it: the later of its last marker and its last watermark. Where one is new or
gone, `beginning.py` says it.
"""

from __future__ import annotations

import contextlib
from typing import TypeVar

import msgspec
import structlog

from tidelog import changes, subjects
from tidelog.changes import DdlMessage, Marker, Watermark
from tidelog.errors import Corrupt, DiskFull, Stopped, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.ports import Message, Ports, StreamConfig, StreamState
from tidelog.timestamps import TS_MAX
from tidelog.unreadable import NOT_READABLE
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.publish.beginning import FOLLOW_S, beginning
from tidelog_drainer.publish.departed import refuse_departed
from tidelog_drainer.publish.lives import Epoch, Risen, chained, parted, rise

STREAM_MIN_BYTES = 64 << 20

M = TypeVar("M", Marker, Watermark)

log = structlog.get_logger()


class NotOurs(Stopped):
    """A mark in the stream that no Drainer wrote: readers can't pass it, and nor can we."""

    def __init__(self, message: Message, stream: str) -> None:
        super().__init__(
            f"no Drainer wrote message {message.sequence} of {stream}, on {message.subject}",
            hint="find out who did (docs/security.md); then `nats stream rm "
            f"{stream}`, and start the Drainer again: it makes the stream anew, and fills it from "
            "the Pumps for readers that are registered",
        )


def parse_epoch(message: Message | None) -> Epoch:
    """The epoch in a message's headers; number 0 if there is none. Raises NotOurs."""
    if message is None:
        return Epoch(0)
    number, _, node = message.headers.get(changes.H_EPOCH, "0").partition(":")
    return Epoch(_number(message, number), node)


def _number(message: Message, text: str) -> int:
    """Raises NotOurs."""
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise NotOurs(message, subjects.changes_stream(message.subject.split(".")[1]))
    return int(text)


class Tail(msgspec.Struct, frozen=True):
    """The end of the stream: `state`, and its newest marks."""

    state: StreamState
    marker: Marker | None
    watermark: Watermark | None
    epoch: Epoch
    schema_version: int
    """The highest of all DDLs up to the newest one in the stream; 0 = none."""
    early: tuple[int, ...]
    """Schema versions published before their own binlogs, as that DDL says."""
    behind: tuple[int, ...]
    """Lower ones whose DDLs had not come by, as that DDL says."""

    @property
    def commit_ts(self) -> int | None:
        """The later of the last marker and the last watermark; None without either."""
        last = [self.marker.txns[-1].commit_ts] if self.marker is not None else []
        if self.watermark is not None:
            last.append(self.watermark.resolved_ts)
        return max(last, default=None)

    @property
    def prev_commit_ts(self) -> int:
        """The last marker's last commit_ts, from the marker or from the watermark after it."""
        prev = self.watermark.prev_commit_ts if self.watermark is not None else 0
        return max(prev, self.marker.txns[-1].commit_ts if self.marker is not None else 0)


class Start(msgspec.Struct, frozen=True):
    """Where to go on: publish what is above `commit_ts`. `fresh`: the stream holds no mark yet.
    `life`: this one, and the chain that it belongs to."""

    commit_ts: int
    prev_commit_ts: int
    state: StreamState
    schema_version: int
    early: tuple[int, ...]
    behind: tuple[int, ...]
    fresh: bool
    life: Risen

    @property
    def epoch(self) -> Epoch:
        return Epoch(self.life.number, self.life.node)


async def read_tail(ports: Ports, feed: str) -> Tail:
    """The stream's end as its leader has it. Raises StreamMissing, Unavailable, NotOurs."""
    bus, stream = ports.bus, subjects.changes_stream(feed)
    while True:
        state = await bus.stream_state(stream)
        if state is None:
            raise StreamMissing(f"stream {stream} does not exist")
        marker = await bus.last_message(stream, subjects.changes_txn(feed))
        watermark = await bus.last_message(stream, subjects.changes_watermark(feed))
        ddl = await bus.last_message(stream, f"changes.{feed}.ddl.>")
        newest = await bus.last_message(stream, f"changes.{feed}.>")
        seen = [m.sequence for m in (marker, watermark, ddl, newest) if m is not None]
        if max(seen, default=0) <= state.last_seq:
            break  # else somebody appended in between: read a state that covers it
    highest, *behind = _versions(ddl, changes.H_PASSED) or (_schema_version(ddl),)
    return Tail(
        state,
        _mark(marker, Marker, stream),
        _mark(watermark, Watermark, stream),
        max(parse_epoch(m) for m in (marker, watermark, newest)),
        highest,
        _versions(ddl, changes.H_EARLY),
        tuple(behind),
    )


def _mark(message: Message | None, kind: type[M], stream: str) -> M | None:
    """Raises NotOurs."""
    if message is None:
        return None
    try:
        mark = msgspec.json.decode(message.data, type=kind)
    except NOT_READABLE as error:
        raise NotOurs(message, stream) from error
    marked = (
        [txn.commit_ts for txn in mark.txns] if isinstance(mark, Marker) else [mark.resolved_ts]
    )
    if not marked or not 0 <= marked[-1] <= TS_MAX:
        raise NotOurs(message, stream)
    return mark


def _schema_version(ddl: Message | None) -> int:
    if ddl is None:
        return 0
    version = ddl.headers.get(changes.H_SCHEMA_VERSION)
    if version is not None:
        return _number(ddl, version)
    if changes.H_FRAGMENT in ddl.headers:  # of a stream that an earlier release wrote
        return 0
    try:
        return msgspec.json.decode(ddl.data, type=DdlMessage).schema_version
    except NOT_READABLE as error:
        stream = subjects.changes_stream(ddl.subject.split(".")[1])
        raise NotOurs(ddl, stream) from error


def _versions(ddl: Message | None, header: str) -> tuple[int, ...]:
    if ddl is None:
        return ()
    versions = ddl.headers.get(header, "").split(",")
    return tuple(_number(ddl, version) for version in versions if version)


async def find_start(config: DrainerConfig, ports: Ports, epoch: Epoch) -> Start:
    """The position, and an epoch above every one in the stream. Creates a missing stream.

    Waits for the registry only when the stream doesn't tell. Raises FeedNotCreated,
    PositionUnknown, Purged, NotOurs, Unavailable.
    """
    tail: Tail | None = None
    with contextlib.suppress(StreamMissing):
        tail = await read_tail(ports, config.feed)
    begin, prev = 0, 0
    if tail is None or tail.commit_ts is None:
        # Before the stream is made: a crash in between must not leave an empty one that looks new.
        begin, prev = await beginning(config, ports)
        hit("drainer.stream.before_creation")
        await _create_stream(config, ports)
        hit("drainer.stream.created")
        tail = await read_tail(ports, config.feed)
    if tail.epoch.number >= epoch.number:
        epoch = await rise(config, ports, tail.epoch.number, own=epoch.number)
    # What another Drainer of the feed wrote meanwhile is where it goes on.
    fresh = tail.commit_ts is None
    if tail.commit_ts is not None:
        begin, prev = tail.commit_ts, tail.prev_commit_ts
    await refuse_departed(config, ports, begin)
    life = await chained(config, ports, epoch, tail.epoch.node if tail.epoch.number else "")
    return Start(begin, prev, tail.state, tail.schema_version, tail.early, tail.behind, fresh, life)


async def _create_stream(config: DrainerConfig, ports: Ports) -> None:
    """Create the stream, smaller where the server's store has no room: it reserves `max_bytes`.

    Raises Unavailable.
    """
    name = subjects.changes_stream(config.feed)
    max_bytes = config.changes_max_bytes
    while True:
        try:
            await ports.bus.stream_create(
                StreamConfig(
                    name,
                    (f"changes.{config.feed}.>",),
                    max_age_s=config.changes_max_age_s,
                    max_bytes=max_bytes,
                )
            )
            return
        except Unavailable as error:
            if max_bytes // 2 < STREAM_MIN_BYTES or await ports.bus.stream_state(name) is not None:
                raise
            max_bytes //= 2
            log.warning("a smaller change stream is tried", max_bytes=max_bytes, reason=str(error))


async def follow_leader(config: DrainerConfig, ports: Ports) -> None:
    """Until it is cancelled, beside another Drainer that leads: notes that this one publishes, for
    the time when its stream is lost."""
    stream = subjects.changes_stream(config.feed)
    while True:
        with contextlib.suppress(Unavailable, StreamMissing, Stopped, Corrupt, DiskFull):
            newest = await ports.bus.last_message(stream, f"changes.{config.feed}.>")
            if parse_epoch(newest).node not in ("", config.node):
                await parted(ports)
                return
        await ports.clock.sleep(FOLLOW_S)
