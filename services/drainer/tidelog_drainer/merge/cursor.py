"""One Pump's cursor: one long poll outstanding, as long as the collector has room (section 8)."""

from __future__ import annotations

from datetime import UTC, datetime

import structlog

from tidelog import subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.backoff import backoff_s
from tidelog.compression import unpack
from tidelog.errors import Fatal, TidelogError, Unavailable, told_error
from tidelog.failpoints import hit
from tidelog.filter.unwanted import Unwanted
from tidelog.ports import Ports
from tidelog.timestamps import age_s
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.mail import CollectorMail, Nudge, Pulled
from tidelog_drainer.merge.inbound import Inbound
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.merge.spool import Spool, SpoolFull
from tidelog_drainer.metrics import PULL_ERRORS, PULLED_BYTES, PULLED_TXNS, REACH_SECONDS
from tidelog_proto.transport_pb2 import PullFrame, PullRequest

WAIT_MS = 1000
TIMEOUT_S = 2.5
NUDGE_TIMEOUT_S = 1.0
BACKOFF_MIN_S = 0.05
BACKOFF_MAX_S = 2.0

log = structlog.get_logger()


class Cursor(Actor[Nudge]):
    """Reads one Pump from `after_ts` on, for ever; an unreachable Pump is asked again.

    The collector only ever tries to tell it (never waits), so the way back makes no cycle.
    """

    max_count = 16

    def __init__(
        self,
        config: DrainerConfig,
        ports: Ports,
        collector: Ref[CollectorMail],
        node: str,
        after_ts: int,
        spool: Spool,
    ) -> None:
        self._config = config
        self._ports = ports
        self._collector = collector
        self._node = node
        self._subject = subjects.pump(config.cluster, node, "pull")
        self._inbound = Inbound(node, after_ts, spool)
        self._failures = 0
        self._error = self._kind = ""
        self._since_ms = 0
        """When the first of `_failures` was; wall clock, for people."""
        self._high_ts = 0
        self._unwanted = Unwanted()

    async def on_start(self) -> None:
        self.spawn(self._pull_for_ever(), "pull")

    async def on_batch(self, batch: list[Nudge]) -> None:
        """One request for all that waited: at most one nudge is outstanding. Its answer's r is
        not used, since what lies below it comes with the long poll that it wakes."""
        want = PullRequest(
            after_ts=self._inbound.after_ts,
            want_ts=max(nudge.want_ts for nudge in batch),
            feed=self._config.feed,
        )
        try:
            await self._ports.bus.request(
                self._subject, want.SerializeToString(), timeout_s=NUDGE_TIMEOUT_S
            )
        except TidelogError:
            return  # the collector nudges again while it waits, and the pull tells what is wrong

    async def _pull_for_ever(self) -> None:
        while True:
            try:
                frame = await self._pull()
                hit("drainer.cursor.pulled")
                before_ts = self._inbound.after_ts
                txns, size = self._inbound.take(frame)
                await self._inbound.flush(before_ts)
            except TidelogError as error:
                await self._wait_after(error)
                continue
            self._failures, self._error = 0, ""
            self._high_ts = max(self._high_ts, frame.high_ts)
            if txns:
                self._count(txns, size)
            resolved = frame.resolved_ts

            left_out = frame.left_out

            def pulled(reply: Reply[Unwanted], txns: list[Txn] = txns, size: int = size) -> Pulled:
                return Pulled(self._node, txns, resolved, size, left_out, reply)  # noqa: B023

            self._unwanted = await self._collector.ask(pulled)

    def _count(self, txns: list[Txn], size: int) -> None:
        oldest = txns[0][0]
        PULLED_TXNS.labels(self._node).inc(len(txns))
        PULLED_BYTES.labels(self._node).inc(size)
        REACH_SECONDS.labels(self._node).observe(age_s(oldest, self._ports.clock.wall_ms()))

    async def _pull(self) -> PullFrame:
        request = self._inbound.ask(self._config.feed, self._config.pull_bytes, WAIT_MS)
        request.compression = self._config.pull_compression
        request.unwanted_table_ids.extend(self._unwanted.table_ids)
        request.unwanted_upto_version = self._unwanted.upto_version
        answer = await self._ports.bus.request(
            self._subject, request.SerializeToString(), timeout_s=TIMEOUT_S
        )
        frame = unpack(answer.data)
        if frame.code:
            raise told_error([frame.code], frame.message)
        return frame

    async def _wait_after(self, error: TidelogError) -> None:
        """A typed stop of the Pump (purged, corrupt) waits like an unreachable one: the merge
        stands still, says for whom and why, and goes on when somebody has mended it."""
        PULL_ERRORS.labels(self._node).inc()
        if not self._error and not isinstance(error, Unavailable):
            what = "a pump refuses to be read"
            if isinstance(error, SpoolFull):
                what = "a large transaction finds no room"
            log.warning(what, pump=self._node, error=str(error))
        if not isinstance(error, Unavailable):
            self._inbound.reset()
        self._error, self._kind = str(error), type(error).__name__
        most_s = BACKOFF_MAX_S * 2 if isinstance(error, Fatal) else BACKOFF_MAX_S
        pause_s = backoff_s(self._failures, BACKOFF_MIN_S, most_s, self._ports.rng)
        if not self._failures:
            self._since_ms = self._ports.clock.wall_ms()
        self._failures += 1
        await self._ports.clock.sleep(pause_s)

    def status(self) -> dict[str, object]:
        shown: dict[str, object] = {"after_ts": self._inbound.after_ts, "high_ts": self._high_ts}
        large = self._inbound.spooling
        if large is not None:
            shown["receiving"] = dict(zip(("commit_ts", "bytes", "of"), large, strict=True))
        if self._error:
            since = datetime.fromtimestamp(self._since_ms / 1000, UTC)
            shown |= {
                "error": self._error,
                "kind": self._kind,
                "failures": self._failures,
                "since": f"{since:%Y-%m-%d %H:%M:%S}",
            }
        return shown
