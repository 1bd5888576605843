"""How signals end a command: what it holds, it lets go of first.

The first one cancels it. A loop that gets no turn (somebody is asked, files are read) would not
hear of that: where it is blocked, it is raised. Further ones are no reason to break off what lets
go: a closed terminal sends several, and so does who ends a service. The third ends it at once,
unless it is SIGHUP, which is nobody's impatience; whoever still holds something says so then.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from types import FrameType
from typing import Any, TypeVar

from tidelog.errors import SIGNALLED

T = TypeVar("T")
TURN_S = 1.0
"""A loop that gets no turn for so long is blocked."""
AGAIN = "it ends once it has let go of what it holds; once more: at once"


def heard() -> list[signal.Signals]:
    """Those that end a command. `nohup` has one of them ignored."""
    all_of_them = signal.SIGTERM, signal.SIGHUP, signal.SIGINT
    return [number for number in all_of_them if signal.getsignal(number) is not signal.SIG_IGN]


class Ending:
    """Of one command; `tell` gets a line for whoever is impatient."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._by: list[int] = []
        self._impatient = 0
        self._is_cancelled = False
        self._borrowed: tuple[Any, tuple[float, float]] | None = None
        """Who had the alarm before, and when it was to come."""
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[Any]

    @property
    def code(self) -> int:
        """The exit code of what a signal ended."""
        return SIGNALLED + (self._by or [signal.SIGINT])[0]

    async def of(self, work: Coroutine[Any, Any, int]) -> int:
        """The command's exit code. Raises KeyboardInterrupt if it is ended at once."""
        task = asyncio.current_task()
        assert task is not None
        self._loop, self._task = asyncio.get_running_loop(), task
        before = {number: signal.signal(number, self._on_signal) for number in heard()}
        try:
            return await work
        except asyncio.CancelledError:
            if not self._by:
                raise
            return self.code
        finally:
            for number, act in before.items():
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, act)
            self._give_back()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._by.append(number)
        if len(self._by) == 1:
            act = signal.signal(signal.SIGALRM, self._on_alarm)
            self._borrowed = act, signal.setitimer(signal.ITIMER_REAL, TURN_S)
            self._loop.call_soon_threadsafe(self._cancel)
        elif number != signal.SIGHUP:
            self._impatient += 1
            if self._impatient > 1:
                raise KeyboardInterrupt
            self._loop.call_soon_threadsafe(self._tell, AGAIN)

    def _on_alarm(self, _number: int, _frame: FrameType | None) -> None:
        """Raised in another task than the command's, it ends that one, and the loop goes on."""
        if self._is_cancelled:
            return
        at = asyncio.current_task(self._loop)
        if at is not self._task:  # the next one may be blocked as well
            signal.setitimer(signal.ITIMER_REAL, TURN_S)
        if at is None:  # between two tasks, where it would break the loop itself
            return
        self._is_cancelled = at is self._task
        raise asyncio.CancelledError

    def _give_back(self) -> None:
        """The alarm, to whom it was before the first signal."""
        if self._borrowed is not None:
            act, timer = self._borrowed
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, act or signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, *timer)

    def _cancel(self) -> None:
        if not self._is_cancelled:
            self._is_cancelled = True
            signal.setitimer(signal.ITIMER_REAL, 0)
            self._task.cancel()


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """What lets go of something, once begun: a first signal in its midst waits for it. It is
    cancelled with the loop, if that ends at once."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.result()  # what went wrong is told
        raise
