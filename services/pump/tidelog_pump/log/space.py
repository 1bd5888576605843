"""Room on the data disk: below `stop-write-at-available-space` Prewrites are refused (section 7).

The disk is asked every three seconds, as the original does; between two questions what we wrote is
counted, so that a fast writer doesn't fill a small disk meanwhile.
"""

from __future__ import annotations

import structlog

from tidelog.ports import Disk
from tidelog_pump.config import AUTO, KEPT_FREE, StorageConfig
from tidelog_pump.metrics import STORAGE_SIZE

log = structlog.get_logger()

POLL_S = 3.0
TIGHT = 64 << 20
"""With less than this free the disk is asked before each write: others write too."""
SPARE = 64 << 10
"""What a new segment takes beside its records, generously; at most half of what is kept free."""


class Space:
    def __init__(self, disk: Disk, storage: StorageConfig) -> None:
        self._disk = disk
        self._capacity = disk.capacity_bytes()
        self.kept_free = storage.kept_free(self._capacity)
        self._free = 0
        self._full = False
        if storage.stop_write_at_available_space == AUTO and self.kept_free < KEPT_FREE:
            log.warning(
                "a small disk: Prewrites are refused below a tenth of it, not below 10 GiB",
                capacity=self._capacity,
                kept_free=self.kept_free,
            )

    @property
    def room(self) -> int:
        """Bytes of Prewrites that may still come; below 0 not even a probe is taken."""
        return self._free - self.kept_free

    @property
    def left(self) -> int:
        """Bytes of anything that may still come; above that a write may fail in the middle."""
        return self._free - min(SPARE, self.kept_free // 2)

    @property
    def share(self) -> float:
        """`room` as a part of all that Prewrites could ever have."""
        return self.room / max(1, self._capacity - self.kept_free)

    def look_if_tight(self) -> None:
        if self._free < TIGHT:
            self.look()

    def look(self) -> None:
        """Ask the disk."""
        self._free = self._disk.free_bytes()
        STORAGE_SIZE.labels("capacity").set(self._capacity)
        STORAGE_SIZE.labels("available").set(self._free)
        was, self._full = self._full, self.room < 0
        if was != self._full:
            log.warning(
                "Prewrites are refused: too little space" if self._full else "space again",
                free=self._free,
                kept_free=self.kept_free,
            )

    def wrote(self, size: int) -> None:
        self._free -= size

    def status(self) -> dict[str, object]:
        return {
            "disk_full": self.room < 0,
            "kept_free": self.kept_free,
            "free": self._free,
            "capacity": self._capacity,
        }
