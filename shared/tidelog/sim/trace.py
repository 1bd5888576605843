"""What happened in a run, folded into one hash; the lines are kept on demand (reliability R3)."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tidelog.sim.faults import Injected


class Event(NamedTuple):
    """What a watcher is shown. `data`: the message's body, if one goes with it."""

    node: str
    what: str
    detail: str
    data: bytes


class Trace:
    """Two runs of one seed are the same run exactly if their digests are equal."""

    def __init__(self, now: Callable[[], float], *, keep: bool = False) -> None:
        self._now = now
        self._hash = hashlib.blake2b(digest_size=16)
        self.lines: list[str] | None = [] if keep else None
        self.count = 0
        self.injected: Counter[Injected] = Counter()
        self.watchers: list[Callable[[Event], None]] = []
        """Each is called in the instant of each event, and may do something to the world."""

    def event(self, node: str, what: str, detail: object = "", data: bytes = b"") -> None:
        """Record one port event: who, what, and what tells it from others."""
        line = f"{self._now():.6f} {node} {what} {detail}"
        self._hash.update(line.encode())
        self.count += 1
        if self.lines is not None:
            self.lines.append(line)
        self.glimpse(node, what, detail, data)

    def inject(self, node: str, fault: Injected, detail: object = "") -> None:
        """Count what is done to a node."""
        self.injected[fault] += 1
        self.note(node, fault, detail)

    def note(self, node: str, what: str, detail: object = "") -> None:
        """A line for who reads the trace; the digest doesn't hold it."""
        if self.lines is not None:
            self.lines.append(f"{self._now():.6f} {node} ! {what} {detail}".rstrip())

    def glimpse(self, node: str, what: str, detail: object = "", data: bytes = b"") -> None:
        """For watchers only: what follows from port events, so that the digest needn't hold it."""
        if self.watchers:
            event = Event(node, what, str(detail), data)
            for watcher in list(self.watchers):
                watcher(event)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()
