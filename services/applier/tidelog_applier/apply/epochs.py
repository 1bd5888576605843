"""Under which epochs rows were written that are all in this relay log: no other Applier's, and none
of a life that had another relay. The file lies in the relay's directory, and goes with it.
"""

from __future__ import annotations

import posixpath

from tidelog.failpoints import hit
from tidelog.ports import Disk
from tidelog.sealed import read_sealed, seal

FILE = "epochs.json"
KEPT = 16


class Epochs:
    """The newest few, durable before the first row of each."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = posixpath.join(directory, FILE)
        self._own: list[int] | None = None

    @property
    def own(self) -> list[int]:
        """Raises Corrupt."""
        if self._own is None:
            self._own = read_sealed(self._disk, self._path, list[int], "delete it") or []
        return self._own

    async def add(self, epoch: int) -> None:
        """Raises DiskFull, IoFailed."""
        if epoch in self.own:
            return
        wanted = [*self.own, epoch][-KEPT:]
        hit("applier.epochs.before_write")
        self._disk.mkdir(self._directory)
        await self._disk.write_file(self._path, seal(wanted))
        hit("applier.epochs.written")
        self._own = wanted
