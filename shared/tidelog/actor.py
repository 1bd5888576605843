"""The actor kernel: typed messages, one bounded mailbox, batches, replies that are never forgotten.

An actor owns its state. Others hold a `Ref`, which outlives restarts: every instance is fresh. A
message is a frozen struct; one that wants an answer carries a `Reply`. When an actor stops or
crashes, every reply it still owes fails with `ActorStopped`.

    class Counter(Actor[Add | Read]):
        async def on_batch(self, batch: list[Add | Read]) -> None:
            for message in batch:
                match message:
                    case Add(): self.total += message.amount
                    case Read(): message.reply.set(self.total)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from tidelog.errors import ActorStopped, Fatal, InvariantBroken, Stuck, TidelogError
from tidelog.mailbox import Mailbox

M = TypeVar("M")
T = TypeVar("T")
Settle = Callable[[T | None, Exception | None], None]

MAILBOX_BYTES = 64 << 20
MAILBOX_COUNT = 8192


class Reply(Generic[T]):
    """The right to answer once. Later answers are ignored: the first one counts."""

    __slots__ = ("_owed", "_settle")

    def __init__(self, settle: Settle[T], owed: dict[Reply[Any], None]) -> None:
        self._settle: Settle[T] | None = settle
        self._owed = owed
        owed[self] = None  # a dict, because its order is the same in every run

    @property
    def settled(self) -> bool:
        return self._settle is None

    def set(self, value: T) -> None:
        self._finish(value, None)

    def fail(self, error: Exception) -> None:
        self._finish(None, error)

    def _finish(self, value: T | None, error: Exception | None) -> None:
        settle, self._settle = self._settle, None
        if settle is not None:
            self._owed.pop(self, None)
            settle(value, error)


class Ref(Generic[M]):
    """An actor's address, valid over restarts. Between instances it refuses with ActorStopped."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._cell: Cell[M] | None = None

    @property
    def alive(self) -> bool:
        return self._cell is not None

    def _living(self) -> Cell[M]:
        if self._cell is None:
            raise ActorStopped(f"{self.name} is not running")
        return self._cell

    async def tell(self, message: M) -> None:
        """Put a message in the box; waits while it is full."""
        cell = self._living()
        await cell.mailbox.put(message, cell.actor.weigh(message))

    def try_tell(self, message: M) -> bool:
        cell = self._living()
        return cell.mailbox.try_put(message, cell.actor.weigh(message))

    async def ask(self, make: Callable[[Reply[T]], M]) -> T:
        """Tell a message made with a reply, and wait for the answer or the actor's error."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        reply: Reply[T] = self.reply(partial(_settle, future))
        try:
            message = make(reply)
            if not self.try_tell(message):
                await self.tell(message)
            return await future
        finally:
            if not reply.settled:
                reply.fail(ActorStopped("the asker went away"))
            if future.done() and not future.cancelled():
                future.exception()
            del future  # its error knows this frame: a cycle for each ask that fails

    def reply(self, settle: Settle[T]) -> Reply[T]:
        """A reply for a message to this actor; `settle(value, error)` is called exactly once."""
        return Reply(settle, self._living().owed)


def _settle(future: asyncio.Future[T], value: T | None, error: Exception | None) -> None:
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(value)  # type: ignore[arg-type]


class Nothing(msgspec.Struct, frozen=True):
    """For an actor that takes no messages."""


class Actor(Generic[M]):
    """Subclass, keep state in the instance, implement `on_batch`."""

    max_count: ClassVar[int] = MAILBOX_COUNT
    max_bytes: int = MAILBOX_BYTES
    batch_count: ClassVar[int] = 1024
    tick_s: ClassVar[float] = 0.0
    progress_limit_s: float = 60.0
    """Of a call without `progress`; an actor may set its own for what it begins."""

    _cell: Cell[M]

    def weigh(self, message: M) -> int:
        """Bytes a message counts for in the mailbox's bound."""
        return 64

    async def on_start(self) -> None:
        """Before the first message; the next child starts after it."""

    async def on_batch(self, batch: list[M]) -> None:
        """Everything that waited, in order. An actor of Nothing has none."""
        raise InvariantBroken(f"{type(self).__name__} takes no messages")

    async def on_tick(self) -> None:
        """Every `tick_s`, between batches, if it is not 0."""

    async def on_stop(self) -> None:
        """After the last message of a graceful stop; not called after a crash."""

    def status(self) -> dict[str, object]:
        """What `/status` shows of this actor; a "not_ready" that says why makes /readyz a 503."""
        return {}

    def starting(self) -> dict[str, object]:
        """What `/status` shows beside "starting" while `on_start` runs; `status` needs its end."""
        return {}

    def progress(self) -> None:
        """Tell the supervisor that a long `on_batch` gets on."""
        if self._cell.busy_since is not None:
            self._cell.busy_since = asyncio.get_running_loop().time()

    @property
    def self_ref(self) -> Ref[M]:
        return self._cell.ref

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """A task of this actor: its failure is the actor's, its end comes with the actor's."""
        full = f"{self._cell.ref.name}/{name}"
        task = self._cell.tasks.create_task(_alive(work, full), name=full)
        self._cell.spawned.add(task)
        task.add_done_callback(self._cell.spawned.discard)
        task.add_done_callback(lambda _: work.close())  # of one that is cancelled before it begins
        return task

    def spawn_actor(self, name: str, child: Actor[T]) -> tuple[Ref[T], asyncio.Task[None]]:
        """A child actor, linked: its crash is ours. Cancel the task to end it."""
        ref: Ref[T] = Ref(f"{self._cell.ref.name}/{name}")
        cell = Cell(ref, child, above=self._cell)
        task = self.spawn(cell.run(), name)
        self._cell.linked.add(cell)
        task.add_done_callback(lambda _: self._cell.linked.discard(cell))
        return ref, task


