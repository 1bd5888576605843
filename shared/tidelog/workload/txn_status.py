"""Serves `tidelog.<c>.txnstatus` for the source (design section 5)."""

from __future__ import annotations

import msgspec

from tidelog.actor import Actor
from tidelog.errors import TidelogError, UnparsablePayload
from tidelog.messages import TxnStatusReply, TxnStatusRequest, decode, encode, encode_error
from tidelog.ports import Bus, Clock, Request, Subscription
from tidelog.pump_client.decisions.owner import owner_of
from tidelog.subjects import txnstatus
from tidelog.workload.outcomes import Outcomes

RETRY_S = 0.2


class Ask(msgspec.Struct, frozen=True):
    request: Request


class TxnStatusServer(Actor[Ask]):
    def __init__(self, bus: Bus, clock: Clock, cluster: str, outcomes: Outcomes) -> None:
        self._clock = clock
        self._bus = bus
        self._subject = txnstatus(cluster)
        self._outcomes = outcomes
        self._served: Subscription | None = None
        self.asked = 0

    async def on_start(self) -> None:
        while self._served is None:
            try:
                self._served = await self._bus.serve(self._subject, self._receive)
            except TidelogError:
                await self._clock.sleep(RETRY_S)

    async def _receive(self, request: Request) -> None:
        await self.self_ref.tell(Ask(request))

    async def on_batch(self, batch: list[Ask]) -> None:
        for ask in batch:
            self.asked += 1
            try:
                question = decode(ask.request.data, TxnStatusRequest)
            except UnparsablePayload as error:
                ask.request.respond(encode_error(error))
                continue
            if owner_of(question.prewrite_key):
                continue  # a Writer's: it alone knows
            verdict = self._outcomes.verdict(question.start_ts, force=question.force)
            ask.request.respond(encode(TxnStatusReply(verdict.state, verdict.commit_ts)))

    async def on_stop(self) -> None:
        if self._served is not None:
            await self._served.close()

    def status(self) -> dict[str, object]:
        return {"asked": self.asked, "unasked": self._outcomes.unasked()}
