"""A workload that signals end."""

from __future__ import annotations

import asyncio
import signal
import sys

from tidelog.errors import SIGNALLED
from tidelog.workload.workload import Workload


class EndedAtOnce(Exception):
    """By a signal; `message` is for people."""

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.code = SIGNALLED + number
        self.message = message


class Signals:
    """What is under way is carried to its end, however long that takes; a second signal is for who
    won't wait."""

    def __init__(self) -> None:
        self._came: list[int] = []
        self._workload: Workload | None = None
        self._is_decided = False

    def begins(self, workload: Workload) -> None:
        """From here on."""
        task = asyncio.current_task()
        assert task is not None
        self._workload = workload

        def end(number: int) -> None:
            self._came.append(number)
            workload.end()
            if len(self._came) > 1 or not workload.is_begun:
                task.cancel()
            else:
                sys.stderr.write("it ends with what is under way; again: at once\n")

        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, end, number)

    def all_is_decided(self) -> None:
        """And everybody knows."""
        self._is_decided = True

    def ended(self) -> EndedAtOnce:
        number = self._came[-1] if self._came else signal.SIGINT
        is_begun = self._workload is not None and self._workload.is_begun
        left = ": nobody decides what was under way" if is_begun and not self._is_decided else ""
        return EndedAtOnce(number, f"ended at once{left}")
