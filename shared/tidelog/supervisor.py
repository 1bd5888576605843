"""Supervision after OTP: children start in order and stop in reverse, a crash restarts the rest.

`rest_for_one`: when a child crashes, it and all children after it are ended and started anew, with
fresh instances. More than `max_restarts` in `window_s`, or a `Fatal` error, is escalated: `run`
raises it, the process exits, and the orchestrator starts it again (design section 3).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import structlog

from tidelog.actor import Actor, Cell, Ref
from tidelog.errors import Fatal, Stuck, TidelogError
from tidelog.routes import Handler, Route

M = TypeVar("M")
log = structlog.get_logger()

WATCH_S = 1.0
STOP_S = 30.0
END_S = 10.0
"""What does not end in that time is cancelled again: a library may have lost that."""
END_TRIES = 3
THREAD_S = 5.0


class BeginAnew(TidelogError):
    """What an actor ends by that goes on from what is durable in another life. It was no crash, but
    counts among the restarts: one that does so again and again does not go on for ever."""


class Child:
    """A place in the tree: the address, how to make an instance, the present life."""

    def __init__(self, ref: Ref[Any], factory: Callable[[], Actor[Any]], restart_at: int) -> None:
        self.ref = ref
        self.factory = factory
        self.restart_at = restart_at
        self.cell: Cell[Any] | None = None
        self.task: asyncio.Task[None] | None = None
        self.cancelled = 0
        """How often, and when it will be again."""
        self.again_at = 0.0


class Supervisor:
    def __init__(self, name: str, *, max_restarts: int = 3, window_s: float = 30.0) -> None:
        self.name = name
        self.ready = False
        self._max_restarts = max_restarts
        self._window_s = window_s
        self.routes: list[Route] = []
        """What the service adds to its admin HTTP server."""
        self._children: list[Child] = []
        self._restarts: deque[float] = deque()
        self.restarts_total = 0
        self._stopping: asyncio.Future[bool]
        self._stuck: Stuck | None = None
        self._fatal: Fatal | None = None
        """Of a start that was cut short: the others end first."""
        self._cut_by: tuple[Child, BaseException] | None = None
        """The crash that cut it: whoever made no progress may do so again by the time that the one
        that was starting has ended, and what was not started would never be."""

    def actor(
        self, name: str, factory: Callable[[], Actor[M]], *, shares: Ref[Any] | None = None
    ) -> Ref[M]:
        """Add a child after the present ones; returns its address.

        `shares`: an earlier child that owns state this one works on; a crash restarts both.
        """
        ref: Ref[M] = Ref(f"{self.name}.{name}")
        owners = [at for at, child in enumerate(self._children) if child.ref is shares]
        if shares is not None and not owners:
            raise ValueError(f"{shares.name} is no earlier child of {self.name}")
        restart_at = self._children[owners[0]].restart_at if owners else len(self._children)
        self._children.append(Child(ref, factory, restart_at))
        return ref

    def route(self, method: str, path: str, handler: Handler, *, admin: bool = False) -> None:
        """Serve a path of the admin HTTP server by calling actors (`tidelog.routes`); with `admin`
        to whom has the admin token."""
        self.routes.append(Route(method, path, handler, admin))

    def status(self) -> dict[str, dict[str, object]]:
        """What each living actor says of itself, by its name."""
        return {
            child.ref.name.partition(".")[2]: _said(child.cell)
            | {"mailbox": len(child.cell.mailbox), "mailbox_bytes": child.cell.mailbox.bytes}
            for child in self._children
            if child.cell is not None and not child.cancelled
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` (ends children in reverse, returns) or until an error escalates. A Fatal
        one that a child meets while it ends is raised too, once all have ended."""
        stopping = self._stopping = asyncio.ensure_future(stop.wait())
        try:
            await self._start_from(0)
            while not stop.is_set():
                if self._cut_by is None:
                    await self._watch()
                crash, self._cut_by = self._cut_by or self._crash(), None
                if not stop.is_set() and crash is not None:
                    await self._restart_from(*crash)
            self.ready = False
            await self._stop_from(0)
        finally:
            self.ready = False
            stopping.cancel()
            try:
                await self._cancel_from(0)
            finally:
                if self._stuck is not None:  # whatever else ends us: it may still write
                    raise self._stuck

    async def _watch(self, *also: asyncio.Future[Any]) -> None:
        """Until a child ends, or it is told to stop, or for WATCH_S."""
        waited_for: list[asyncio.Future[Any]] = [self._stopping, *also]
        waited_for += [child.task for child in self._children if child.task is not None]
        await asyncio.wait(waited_for, timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)

    def _crash(self) -> tuple[Child, BaseException] | None:
        """The first child that had started and does not go on, and why. Raises Stuck."""
        for child in self._children:
            if child.cell is not None and child.cell.started.is_set():
                error = _trouble(child)
                if error is not None:
                    return child, error
        return None

    async def _restart_from(self, crashed: Child, error: BaseException) -> None:
        name, position = crashed.ref.name, crashed.restart_at
        now = asyncio.get_running_loop().time()
        self._restarts.append(now)
        self.restarts_total += 1
        while self._restarts and now - self._restarts[0] > self._window_s:
            self._restarts.popleft()
        if isinstance(error, BeginAnew):
            log.info("actor begins anew", actor=name, why=error.message)
        else:
            log.error("actor crashed", actor=name, error=str(error), kind=type(error).__name__)
        if isinstance(error, Fatal) or len(self._restarts) > self._max_restarts:
            raise error
        self.ready = False
        fatal = await self._cancel_from(position) or self._fatal
        if fatal is not None:
            raise fatal
        await self._start_from(position)

    async def _start_from(self, position: int) -> None:
        """Until all run, or until it is told to stop, or one that runs crashes: a start may take
        long, and neither waits for that. The child that is starting then is ended, no further one
        begins."""
        for child in self._children[position:]:
            cell: Cell[Any] = Cell(child.ref, child.factory())
            child.cell = cell
            child.task = asyncio.get_running_loop().create_task(cell.run(), name=child.ref.name)
            if not await self._starts(child, cell):
                log.info("a start is cut short", actor=child.ref.name)
                error = await self._end(child)
                self._fatal = error if isinstance(error, Fatal) else None
                return
        self.ready = not self._stopping.done()

    async def _starts(self, child: Child, cell: Cell[Any]) -> bool:
        """Whether it does before what cuts a start short. Raises what the start fails by, unless
        another one has crashed: it may have failed by that."""
        started = asyncio.ensure_future(cell.started.wait())
        try:
            while not cell.started.is_set():
                self._cut_by = self._crash()
                if self._cut_by is not None:
                    return False
                error = _trouble(child)
                if error is not None:
                    raise error
                if self._stopping.done():
                    return False
                await self._watch(started)
        finally:
            started.cancel()
        return True

    async def _stop_from(self, position: int) -> None:
        """Graceful: each child in reverse handles what it has, within STOP_S. Raises Stuck at once:
        what comes before may own what is still being written."""
        failed = self._fatal
        for child in reversed(self._children[position:]):
            if self._stuck is not None:
                raise self._stuck
            if child.task is None or child.cell is None:
                continue
            child.cell.stop()
            await asyncio.wait([child.task], timeout=STOP_S)
            error = await self._end(child)
            if isinstance(error, Fatal):
                failed = failed or error
        if failed is not None:
            raise failed

    async def _cancel_from(self, position: int) -> Fatal | None:
        """The first fatal error that they end with. Who is cancelled here is so once all have
        ended: none lives on beside a fresh instance."""
        fatal: Fatal | None = None
        cancelled: asyncio.CancelledError | None = None
        for child in reversed(self._children[position:]):
            while child.task is not None:
                try:
                    error = await self._end(child)
                except asyncio.CancelledError as met:
                    cancelled = met
                else:
                    fatal = fatal or (error if isinstance(error, Fatal) else None)
        if cancelled is not None:
            raise cancelled
        return fatal

    async def _end(self, child: Child) -> BaseException | None:
        """What it ended with, if it was an error; Stuck if it does not end, or something of it does
        not. Who is cancelled here comes again and waits on."""
        task, cell = child.task, child.cell
        if task is None or cell is None:
            return None
        error: BaseException | None
        if not await _ended(child, task, cell):
            error = Stuck(f"{child.ref.name} does not end")
        elif not await _alone(cell):
            error = Stuck(f"{child.ref.name} left a call running in a thread")
        else:
            error = None if task.cancelled() else task.exception()
        child.task, child.cell, child.cancelled, child.again_at = None, None, 0, 0.0
        if isinstance(error, Stuck):
            self._stuck = self._stuck or error
        if error is not None:
            log.debug("actor ended with an error", actor=child.ref.name, error=str(error))
        return error


