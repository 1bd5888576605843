"""One replay: a publisher and a collector of its own, on a stream and a directory of its own."""

from __future__ import annotations

import asyncio
import contextlib

import msgspec
import structlog

from tidelog import subjects
from tidelog.actor import Ref
from tidelog.errors import Fatal, Purged, Stopped, StreamMissing, Stuck, TidelogError, Unavailable
from tidelog.lease import LeaseMail, Role
from tidelog.ports import Ports
from tidelog.ranges import DAY_S
from tidelog.rewind import Replay
from tidelog.supervisor import Supervisor
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.mail import AskPublished, PublisherMail
from tidelog_drainer.merge.collector import Collector
from tidelog_drainer.merge.window import Window
from tidelog_drainer.publish.position import read_tail
from tidelog_drainer.publish.publisher import Publisher

SOURCE_BUFFER_BYTES = 4 << 20

log = structlog.get_logger()


class Kept(msgspec.Struct, frozen=True):
    """What a restart must know to go on: for whom, after what ts, up to where."""

    reader: str
    after_ts: int
    upto: int


def replay_config(config: DrainerConfig, kept: Kept) -> DrainerConfig:
    """The feed's own, for the stream that is read as `<feed>=<reader>`."""
    return msgspec.structs.replace(
        config,
        feed=subjects.replay_feed(config.feed, kept.reader),
        node_id=f"{config.node}={kept.reader}",
        start_ts=kept.after_ts,
        source_buffer_bytes=min(config.source_buffer_bytes, SOURCE_BUFFER_BYTES),
        changes_max_age_s=DAY_S,
        changes_max_bytes=0,  # `rewind_bytes` bounds it, at the end of a transaction
    )


class Filling:
    """Fills the stream from its own last mark on, until it ends where the feed was when the reader
    asked. `error`: why it never will."""

    def __init__(
        self,
        config: DrainerConfig,
        ports: Ports,
        lease: Ref[LeaseMail],
        role: Role,
        kept: Kept,
        now: float,
    ) -> None:
        self.kept = kept
        self.config = replay_config(config, kept)
        self.asked_at = now
        self.error: TidelogError | None = None
        self.filled_ts = kept.after_ts
        self.done = False
        self.leaving = False
        """It was ended, and what is left of it goes; nobody fills it any more."""
        self.task: asyncio.Task[None]
        """That runs `run`."""
        self._ports = ports
        self._window = Window(kept.upto, config.rewind_bytes)
        self._stop = asyncio.Event()
        self._tree = Supervisor(f"rewind-{kept.reader}")
        self._publisher: Ref[PublisherMail] = self._tree.actor(
            "publisher", lambda: Publisher(self.config, ports, lease, role)
        )
        self._tree.actor(
            "collector", lambda: Collector(self.config, ports, self._publisher, self._window)
        )

    @property
    def answer(self) -> Replay:
        return Replay(self.config.feed, self._window.until, self.filled_ts)

    async def run(self) -> None:
        """Until it is whole, stopped or failed. Nothing that it meets ends the live feed, but what
        is stuck, and might still write, the process. Raises Stuck."""
        try:
            await self._tree.run(self._stop)
        except Stuck:
            raise
        except TidelogError as error:
            self.error = error
        except Exception as error:  # noqa: BLE001 (a bug that one replay meets ends that one)
            self.error = Fatal(f"{type(error).__name__}: {error}")
        if self.error is not None:
            log.error("a rewind ends", reader=self.kept.reader, error=str(self.error))

    async def end(self) -> None:
        """Fill no further; returns when nothing of it runs."""
        self._stop.set()
        await asyncio.wait([self.task])

    async def look(self) -> None:
        """How far is it? Nothing that it meets ends the live feed, which looks."""
        if self.done or self.error is not None:
            return
        try:
            with contextlib.suppress(Unavailable, StreamMissing):
                await self._look()
        except TidelogError as error:  # as in `run`: it ends this replay, and its reader hears it
            self.error = error
        if self.done or self.error is not None:
            self._stop.set()

    async def _look(self) -> None:
        """Raises Unavailable, StreamMissing, NotOurs."""
        known = await self._publisher.ask(AskPublished)
        self.filled_ts = max(self.filled_ts, known.commit_ts)
        self.error = self._refusal() or (Stopped(known.error) if known.error else None)
        if self.filled_ts >= self._window.until:
            tail = await read_tail(self._ports, self.config.feed)
            self.done = tail.commit_ts is not None and tail.commit_ts >= self._window.until

    def _refusal(self) -> Purged | None:
        """A Pump does not hold any more what is to be filled."""
        collector = self._tree.status().get("collector", {})
        sources: dict[str, dict[str, object]] = collector.get("sources", {})  # type: ignore[assignment]
        for node, source in sources.items():
            if source.get("kind") == Purged.__name__:
                return Purged(f"{node}: {source['error']}")
        return None

    def status(self) -> dict[str, object]:
        return {
            "after_ts": self.kept.after_ts,
            "upto": self._window.until,
            "filled_ts": self.filled_ts,
            "done": self.done,
            "error": str(self.error or ""),
        }
