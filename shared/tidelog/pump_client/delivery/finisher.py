"""Delivers Commits and Rollbacks, again and again for ten minutes (appendix A.2).

The first try starts in the caller; what fails comes back here. When one is acked, every other
Pump that was tried with the Prewrite gets a Rollback, never earlier (design section 7): until the
Commit is safe, the other copy is what is left if that Pump is lost.
"""

from __future__ import annotations

import asyncio
from functools import partial

import structlog

from tidelog.actor import Actor, Nothing, Ref
from tidelog.errors import (
    ActorStopped,
    BadInput,
    InvariantBroken,
    NotOnline,
    TidelogError,
    Unavailable,
)
from tidelog.failpoints import hit
from tidelog.ports import Clock
from tidelog.pump_client.delivery.backlog import Backlog, Finish
from tidelog.pump_client.delivery.send import Send
from tidelog.pump_client.errors import NotSent
from tidelog.pump_client.metrics import GIVEN_UP
from tidelog.pump_client.routing.pump_list import PumpList
from tidelog_proto.binlog_pb2 import Binlog, Rollback

log = structlog.get_logger()


class Delivery:
    """Sends one Finish and decides by the answer. Synchronous but for `accept`: it runs in replies'
    callbacks."""

    def __init__(
        self, pumps: PumpList, backlog: Backlog, clock: Clock, *, finish_timeout_s: float
    ) -> None:
        self._pumps = pumps
        self._backlog = backlog
        self._clock = clock
        self._timeout_s = finish_timeout_s

    def deadline(self) -> float:
        return self._clock.monotonic() + self._timeout_s

    async def accept(self, item: Finish) -> None:
        """Waits for room in the backlog; from then on (`item.accepted`) it is sent, also if the
        caller goes away. Returns when it is on its way: waits while the lane is full."""
        await self._backlog.enter(item)
        lane = self._lane(item)
        if lane is None:
            return
        reply = lane.reply(partial(self._settled, item))
        try:
            hit("client.backlog.entered")
            send = Send(item.payload, reply)
            if not lane.try_tell(send):
                await lane.tell(send)
        except Unavailable as error:
            reply.fail(error)
        except BaseException:
            reply.fail(NotSent("the caller went away"))
            raise

    async def acked(self, item: Finish) -> None:
        """Accepted, and acked. Raises what it was given up for."""
        ack = answered(item)
        await self.accept(item)
        await ack

    def follow_up(self, item: Finish) -> None:
        """Beside one that was accepted: sent with the finisher's next tick."""
        self._backlog.enter_now(item)
        self._backlog.postpone(item, 0.0)

    def try_accept(self, item: Finish) -> bool:
        """Sent with the finisher's next tick; False when there is no room for it."""
        if not self._backlog.try_enter(item):
            return False
        self._backlog.postpone(item, 0.0)
        return True

    def again(self, item: Finish) -> None:
        """A later try: postponed again when the lane is full or not there."""
        lane = self._lane(item)
        if lane is None:
            return
        reply = lane.reply(partial(self._settled, item))
        try:
            hit("client.finisher.before_retry")
            if not lane.try_tell(Send(item.payload, reply)):
                reply.fail(NotSent(f"the way to {item.node} is full"))
        except Unavailable as error:
            reply.fail(error)

    def _lane(self, item: Finish) -> Ref[Send] | None:
        item.tries += 1
        pump = self._pumps.pumps.get(item.node)
        if pump is not None and pump.lane is not None and pump.lane.alive:
            return pump.lane
        self._settled(item, None, ActorStopped(f"no way to {item.node}"))
        return None

    def _settled(self, item: Finish, _: None, error: Exception | None) -> None:
        if error is None or (self._has_left(item.node, error) and _is_rollback(item)):
            self._abandon(item)
            self._left(item, None)
        elif (
            isinstance(error, BadInput | InvariantBroken)
            or self._clock.monotonic() >= item.deadline
        ):
            self._give_up(item, error)
        else:
            self._backlog.postpone(item, self._clock.monotonic() + item.delay())

    def _has_left(self, node: str, error: Exception) -> bool:
        """A Pump refuses an end only when it has left, with nothing open: there is nothing to roll
        back."""
        return isinstance(error, NotOnline) or self._pumps.has_tombstone(node)

    def _abandon(self, item: Finish) -> None:
        """A Rollback to every other Pump that was tried with the Prewrite."""
        others, item.others = item.others, []
        for node in others:
            payload = Binlog(tp=Rollback, start_ts=item.start_ts).SerializeToString()
            self.follow_up(Finish(item.start_ts, payload, node, self.deadline()))

    def _give_up(self, item: Finish, error: Exception) -> None:
        GIVEN_UP.inc()
        log.warning(
            "a finish was given up", start_ts=item.start_ts, node=item.node, error=str(error)
        )
        self._left(item, error if isinstance(error, TidelogError) else TidelogError(str(error)))

    def _left(self, item: Finish, error: TidelogError | None) -> None:
        self._backlog.leave(item)
        if item.done is not None:
            item.done(error)


def _is_rollback(item: Finish) -> bool:
    return Binlog.FromString(item.payload).tp == Rollback


def answered(item: Finish) -> asyncio.Future[None]:
    """Done when the item is acked, or given up."""
    acked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    item.done = partial(_answer, acked)
    return acked


def _answer(acked: asyncio.Future[None], error: TidelogError | None) -> None:
    if acked.done():
        return
    if error is None:
        acked.set_result(None)
    else:
        acked.set_exception(error)


class Finisher(Actor[Nothing]):
    """The clock of the deliveries: sends what is due."""

    tick_s = 0.1

    def __init__(self, delivery: Delivery, backlog: Backlog, clock: Clock) -> None:
        self._delivery = delivery
        self._backlog = backlog
        self._clock = clock

    async def on_tick(self) -> None:
        for item in self._backlog.take_due(self._clock.monotonic()):
            self._delivery.again(item)

    def status(self) -> dict[str, object]:
        return {"unacked": self._backlog.open, "unacked_bytes": self._backlog.bytes}
