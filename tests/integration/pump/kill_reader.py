"""A reader of one Pump over its lives: it goes on where it was, and holds the Pump to its word."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tests.integration.pump.kill_ledger import Reading
from tests.integration.victim import Wrong
from tidelog.compression import unpack
from tidelog.errors import TidelogError
from tidelog.messages import Consumer, SafePointRequest, encode
from tidelog.ports import Bus, Clock, Oracle
from tidelog.subjects import pump, registry
from tidelog_proto.transport_pb2 import PulledTxn, PullFrame, PullRequest

PULL_BYTES = 512 << 10
AGAIN_S = 0.05
KEEP_S = 0.5


class Reader:
    """`life` counts the Pump's processes: within one of them resolved_ts never goes back."""

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        oracle: Oracle,
        cluster: str,
        node: str,
        feed: str,
        reading: Reading,
        life: Callable[[], int],
    ) -> None:
        self.reading = reading
        self.progress = asyncio.Event()
        self._bus = bus
        self._clock = clock
        self._oracle = oracle
        self._subject = pump(cluster, node, "pull")
        self._safepoint = registry(cluster, "safepoint")
        self._feed = feed
        self._life = life
        self._resolved = (0, 0)

    async def run(self) -> None:
        """For ever. Raises Wrong."""
        while True:
            try:
                await self.step()
            except TidelogError:
                await self._clock.sleep(AGAIN_S)  # The Pump is down, or hardly there.

    async def register(self) -> None:
        """As a consumer that the safe point waits for; its position follows, as a Drainer's."""
        while True:
            consumer = Consumer("rig", self._feed, self.reading.position)
            body = encode(SafePointRequest(consumer))
            await self._bus.request(self._safepoint, body, timeout_s=10)
            await self._clock.sleep(KEEP_S)

    async def step(self) -> None:
        """One pull. Raises TidelogError if the Pump does not answer, Wrong."""
        await self._nudge()
        reading = self.reading
        txns: list[PulledTxn] = []
        frame = await self._pull(reading.position, max_bytes=PULL_BYTES, wait_ms=200)
        while frame.txns and _is_cut(frame.txns[-1]):
            cut = frame.txns.pop()
            txns += frame.txns
            at = cut.offset + len(cut.payload)
            frame = await self._pull(
                reading.position, max_bytes=PULL_BYTES, commit_ts=cut.commit_ts, offset=at
            )
            frame.txns[0].payload = cut.payload + frame.txns[0].payload
            frame.txns[0].offset = 0
        for txn in (*txns, *frame.txns):
            reading.take(txn.commit_ts, txn.start_ts, txn.payload)
            if txn.commit_ts > frame.resolved_ts:
                raise Wrong(f"{txn.commit_ts} lies in a frame resolved to {frame.resolved_ts}")
        reading.advance(frame.resolved_ts)
        self.progress.set()

    async def _nudge(self) -> None:
        life = self._life()
        want_ts = await self._oracle.fresh(0)
        frame = await self._pull(self.reading.position, max_bytes=0, want_ts=want_ts)
        if life != self._life():
            return  # Whose answer this is, nobody knows.
        (same, before), self._resolved = self._resolved, (life, frame.resolved_ts)
        if same == life and frame.resolved_ts < before:
            raise Wrong(f"resolved_ts went back from {before} to {frame.resolved_ts}")

    async def _pull(
        self, after_ts: int, *, max_bytes: int, want_ts: int = 0, wait_ms: int = 0,
        commit_ts: int = 0, offset: int = 0,
    ) -> PullFrame:  # fmt: skip
        wanted = PullRequest(
            after_ts=after_ts,
            max_bytes=max_bytes,
            want_ts=want_ts,
            wait_ms=wait_ms,
            commit_ts=commit_ts,
            offset=offset,
            feed=self._feed,
        )
        answer = await self._bus.request(self._subject, wanted.SerializeToString(), timeout_s=1)
        frame = unpack(answer.data)
        if frame.code:
            raise Wrong(f"a pull after {after_ts} is answered {frame.code}: {frame.message}")
        return frame


def _is_cut(txn: PulledTxn) -> bool:
    return txn.offset + len(txn.payload) < txn.total
