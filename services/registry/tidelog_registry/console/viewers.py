"""Who looks at the page. Each gets every Snapshot; one who is slow is let go, not waited for."""

from __future__ import annotations

import asyncio

from tidelog.errors import Overloaded

MOST = 64
BEHIND = 4
"""Snapshots that may wait for a viewer: seconds."""


class Viewer:
    def __init__(self) -> None:
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(BEHIND + 1)
        self.is_slow = False

    async def next(self) -> bytes | None:
        """None: it is over, for one who is slow at once."""
        if self.is_slow:
            return None
        return await self._waiting.get()

    def tell(self, data: bytes) -> bool:
        """False: too much waits already."""
        if self._waiting.qsize() >= BEHIND:
            self.is_slow = True
            return False
        self._waiting.put_nowait(data)
        return True

    def end(self) -> None:
        if not self._waiting.full():
            self._waiting.put_nowait(None)


class Viewers:
    """All viewers share the bytes of a Snapshot."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._here: dict[Viewer, None] = {}
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._here)

    def join(self) -> Viewer:
        """Raises Overloaded: there are as many as there may be."""
        if len(self._here) >= self._most:
            raise Overloaded(
                f"{self._most} viewers look at the console",
                hint="close a tab that nobody looks at; `tidelog status --watch` has no limit",
            )
        viewer = Viewer()
        self._here[viewer] = None
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self._here.pop(viewer, None)

    def tell(self, data: bytes) -> None:
        for viewer in list(self._here):
            if not viewer.tell(data):
                self.dropped += 1
                self.leave(viewer)

    def end(self) -> None:
        for viewer in list(self._here):
            viewer.end()
            self.leave(viewer)
