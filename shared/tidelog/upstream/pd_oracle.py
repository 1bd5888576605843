"""Timestamps from the PD of a TiDB cluster (`pd`, I9), many callers in one request."""

from __future__ import annotations

import asyncio

from tidelog.batched_oracle import BatchedOracle
from tidelog.errors import DeadlineExceeded, InvariantBroken, Unavailable
from tidelog.ports import Clock
from tidelog.timestamps import LOGICAL_MAX, compose
from tidelog.upstream.pd import PAUSE_S, TRY_S, PdClient, parsed
from tidelog.upstream.rpc import Duplex
from tidelog_proto.pdpb_pb2 import TsoRequest, TsoResponse

REQUEST_S = 5.0
"""So long PD is asked: through the choice of another leader, not through the loss of all."""


class PdOracle(BatchedOracle):
    """`ports.Oracle` over one stream to the leader of PD.

    Whatever leaves a request without its answer ends the stream: the next request would else be
    taken to be answered by timestamps that were allocated before it began.
    """

    def __init__(self, pd: PdClient, clock: Clock, *, timeout_s: float = REQUEST_S) -> None:
        super().__init__()
        self._pd = pd
        self._clock = clock
        self._timeout_s = timeout_s
        self._stream: Duplex | None = None
        self._last = 0

    async def _ask(self, total: int) -> int:
        deadline = self._clock.monotonic() + self._timeout_s
        pause_s = PAUSE_S[0]
        while True:
            try:
                return await self._once(total)
            except Unavailable:
                if self._clock.monotonic() + pause_s > deadline:
                    raise
            await self._clock.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_S[1])

    async def _once(self, total: int) -> int:
        leader = await self._pd.leader()
        answered = False
        try:
            async with asyncio.timeout(TRY_S):
                answer = await self._exchange(leader, total)
            self._pd.check(answer)
            last = self._last_of(answer, total)
            answered = True
        except TimeoutError:
            raise DeadlineExceeded(f"{leader} gave no timestamp within {TRY_S} s") from None
        finally:
            if not answered:
                self.close()
                self._pd.leave(leader)
        return last

    async def _exchange(self, leader: str, total: int) -> TsoResponse:
        if self._stream is None:
            self._stream = self._pd.timestamps(leader)
        request = TsoRequest(header=self._pd.header, count=total)
        await self._stream.send(request.SerializeToString())
        return parsed(TsoResponse, await self._stream.receive())

    def _last_of(self, answer: TsoResponse, total: int) -> int:
        """Raises Unavailable, InvariantBroken."""
        given = answer.timestamp
        if answer.count != total or given.suffix_bits or given.logical > LOGICAL_MAX:
            raise Unavailable(
                f"PD gave {answer.count} timestamps up to {given.physical}.{given.logical} where"
                f" {total} were asked for",
                hint="local timestamps (enable-local-tso) are not for a cluster with binlogs",
            )
        last = compose(given.physical, given.logical)
        if last - total < self._last:
            raise InvariantBroken(
                f"PD gave timestamps from {last - total + 1} on after it had given {self._last}",
                hint="its clock or its store went back: nothing it gives now can be trusted",
            )
        self._last = last
        return last

    def close(self) -> None:
        """The stream; the next call opens another."""
        if self._stream is not None:
            stream, self._stream = self._stream, None
            stream.close()
