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
from tidelog.errors import Fatal, TidelogError
from tidelog.routes import Handler, Route

M = TypeVar("M")
log = structlog.get_logger()

WATCH_S = 1.0
STOP_S = 30.0
END_S = 10.0
"""What does not end in that time is cancelled again: a library may have lost that."""
END_TRIES = 3
THREAD_S = 5.0


class Stuck(Fatal):
    """An actor made no progress, or does not end, and a call of it may still run in a thread."""


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
        self.ending = False


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
            if child.cell is not None and not child.ending
        }

    async def run(self, stop: asyncio.Event) -> None:
        """Run until `stop` (ends children in reverse, returns) or until an error escalates. A Fatal
        one that a child meets while it ends is raised too, once all have ended."""
        stopping = self._stopping = asyncio.ensure_future(stop.wait())
        try:
            await self._start_from(0)
            self.ready = not stop.is_set()
            while not stop.is_set():
                tasks = [child.task for child in self._children if child.task is not None]
                await asyncio.wait(
                    [*tasks, stopping], timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED
                )
                await self._mend(stop)
            self.ready = False
            await self._stop_from(0)
        finally:
            self.ready = False
            stopping.cancel()
            await self._cancel_from(0)

    async def _mend(self, stop: asyncio.Event) -> None:
        now = asyncio.get_running_loop().time()
        for child in self._children:
            if child.task is None or child.cell is None:
                continue
            error: BaseException | None = None
            if child.task.done() and not stop.is_set():
                error = child.task.exception() or TidelogError(f"{child.ref.name} ended by itself")
            elif child.cell.left_at is not None and now - child.cell.left_at > END_S:
                error = TidelogError(f"{child.ref.name} ended, and a task of it does not")
            elif child.cell.stuck(now):
                error = TidelogError(f"{child.ref.name} made no progress")
                if child.cell.threads:
                    raise Stuck(f"{child.ref.name} hangs in a call that can't be ended")
            if error is not None:
                await self._restart_from(child, error)
                return

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
        await self._cancel_from(position)
        await self._start_from(position)
        self.ready = not self._stopping.done()

    async def _start_from(self, position: int) -> None:
        """Until all run, or until it is told to stop: a start may take long, and whoever waits for
        the end should not wait for that. The child that is starting then is ended, no further one
        begins."""
        for child in self._children[position:]:
            cell: Cell[Any] = Cell(child.ref, child.factory())
            child.cell = cell
            child.task = asyncio.get_running_loop().create_task(cell.run(), name=child.ref.name)
            started = asyncio.ensure_future(cell.started.wait())
            waited_for: list[asyncio.Future[Any]] = [child.task, started, self._stopping]
            try:
                await asyncio.wait(waited_for, return_when=asyncio.FIRST_COMPLETED)
            finally:
                started.cancel()
            if child.task.done() and not cell.started.is_set():
                error = child.task.exception()
                raise (
                    error if error is not None else TidelogError(f"{child.ref.name} never started")
                )
            if not cell.started.is_set():
                log.info("told to stop in the middle of a start", actor=child.ref.name)
                await self._end(child)
                return

    async def _stop_from(self, position: int) -> None:
        """Graceful: each child in reverse handles what it has, within STOP_S."""
        failed: Fatal | None = None
        for child in reversed(self._children[position:]):
            if child.task is None or child.cell is None:
                continue
            child.cell.stop()
            await asyncio.wait([child.task], timeout=STOP_S)
            try:
                error = await self._end(child)
            except Stuck as stuck:
                error = stuck
            if isinstance(error, Fatal):
                failed = failed or error
        if failed is not None:
            raise failed

    async def _cancel_from(self, position: int) -> None:
        """Who is cancelled here is so once all have ended: none lives on beside a fresh instance.
        Raises Stuck, of a child or of a tree in it."""
        raised: Stuck | asyncio.CancelledError | None = None
        for child in reversed(self._children[position:]):
            while child.task is not None:
                try:
                    error = await self._end(child)
                except (Stuck, asyncio.CancelledError) as met:
                    error = met
                if isinstance(error, Stuck):
                    raised = error
                elif isinstance(error, asyncio.CancelledError):
                    raised = raised or error
        if raised is not None:
            raise raised

    async def _end(self, child: Child) -> BaseException | None:
        """What it ended with, if it was an error. Who is cancelled here comes again and waits on.
        Raises Stuck."""
        task, cell = child.task, child.cell
        if task is None or cell is None:
            return None
        if not child.ending:
            child.ending = True
            task.cancel()
        stuck = await _ended(task, cell)
        child.task, child.cell, child.ending = None, None, False
        if stuck:
            raise Stuck(f"{child.ref.name} {stuck}")
        error = None if task.cancelled() else task.exception()
        if error is not None:
            log.debug("actor ended with an error", actor=child.ref.name, error=str(error))
        return error


async def _ended(task: asyncio.Task[None], cell: Cell[Any]) -> str:
    """Wait for a task that was cancelled, and for its calls in threads; what does not end."""
    for again in range(END_TRIES):
        if again:
            log.warning("an actor does not end", actor=cell.ref.name, again=again)
            # A group has cancelled its tasks once, and never will again.
            for one in (*cell.all_tasks(), task):
                one.cancel()
        if not task.done():
            await asyncio.wait([task], timeout=END_S)
        if task.done():
            break
    else:
        return "does not end"
    deadline = asyncio.get_running_loop().time() + THREAD_S
    while cell.threads:
        if asyncio.get_running_loop().time() > deadline:
            return "left a call running in a thread"
        await asyncio.sleep(0.01)
    return ""


def _said(cell: Cell[Any]) -> dict[str, object]:
    """One whose disk or index fails ends soon; until then the others can be read."""
    if not cell.started.is_set():
        return {"starting": True, **cell.actor.starting()}
    try:
        return cell.actor.status()
    except TidelogError as error:
        return {"not_ready": str(error)}
