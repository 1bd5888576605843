"""`late.json`: the verdicts on late copies that the log can't give again. Replaced durably.

The index is derived, and under an oracle only the sorter of that run could tell that a Commit came
too late: so those that no other Pump has are kept here too, and those an operator accepted.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from tidelog.errors import Corrupt
from tidelog.ports import Disk

log = structlog.get_logger()

LATE_FILE = "late.json"
MAX_KEPT = 4096
"""Of each kind; of more the oldest verdicts are kept by the index alone."""

Pairs = dict[int, int]
"""start_ts -> commit_ts, oldest verdict first."""


class _Body(msgspec.Struct, frozen=True):
    missing: list[tuple[int, int]] = []
    accepted: list[tuple[int, int]] = []


class LateFile:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._saving = asyncio.Lock()
        self.missing: Pairs = {}
        self.accepted: Pairs = {}

    def load(self) -> None:
        """Raises Corrupt."""
        if not self._disk.exists(LATE_FILE):
            return
        try:
            body = msgspec.json.decode(self._disk.read_file(LATE_FILE), type=_Body)
        except msgspec.DecodeError as error:
            raise Corrupt(f"{LATE_FILE} can't be read: {error}") from error
        self.missing, self.accepted = dict(body.missing), dict(body.accepted)

    async def miss(self, start_ts: int, commit_ts: int) -> None:
        async with self._saving:
            await self._save(self.missing | {start_ts: commit_ts}, self.accepted)

    async def accept(self, start_ts: int, commit_ts: int) -> None:
        async with self._saving:
            missing = _without(self.missing, start_ts)
            await self._save(missing, self.accepted | {start_ts: commit_ts})

    async def settle(self, start_ts: int) -> None:
        """Another Pump has it after all."""
        async with self._saving:
            if start_ts in self.missing:
                await self._save(_without(self.missing, start_ts), self.accepted)

    async def _save(self, missing: Pairs, accepted: Pairs) -> None:
        """What can't be written is not taken either. Raises DiskFull, IoFailed."""
        for kept in (missing, accepted):
            while len(kept) > MAX_KEPT:
                first = next(iter(kept))
                log.warning("too many late copies to keep beside the index", start_ts=first)
                del kept[first]
        body = _Body(list(missing.items()), list(accepted.items()))
        await self._disk.write_file(LATE_FILE, msgspec.json.encode(body))
        self.missing, self.accepted = missing, accepted


def _without(pairs: Pairs, start_ts: int) -> Pairs:
    return {start: commit for start, commit in pairs.items() if start != start_ts}
