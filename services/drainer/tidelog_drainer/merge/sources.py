"""From where each Pump is read, kept on disk: a Pump that we knew is waited for (ADR 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import msgspec

from tidelog.failpoints import hit
from tidelog.ports import Disk
from tidelog.sealed import read_sealed, seal

SOURCES_FILE = "sources.json"


class Kept(msgspec.Struct, frozen=True):
    """`pumps`: the sources; None = each is read from the feed's position, or after what ts it must
    still be read. `since`: all that this directory's Drainer passed above it, it passed with no
    others than these and `gone`, the tombstoned ones; None = it passed nothing yet. That is true
    of the lives of one `chain`. `joined`: of the pumps those that came while nothing was merged,
    and were not met yet."""

    pumps: dict[str, int | None] = {}
    since: int | None = None
    gone: list[str] = []
    joined: list[str] = []
    chain: int = 0


class Sources:
    """`begin` tells where the merge begins, before any Pump is met.

    A source met in mid-merge may be a new Pump, or one that all had forgotten: that one may hold
    what was passed without it, so it is read from where we began to pass, lives ago perhaps. One
    that was tombstoned left nothing behind: all it held was read, or given up for good.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._since = 0
        self._chain = 0
        self._gone: set[str] = set()
        self._behind: dict[str, int] = {}
        self._kept = Kept()
        self._keeping = asyncio.Lock()

    def begin(self, start: int, *, chain: int, apart: int = 0) -> dict[str, int]:
        """The Pumps of earlier lives, and after what ts each is read. `chain`: of the lives of this
        directory's Drainer, since which nobody else published: what was passed since, they passed.
        0 = nobody knows since when. `apart`: what chains before this one still had to read, another
        Drainer has passed since, with its own sources. Raises Corrupt."""
        self._chain = chain
        self._kept = self._stored()
        pumps, since = self._kept.pumps, self._kept.since
        if self._kept.chain < apart:
            pumps = dict.fromkeys(pumps)
        self._gone = set(self._kept.gone) - pumps.keys()
        ours = chain in (0, self._kept.chain)
        self._since = min(start, since) if ours and since is not None else start
        joined = set(self._kept.joined) - set(self._kept.gone)
        met = {node: self._since for node in joined if pumps.get(node) is None}
        # A stream that lost its tail begins below what an earlier life has passed.
        return {
            node: start if behind is None else min(start, behind)
            for node, behind in (pumps | met).items()
        }

    def met(self, node: str, emitted: int) -> int:
        """A Pump that is no source yet becomes one: after what ts it is read."""
        after_ts = emitted if node in self._gone else self._since
        self._gone.discard(node)
        return after_ts

    def added(self, node: str, after_ts: int, emitted: int) -> None:
        if after_ts < emitted:
            self._behind[node] = after_ts

    def tombstoned(self, node: str) -> None:
        self._gone.add(node)
        self._behind.pop(node, None)

    @property
    def behind(self) -> bool:
        """Is one not read up to what was emitted, as far as a restart would know?"""
        return bool(self._behind)

    async def caught_up(self, nodes: Iterable[str]) -> None:
        """All are read up to what was emitted: a restart reads them from the feed's position. One
        that could not be written is still to do: a restart would read again what was passed."""
        read, self._behind = self._behind, {}
        try:
            await self.keep(nodes)
        except BaseException:
            self._behind = read | self._behind
            raise

    async def keep(self, nodes: Iterable[str]) -> None:
        """These are the sources. Durable when it returns."""
        async with self._keeping:
            pumps = {node: self._behind.get(node) for node in nodes}
            await self._write(Kept(pumps, self._since, sorted(self._gone), chain=self._chain))

    async def keep_also(self, nodes: Iterable[str]) -> None:
        """Without a merge nobody meets tombstones, which alone take a Pump out (I4): only add.
        Durable when it returns. Raises Corrupt."""
        async with self._keeping:
            kept = self._stored()
            joined = sorted({*kept.joined, *(set(nodes) - kept.pumps.keys())})
            pumps = dict.fromkeys(nodes) | kept.pumps
            await self._write(msgspec.structs.replace(kept, pumps=pumps, joined=joined))

    async def follow(self, pumps: Mapping[str, bool]) -> None:
        """Without a merge: these are sources, or have a tombstone. Durable when it returns. Raises
        Corrupt."""
        async with self._keeping:
            kept = self._stored()
            here = {node for node, is_source in pumps.items() if is_source}
            gone = pumps.keys() - here
            known = {node: at for node, at in kept.pumps.items() if node not in gone}
            joined = {*kept.joined, *(here - known.keys())} - gone
            whole = Kept(
                dict.fromkeys(sorted(here)) | known,
                kept.since,
                sorted({*kept.gone, *gone}),
                sorted(joined),
                kept.chain,
            )
            await self._write(whole)

    @property
    def known(self) -> list[str]:
        """The sources as they were last kept or read."""
        return sorted(self._kept.pumps)

    async def _write(self, kept: Kept) -> None:
        if kept != self._kept:
            hit("drainer.sources.before_write")
            await self._disk.write_file(SOURCES_FILE, seal(kept))
            hit("drainer.sources.written")
            self._kept = kept

    def _stored(self) -> Kept:
        hint = "remove it when every Pump is up: the Drainer then learns of them anew"
        return read_sealed(self._disk, SOURCES_FILE, Kept, hint) or Kept()
