"""`late.json`: the verdicts on late copies that the log can't give again. Replaced durably.

The index is derived, and under an oracle only the sorter of that run could tell that a Commit came
too late: so those are kept here while they are unverified, those that no other Pump has, and those
an operator accepted.
"""

from __future__ import annotations

import asyncio

import msgspec
import structlog

from tidelog.ports import Disk
from tidelog.sealed import read_sealed, seal
from tidelog_pump.log.reserve import Reserve

log = structlog.get_logger()

LATE_FILE = "late.json"
MAX_KEPT = 4096
"""Of each kind; of more the oldest verdicts are kept by the index alone."""

Pairs = dict[int, int]
"""start_ts -> commit_ts, oldest verdict first."""


class _Body(msgspec.Struct, frozen=True):
    missing: list[tuple[int, int]] = []
    accepted: list[tuple[int, int]] = []
    suspected: list[tuple[int, int]] = []


class LateFile:
    def __init__(self, disk: Disk, reserve: Reserve) -> None:
        self._disk = disk
        self._reserve = reserve
        self._saving = asyncio.Lock()
        self.missing: Pairs = {}
        self.accepted: Pairs = {}
        self.suspected: Pairs = {}

    def load(self) -> None:
        """Raises Corrupt."""
        body = read_sealed(self._disk, LATE_FILE, _Body)
        if body is None:
            return
        self.missing, self.accepted = dict(body.missing), dict(body.accepted)
        self.suspected = dict(body.suspected)

    async def suspect(self, pairs: Pairs) -> None:
        """Unverified, and perhaps nothing else tells of them."""
        async with self._saving:
            new = pairs.items() - self.suspected.items() - self.missing.items()
            if new := new - self.accepted.items():
                await self._save(self.missing, self.accepted, self.suspected | dict(sorted(new)))

    async def miss(self, start_ts: int, commit_ts: int) -> bool:
        """False: an operator has accepted it by now."""
        async with self._saving:
            if self.accepted.get(start_ts) == commit_ts:
                return False
            suspected = _without(self.suspected, start_ts)
            await self._save(self.missing | {start_ts: commit_ts}, self.accepted, suspected)
        return True

    async def accept(self, start_ts: int, commit_ts: int) -> None:
        async with self._saving:
            missing, suspected = self._but(start_ts)
            await self._save(missing, self.accepted | {start_ts: commit_ts}, suspected)

    async def settle(self, start_ts: int) -> None:
        """Another Pump has it after all."""
        async with self._saving:
            if start_ts in self.missing or start_ts in self.suspected:
                missing, suspected = self._but(start_ts)
                await self._save(missing, self.accepted, suspected)

    def _but(self, start_ts: int) -> tuple[Pairs, Pairs]:
        return _without(self.missing, start_ts), _without(self.suspected, start_ts)

    async def _save(self, missing: Pairs, accepted: Pairs, suspected: Pairs) -> None:
        """What can't be written is not taken either. Raises DiskFull, IoFailed."""
        for kept in (missing, accepted, suspected):
            while len(kept) > MAX_KEPT:
                first = next(iter(kept))
                log.warning("too many late copies to keep beside the index", start_ts=first)
                del kept[first]
        body = _Body(list(missing.items()), list(accepted.items()), list(suspected.items()))
        await self._reserve.write_file(LATE_FILE, seal(body))
        self.missing, self.accepted, self.suspected = missing, accepted, suspected


def _without(pairs: Pairs, start_ts: int) -> Pairs:
    return {start: commit for start, commit in pairs.items() if start != start_ts}
