"""Closes the index when nobody reads it any more."""

from __future__ import annotations

from tidelog.actor import Actor, Nothing
from tidelog.ports import IndexStore


class IndexKeeper(Actor[Nothing]):
    """Before all that read the index, so that it ends after them. It is open as long as the process
    lives: they may be started anew."""

    def __init__(self, store: IndexStore) -> None:
        self._store = store

    async def on_stop(self) -> None:
        """Raises IoFailed: the next start builds it again."""
        self._store.close()
