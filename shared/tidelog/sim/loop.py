"""A seeded asyncio event loop on virtual time (design section 3; reliability 2.3).

Time stands still while anything is ready and jumps to the next timer when nothing is. Task steps
that are ready together run in a seeded order; plain callbacks keep their order, because asyncio
itself relies on it. There are no sockets, signals or threads. The same seed gives the same run,
whatever PYTHONHASHSEED is: tasks and futures hash by their serial number, so that sets of them
(TaskGroup, asyncio.wait) iterate alike.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import random
from collections.abc import Callable, Coroutine, Generator
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any, TypeVar, TypeVarTuple, Unpack
from weakref import ref

from tidelog.sim.life import Life, current_life

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

STEP_S = 1e-6
"""What one callback costs on the virtual clock, so that a busy loop can't stop time."""
THREAD_DELAY_S = 0.002
HOLD_S = 0.05
ALL_TASKS = "*"
DRAIN_ROUNDS = 200


class SimulationError(AssertionError):
    """The simulated program did something that no run may do."""


class Deadlock(SimulationError):
    """Nothing is ready and no timer is set: every task waits for ever."""


class LimitReached(SimulationError):
    """The run went past its bound of steps or of virtual time."""


class CallbackFailed(SimulationError):
    """An exception left a plain callback; asyncio would only have logged it."""


class SimFuture(asyncio.Future[T]):
    def __init__(self, serial: int, loop: SimLoop) -> None:
        self._serial = serial
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._serial


