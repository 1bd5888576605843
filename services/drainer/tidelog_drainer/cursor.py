"""One Pump's cursor: one long poll outstanding, as long as the collector has room (section 8)."""

from __future__ import annotations

import structlog

from tidelog import subjects
from tidelog.actor import Actor, Ref, Reply
from tidelog.compression import unpack
from tidelog.errors import Fatal, TidelogError, Unavailable, error_class
from tidelog.ports import Ports
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.inbound import Inbound
from tidelog_drainer.mail import CollectorMail, Nudge, Pulled
from tidelog_drainer.merger import Txn
from tidelog_drainer.metrics import PULL_ERRORS
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
    ) -> None:
        self._config = config
        self._ports = ports
        self._collector = collector
        self._node = node
        self._subject = subjects.pump(config.cluster, node, "pull")
        self._inbound = Inbound(node, after_ts)
        self._failures = 0
        self._error = ""
        self._high_ts = 0

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
        except Unavailable:
            return  # the collector nudges again while it waits

    async def _pull_for_ever(self) -> None:
        while True:
            try:
                frame = await self._pull()
                txns, size = self._inbound.take(frame)
            except TidelogError as error:
                await self._wait_after(error)
                continue
            self._failures, self._error = 0, ""
            self._high_ts = max(self._high_ts, frame.high_ts)
            resolved = frame.resolved_ts

            def pulled(reply: Reply[None], txns: list[Txn] = txns, size: int = size) -> Pulled:
                return Pulled(self._node, txns, resolved, size, reply)  # noqa: B023

            await self._collector.ask(pulled)

    async def _pull(self) -> PullFrame:
        request = self._inbound.ask(self._config.feed, self._config.pull_bytes, WAIT_MS)
        request.compression = self._config.pull_compression
        answer = await self._ports.bus.request(
            self._subject, request.SerializeToString(), timeout_s=TIMEOUT_S
        )
        frame = unpack(answer.data)
        if frame.code:
            raise error_class(frame.code)(frame.message)
        return frame

    async def _wait_after(self, error: TidelogError) -> None:
        """A typed stop of the Pump (purged, corrupt) waits like an unreachable one: the merge
        stands still, says for whom and why, and goes on when somebody has mended it."""
        PULL_ERRORS.labels(self._node).inc()
        if not self._error and not isinstance(error, Unavailable):
            log.warning("a pump refuses to be read", pump=self._node, error=str(error))
        if not isinstance(error, Unavailable):
            self._inbound.reset()
        self._error = str(error)
        worst = BACKOFF_MAX_S * 2 if isinstance(error, Fatal) else BACKOFF_MAX_S
        delay = min(worst, BACKOFF_MIN_S * 2 ** min(self._failures, 10))
        self._failures += 1
        await self._ports.clock.sleep(delay * (0.5 + self._ports.rng.random() / 2))

    def status(self) -> dict[str, object]:
        shown: dict[str, object] = {"after_ts": self._inbound.after_ts, "high_ts": self._high_ts}
        if self._error:
            shown |= {"error": self._error, "failures": self._failures}
        return shown
