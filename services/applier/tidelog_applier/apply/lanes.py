"""The lanes: each writes its share of every window, in order, until it is done."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine

import msgspec

from tidelog.downstream import Lane, Work
from tidelog.errors import ConfigError, DiskFull, TidelogError, Unavailable
from tidelog.failpoints import hit
from tidelog.ports import Ports
from tidelog_applier import metrics
from tidelog_applier.apply.trouble import Trouble
from tidelog_applier.position import Position

Spawn = Callable[[Coroutine[None, None, None], str], asyncio.Task[None]]
Connect = Callable[[int], Awaitable[Lane]]
"""Makes the lane of a number."""
Write = Callable[[Lane, bool], Awaitable[None]]
"""Writes something whole through a lane. True: an attempt went before, whose outcome is unknown."""
PASSING = (Unavailable, ConfigError, DiskFull)
"""A ConfigError too: the downstream let us in before, so a password was changed, or a right was
taken away, and may be given back. The disk is our own."""
SILENT_S = 15.0
"""A server that works takes less for one Work, unless something holds it up: then it is said."""


def writes(work: Work) -> Write:
    """One transaction that is ready."""

    async def write(lane: Lane, again: bool) -> None:
        await lane.apply(msgspec.structs.replace(work, safe=True) if again else work)

    return write


class Awaited:
    """A lane whose owner hears of it when the downstream leaves a Work without an answer: one that
    is frozen, or holds a lock, breaks no connection."""

    def __init__(self, lane: Lane, silent: Callable[[], None]) -> None:
        self._lane = lane
        self._silent = silent

    async def apply(self, work: Work) -> None:
        timer = asyncio.get_running_loop().call_later(SILENT_S, self._silent)
        try:
            await self._lane.apply(work)
        finally:
            timer.cancel()

    async def close(self) -> None:
        await self._lane.close()


class LaneRunner:
    """One lane's queue. A connection that broke is replaced, and the same thing written again."""

    def __init__(self, number: int, connect: Connect, ports: Ports, position: Position) -> None:
        self._number = number
        self._connect = connect
        self._trouble = Trouble(ports, position, f"lane {number}")
        self._queue: deque[tuple[Write, Callable[[], None]]] = deque()
        self._wake = asyncio.Event()
        self._lane: Lane | None = None

    def put(self, write: Write, done: Callable[[], None]) -> None:
        self._queue.append((write, done))
        self._wake.set()

    async def run(self) -> None:
        """For ever. Raises what no other try would change."""
        try:
            while True:
                while not self._queue:
                    self._wake.clear()
                    await self._wake.wait()
                write, done = self._queue.popleft()
                await self._certainly(write)
                hit("applier.lanes.written")
                done()
        finally:
            if self._lane is not None:
                await self._lane.close()

    async def _certainly(self, write: Write) -> None:
        """After an unknown outcome again: it comes to the same."""
        again = False
        while True:
            try:
                if self._lane is None:
                    self._lane = Awaited(await self._connect(self._number), self._is_silent)
                hit("applier.lanes.before_write")
                with metrics.EXECUTE_SECONDS.time():
                    await write(self._lane, again)
            except PASSING as error:
                again = True
                lane, self._lane = self._lane, None
                if lane is not None:
                    await lane.close()
                metrics.RECONNECTS.inc()
                await self._trouble.met(error)
                continue
            self._trouble.over()
            return

    def _is_silent(self) -> None:
        what = f"lane {self._number} has waited {SILENT_S:.0f} s for the downstream's answer"
        hint = "its list of processes tells whether it works, waits for a lock, or is frozen"
        self._trouble.say(Unavailable(what, hint=hint))


class Lanes:
    """All of them, made anew with each opening of the downstream. `on_stop`: a lane met an error
    that asking again doesn't change; nothing of its queue is written any more."""

    def __init__(
        self,
        count: int,
        connect: Connect,
        ports: Ports,
        position: Position,
        spawn: Spawn,
        on_stop: Callable[[TidelogError], None],
    ) -> None:
        self._on_stop = on_stop
        self._runners = [LaneRunner(n, connect, ports, position) for n in range(count)]
        self._tasks = [
            spawn(self._run(runner), f"lane-{n}") for n, runner in enumerate(self._runners)
        ]

    def __len__(self) -> int:
        return len(self._runners)

    def put(self, lane: int, write: Write, done: Callable[[], None]) -> None:
        self._runners[lane].put(write, done)

    async def _run(self, runner: LaneRunner) -> None:
        try:
            await runner.run()
        except TidelogError as error:
            self._on_stop(error)

    async def end(self) -> None:
        """Give up what is still on its way, and close every connection."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
