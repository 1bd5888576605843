"""Fake binlogs when idle, under `embedded` only (section 7; original.md B.5).

They move W: the sorter is told the oracle's timestamp, and the log holds it, so that a restart
knows W without asking. They are never indexed: readers by NATS need none, a gRPC reader gets one
made up at resolved_ts.
"""

from __future__ import annotations

from tidelog import payload
from tidelog.actor import Actor, Nothing, Ref
from tidelog.errors import TidelogError
from tidelog.ports import Clock, Oracle
from tidelog_pump.log.segments import Segments
from tidelog_pump.sort.sorter_actor import Allocated, SorterMessage
from tidelog_pump.write.writer import Append, Outcome, WriterMessage


class Faker(Actor[Nothing]):
    def __init__(
        self,
        clock: Clock,
        oracle: Oracle,
        segments: Segments,
        sorter: Ref[SorterMessage],
        writer: Ref[WriterMessage],
        *,
        cluster_id: int,
        interval_s: float,
    ) -> None:
        self._oracle = oracle
        self._segments = segments
        self._sorter = sorter
        self._writer = writer
        self._cluster_id = cluster_id
        self._written = 0
        self._last_error = ""
        self._clock = clock
        self._interval_s = interval_s

    async def on_start(self) -> None:
        self.spawn(self._run(), "fakes")

    async def _run(self) -> None:
        while True:
            end = self._segments.end
            await self._clock.sleep(self._interval_s)
            if end != self._segments.end:
                continue
            try:
                await self._write()
                self._last_error = ""
            except TidelogError as error:
                self._last_error = str(error)

    async def _write(self) -> None:
        ts = await self._oracle.fresh(0)
        fake = payload.fake(ts)
        # Every Prewrite acked before `ts` was allocated is in the sorter's mailbox already.
        await self._sorter.tell(Allocated(ts))
        outcomes: list[Outcome] = await self._writer.ask(
            lambda reply: Append(self._cluster_id, [fake], reply, own=True)
        )
        if outcomes[0] is not None:
            raise outcomes[0]
        self._written += 1

    def status(self) -> dict[str, object]:
        return {"written": self._written, "last_error": self._last_error}