def _trouble(child: Child) -> BaseException | None:
    """Why it does not go on, if it does not. Raises Stuck."""
    now = asyncio.get_running_loop().time()
    if child.task is None or child.cell is None:
        return None
    if child.task.done():
        return child.task.exception() or TidelogError(f"{child.ref.name} ended by itself")
    if child.cell.outlived_s(now) > END_S:
        return TidelogError(f"{child.ref.name} ended, and a task of it does not")
    if child.cell.stuck(now):
        if child.cell.calls:
            raise Stuck(f"{child.ref.name} hangs in a call that can't be ended")
        return TidelogError(f"{child.ref.name} made no progress")
    return None


async def _ended(child: Child, task: asyncio.Task[None], cell: Cell[Any]) -> bool:
    """Cancel it, again and again if need be: a library may lose that, or one of its tasks did, and
    its group cancels them once only. Whether it has ended then."""
    while not task.done():
        now = asyncio.get_running_loop().time()
        if now >= child.again_at:
            if child.cancelled == END_TRIES:
                return False
            if child.cancelled:
                log.warning("an actor does not end", actor=child.ref.name, tries=child.cancelled)
                for one in cell.all_tasks():
                    one.cancel()
            task.cancel()
            child.cancelled, child.again_at = child.cancelled + 1, now + END_S
        await asyncio.wait([task], timeout=child.again_at - now)
    return True


async def _alone(cell: Cell[Any]) -> bool:
    """Whether no call of it in a thread outlives it for long."""
    if cell.calls:
        _, running = await asyncio.wait(cell.calls, timeout=THREAD_S)
        return not running
    return True


def _said(cell: Cell[Any]) -> dict[str, object]:
    """One whose disk or index fails ends soon; until then the others can be read."""
    if not cell.started.is_set():
        return {"starting": True, **cell.actor.starting()}
    try:
        return cell.actor.status()
    except TidelogError as error:
        return {"not_ready": str(error)}