GRAVEST_FIRST = (Stuck, Fatal, TidelogError)
current_cell: ContextVar[Cell[Any] | None] = ContextVar("current_cell", default=None)


class Cell(Generic[M]):
    """One life of one actor: its mailbox, its tasks, what it owes."""

    def __init__(self, ref: Ref[M], actor: Actor[M], above: Cell[Any] | None = None) -> None:
        """`above`: of the actor that it is linked to."""
        self.ref = ref
        self.actor = actor
        self.mailbox: Mailbox[M] = Mailbox(actor.max_count, actor.max_bytes)
        self.owed: dict[Reply[Any], None] = {}
        self.spawned: set[asyncio.Task[None]] = set()
        self.linked: set[Cell[Any]] = set()
        self.tasks: asyncio.TaskGroup
        self.started = asyncio.Event()
        self.busy_since: float | None = None
        self.left_at: float | None = None
        """Since when its loop has ended; its tasks may not have yet."""
        self.calls: set[asyncio.Future[Any]] = set()
        """Those that run in threads, of the actors linked to it, too."""
        self.top: Cell[Any] = self if above is None else above.top
        actor._cell = self

    def stop(self) -> None:
        """Ask for a graceful end: no new messages, the queued ones are still handled."""
        self.mailbox.close()

    def stuck(self, now: float) -> bool:
        return self.busy_since is not None and now - self.busy_since > self.actor.progress_limit_s

    def outlived_s(self, now: float) -> float:
        """How long some task has outlived its actor's loop: this one's, or of one linked to it."""
        own = 0.0 if self.left_at is None else now - self.left_at
        return max([own, *(cell.outlived_s(now) for cell in self.linked)])

    def all_tasks(self) -> set[asyncio.Task[None]]:
        """Its own, and those of the actors linked to it."""
        return self.spawned.union(*(cell.all_tasks() for cell in self.linked))

    async def run(self) -> None:
        """Live until stopped (returns), crashed (raises the first error) or cancelled."""
        token = current_cell.set(self)
        try:
            async with asyncio.TaskGroup() as self.tasks:
                await _alive(self._live(), self.ref.name)
                for task in list(self.spawned):
                    task.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group) from group
        finally:
            current_cell.reset(token)
            self._bury()

    async def _live(self) -> None:
        try:
            await self.actor.on_start()
            self.ref._cell = self
            self.started.set()
            await self._loop()
        finally:
            self.left_at = asyncio.get_running_loop().time()

    async def _loop(self) -> None:
        actor, mailbox, loop = self.actor, self.mailbox, asyncio.get_running_loop()
        next_tick = loop.time() + actor.tick_s if actor.tick_s else None
        while True:
            wait = None if next_tick is None else max(0.0, next_tick - loop.time())
            batch = await mailbox.take(actor.batch_count, wait)
            self.busy_since = loop.time()
            if batch:
                await actor.on_batch(batch)
            del batch  # a message may be large, and the next may be long in coming
            if next_tick is not None and loop.time() >= next_tick:
                await actor.on_tick()
                next_tick = loop.time() + actor.tick_s
            self.busy_since = None
            if mailbox.closed and not len(mailbox):
                await actor.on_stop()
                return

    def _bury(self) -> None:
        if self.ref._cell is self:
            self.ref._cell = None
        self.mailbox.close()
        self.mailbox.clear()
        error = ActorStopped(f"{self.ref.name} stopped before it answered")
        for reply in list(self.owed):
            reply.fail(error)


async def _alive(work: Coroutine[Any, Any, None], name: str) -> None:
    """A cancellation that nobody asked for is a crash. For the loop it would be an orderly end, and
    the actor would live on without that part of it."""
    try:
        await work
    except asyncio.CancelledError as error:
        if is_cancelled():
            raise
        raise TidelogError(f"{name}: what it waits for was cancelled") from error


def is_cancelled() -> bool:
    """Whether somebody cancelled this task, or else what it waits for, which is an error then. The
    frame that a cancellation goes through must not know the task, which ends with it: a cycle."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to act on: the first of what must end the process, else of what is known."""
    flat = [first_error(e) if isinstance(e, BaseExceptionGroup) else e for e in group.exceptions]
    return next((e for kind in GRAVEST_FIRST for e in flat if isinstance(e, kind)), flat[0])


async def off_loop(function: Callable[..., T], *args: object) -> T:
    """Run a blocking call in a thread and remember that this actor has one running.

    A cancelled caller leaves the thread running; the supervisor then never starts a fresh
    instance beside it (design section 3).
    """
    return await asyncio.shield(_in_thread(function, *args))


def _in_thread(function: Callable[..., T], *args: object) -> asyncio.Future[T]:
    cell = current_cell.get()
    future = asyncio.get_running_loop().run_in_executor(None, function, *args)
    if cell is not None:
        calls = cell.top.calls
        calls.add(future)
        future.add_done_callback(calls.discard)
    return future


async def calls_ended() -> None:
    """Wait for the calls of this actor that run in threads now, their callers cancelled perhaps."""
    cell = current_cell.get()
    if cell is not None and cell.top.calls:
        await asyncio.wait(cell.top.calls)


def after_calls(act: Callable[[], None]) -> None:
    """As soon as those calls have ended, however the caller ends: at once if there are none."""
    cell = current_cell.get()
    left = set() if cell is None else set(cell.top.calls)

    def ended(call: asyncio.Future[Any]) -> None:
        left.discard(call)
        if not left:
            act()

    for call in tuple(left):
        call.add_done_callback(ended)
    if not left:
        act()