class SimTask(asyncio.Task[T]):
    """Knows the simulated process that it belongs to: the one that created it."""

    def __init__(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        serial: int,
        loop: SimLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        self.serial = serial
        self.life: Life | None = current_life.get()
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.serial


class SimHandle(asyncio.Handle):
    """asyncio's, without what that asks its loop for debugging: a history makes ten thousands."""

    __slots__ = ()

    def __init__(self, callback: Any, args: Any, loop: SimLoop, context: Context | None) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback, self._args = None, ()


class SimTimer(SimHandle, asyncio.TimerHandle):
    """A cancelled one stays in the heap until its time; it then does nothing."""

    __slots__ = ()


class SimLoop(asyncio.BaseEventLoop):
    """Limits: `max_steps` callbacks, `max_virtual_s` seconds; beyond them LimitReached."""

    _ready: Any

    def __init__(
        self, seed: int | str, *, max_steps: int = 20_000_000, max_virtual_s: float = 36_000.0
    ) -> None:
        super().__init__()
        self._rng = random.Random(f"loop/{seed}")
        self._now = 0.0
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._serials = 0
        self._tasks: list[ref[SimTask[Any]]] = []
        """Oldest first; `tasks_of` leaves out those that are done."""
        self._max_steps = max_steps
        self._max_virtual_s = max_virtual_s
        self.steps = 0
        self.hold_chance = 0.0
        """How often a step of a process's task waits for up to HOLD_S while others go on: an actor
        whose mailbox is long, a thread that got no core."""
        self._holding: dict[int, tuple[Life, Any]] = {}
        self._stalled: dict[tuple[str, str], float] = {}
        self.failures: list[BaseException] = []
        self.set_exception_handler(_on_exception)
        self.set_debug(False)

    def time(self) -> float:
        return self._now

    def _serial(self) -> int:
        self._serials += 1
        return self._serials

    def create_future(self) -> asyncio.Future[Any]:
        return SimFuture(self._serial(), self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[T]:
        name = None if name is None else str(name)
        task = SimTask(coro, self._serial(), self, name, context)
        self._tasks.append(ref(task))
        return task

    def call_soon(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        handle = SimHandle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(self._now + delay, callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self._set_timer(when, callback, args, context)

    def _set_timer(
        self, when: float, callback: Any, args: Any, context: Context | None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        timer = SimTimer(callback, args, self, context)
        heapq.heappush(self._timers, (when, self._serial(), timer))
        return timer

    def call_soon_threadsafe(
        self,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run `func` on the loop after a seeded delay, as if a thread had done it meanwhile."""
        future: asyncio.Future[T] = self.create_future()
        life = current_life.get()

        def finish() -> None:
            if future.done():
                return
            if life is not None and not life.alive:
                future.cancel()
                return
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 (handed to the waiter)
                future.set_exception(error)

        self.call_later(self._rng.random() * THREAD_DELAY_S, finish)
        return future

    def _run_once(self) -> None:
        ready = self._ready
        if not ready:
            self._jump()
        timers = self._timers
        now = self._now
        while timers and timers[0][0] <= now:
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                ready.append(handle)
        count = len(ready)
        if count > 1:
            self._shuffle_tasks(count)
        self.steps += count
        self._now = now + STEP_S * count
        for _ in range(count):
            handle = ready.popleft()
            may_wait = self.hold_chance or self._stalled
            if not handle._cancelled and not (may_wait and self._held(handle)):
                handle._run()

    def stall(self, node: str, task: str, seconds: float) -> None:
        """From now on the tasks of this name in that node's process take no step for a while."""
        until = self._now + seconds
        self._stalled[node, task] = max(until, self._stalled.get((node, task), 0.0))

    def freeze(self, node: str, seconds: float) -> None:
        """From now on no task of that node's process takes a step for a while: as a machine that
        is suspended. What comes in waits."""
        self.stall(node, ALL_TASKS, seconds)

    def _held(self, handle: Any) -> bool:
        task = getattr(handle._callback, "__self__", None)
        if not isinstance(task, SimTask) or task.life is None or not task.life.alive:
            return False
        node, stalled = task.life.name, self._stalled
        until = max(stalled.get((node, task.get_name()), 0.0), stalled.get((node, ALL_TASKS), 0.0))
        seconds = until - self._now
        if seconds <= 0:
            if not self.hold_chance or self._rng.random() >= self.hold_chance:
                return False
            seconds = self._rng.random() * HOLD_S
        serial = self._serial()
        self._holding[serial] = (task.life, handle)
        self.call_later(seconds, self._go_on, serial)
        return True

    def _go_on(self, serial: int) -> None:
        life_and_handle = self._holding.pop(serial, None)
        if life_and_handle is not None:
            self._ready.append(life_and_handle[1])

    def release(self, life: Life | None) -> None:
        """The steps of a process that ends, or of all, are held no longer."""
        self._stalled = {
            key: until
            for key, until in self._stalled.items()
            if life is not None and key[0] != life.name
        }
        for serial, (owner, _) in list(self._holding.items()):
            if life is None or owner is life:
                self._go_on(serial)

    def _jump(self) -> None:
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if self._stopping:  # type: ignore[attr-defined]
            return
        if not timers:
            raise Deadlock(f"nothing is ready and no timer is set\n{self.where()}")
        self._now = max(self._now, timers[0][0])
        if self._now > self._max_virtual_s or self.steps > self._max_steps:
            raise LimitReached(
                f"{self.steps} steps, {self._now:.1f} virtual seconds\n{self.where()}"
            )

    def _shuffle_tasks(self, count: int) -> None:
        """Permute the task steps among their places; a task has at most one step ready."""
        ready = self._ready
        places = [
            place
            for place in range(count)
            if isinstance(getattr(ready[place]._callback, "__self__", None), asyncio.Task)
        ]
        if len(places) < 2:
            return
        steps = [ready[place] for place in places]
        self._rng.shuffle(steps)
        for place, step in zip(places, steps, strict=True):
            ready[place] = step

    def tasks_of(self, life: Life | None) -> list[SimTask[Any]]:
        """Unfinished tasks of a simulated process, oldest first; None gives all tasks."""
        # `asyncio.all_tasks` would look at every task there ever was: see `run_loop` on garbage.
        there = [
            (known, task)
            for known in self._tasks
            if (task := known()) is not None and not task.done()
        ]
        self._tasks = [known for known, _ in there]
        return [task for _, task in there if life is None or task.life is life]

    def where(self) -> str:
        """Where every unfinished task hangs, a line each."""
        return "\n".join(f"  {_place(task)}" for task in self.tasks_of(None))

    def drain(self) -> None:
        """Cancel what is left until nothing is."""
        self.hold_chance = 0.0
        self.release(None)
        for _ in range(DRAIN_ROUNDS):
            tasks = self.tasks_of(None)
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            self.call_soon(self.stop)
            self.run_forever()
        raise SimulationError(f"tasks that can't be cancelled\n{self.where()}")


def _on_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # Only callbacks: an exception nobody retrieved from a killed process's task is normal.
    error = context.get("exception")
    if error is not None and "handle" in context and isinstance(loop, SimLoop):
        loop.failures.append(error)


def _place(task: SimTask[Any]) -> str:
    """A task's name, its process, and the innermost line that it awaits at."""
    coro: Any = task.get_coro()
    line = "?"
    while coro is not None:
        frame = getattr(coro, "cr_frame", None) or getattr(coro, "gi_frame", None)
        if frame is not None:
            code = frame.f_code
            line = f"{code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno} {code.co_name}"
        coro = getattr(coro, "cr_await", None) or getattr(coro, "gi_yieldfrom", None)
    owner = task.life.name if task.life is not None else "-"
    return f"{owner} {task.get_name()}: {line}"


def run_loop(loop: SimLoop, main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end on `loop`, end everything else, close. The garbage collector rests:
    a finaliser at a moment of its choice would be an event that no seed decides."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        result = loop.run_until_complete(main)
        loop.drain()
        if loop.failures:
            raise CallbackFailed("an exception left a callback") from loop.failures[0]
        return result
    except BaseException:
        _drain_quietly(loop)
        raise
    finally:
        loop.close()
        if collecting:
            gc.enable()


def _drain_quietly(loop: SimLoop) -> None:
    try:
        loop._max_steps, loop._max_virtual_s = loop.steps + 1_000_000, float("inf")
        loop.drain()
    except SimulationError:
        return
