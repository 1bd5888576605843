"""Gathers calls that come close to each other into one Append: a group of two records costs almost
what one of twenty costs, and a gRPC server is slower than the disk, so groups stay small by
themselves.

A call that is alone goes at once. One that comes while others are being written waits a moment for
more, the longer the more they are: two callers wait for nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from tidelog.actor import Ref, Reply
from tidelog.errors import ActorStopped, TidelogError
from tidelog.ports import Buffer, Clock
from tidelog_pump.write.writer import Append, Outcome, WriterMessage

STEP_S = 0.0005
PAUSE_S = 0.004
"""The pause for each call beyond two that is under way, and the longest: a fraction of what a call
takes when so many come."""
ALONE_BYTES = 64 << 10
"""A larger payload waits for nobody: the copy and the sync of it are what it costs."""

Spawn = Callable[[Coroutine[Any, Any, None], str], object]
Call = tuple[Buffer, asyncio.Future[Outcome]]


class Gatherer:
    """For one edge; `spawn` makes a task of its actor."""

    def __init__(
        self, clock: Clock, writer: Ref[WriterMessage], cluster_id: int, spawn: Spawn
    ) -> None:
        self._clock = clock
        self._writer = writer
        self._cluster_id = cluster_id
        self._spawn = spawn
        self._inside = 0
        self._calls: list[Call] = []
        self.left_bytes = 0
        """Of payloads whose callers went away and which are not written yet."""

    async def write(self, cluster_id: int, payload: Buffer) -> Outcome:
        """What became of one payload. Raises ActorStopped."""
        alone = self._inside == 0 or len(payload) > ALONE_BYTES
        self._inside += 1
        try:
            if alone or cluster_id != self._cluster_id:
                outcomes: list[Outcome] = await self._writer.ask(
                    lambda reply: Append(cluster_id, [payload], reply)
                )
                return outcomes[0]
            future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self._calls.append((payload, future))
            if len(self._calls) == 1:
                self._spawn(self._send(), "gather")
            try:
                return await future
            finally:
                if future.cancelled():
                    self.left_bytes += len(payload)
        finally:
            self._inside -= 1

    async def _send(self) -> None:
        """Wait for more, then write what came. However it ends, every call gets its answer."""
        calls = self._calls
        try:
            await self._clock.sleep(min(PAUSE_S, STEP_S * (self._inside - 2)))
            self._calls = []
            reply: Reply[list[Outcome]] = self._writer.reply(
                lambda outcomes, error: self._settle(calls, outcomes, error)
            )
            payloads = [payload for payload, _ in calls]
            await self._writer.tell(Append(self._cluster_id, payloads, reply))
        except TidelogError as error:
            self._settle(calls, None, error)
        except BaseException:
            if self._calls is calls:
                self._calls = []
            self._settle(calls, None, ActorStopped("the gRPC edge is ending"))
            raise

    def _settle(
        self, calls: list[Call], outcomes: list[Outcome] | None, error: Exception | None
    ) -> None:
        """Answer the calls whose callers still wait, and let go of all; once, however often a
        reply that could not be sent fails."""
        if outcomes is None:
            lost = error if isinstance(error, TidelogError) else ActorStopped(str(error))
            outcomes = [lost] * len(calls)
        for (payload, future), outcome in zip(calls, outcomes, strict=True):
            if future.cancelled():
                self.left_bytes -= len(payload)
            elif not future.done():
                future.set_result(outcome)
        calls.clear()
