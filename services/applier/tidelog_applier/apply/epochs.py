"""Under which epochs this data directory's Applier wrote rows: its relay log has those, and no
other Applier's."""

from __future__ import annotations

import msgspec

from tidelog.errors import Corrupt
from tidelog.failpoints import hit
from tidelog.ports import Disk
from tidelog.sealed import seal, unseal
from tidelog.unreadable import NOT_READABLE

FILE = "epochs.json"
KEPT = 16


class Epochs:
    """The newest few, durable before the first row of each."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._own: list[int] | None = None

    @property
    def own(self) -> list[int]:
        """Raises Corrupt."""
        if self._own is None:
            self._own = []
            if self._disk.exists(FILE):
                try:
                    self._own = msgspec.json.decode(
                        unseal(self._disk.read_file(FILE)), type=list[int]
                    )
                except NOT_READABLE as error:
                    raise Corrupt(f"{FILE} can't be read: {error}", hint="delete it") from error
        return self._own

    async def add(self, epoch: int) -> None:
        """Raises DiskFull, IoFailed."""
        if epoch in self.own:
            return
        wanted = [*self.own, epoch][-KEPT:]
        hit("applier.epochs.before_write")
        await self._disk.write_file(FILE, seal(msgspec.json.encode(wanted)))
        hit("applier.epochs.written")
        self._own = wanted
