"""Looks for a tombstone of ours before we join, and when we are told that we are offline (I4).

With records above it the Pump reports `Stranded`: it exports them, serves no reader and asks for
no place in the cluster, until an operator makes the file `accepted` in the export.
"""

from __future__ import annotations

import msgspec
import structlog

from tidelog import subjects
from tidelog.actor import Actor, Reply
from tidelog.errors import DiskFull, Stranded, StreamMissing, TidelogError, Unavailable
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.messages import OFFLINE
from tidelog.ports import Disk, IndexStore, Ports
from tidelog_pump.identity import Identity
from tidelog_pump.log.segments import Segments
from tidelog_pump.stranded.export import Export, Exported, folder
from tidelog_pump.stranded.records import strays

log = structlog.get_logger()

ACCEPTED = "accepted"


class Admit(msgspec.Struct, frozen=True):
    """May we ask to join? Answered by None, or fails with Stranded, or with Unavailable."""

    reply: Reply[None]


class ToldOffline(msgspec.Struct, frozen=True):
    """The registry says that we are."""


KeeperMessage = Admit | ToldOffline


class StrandedKeeper(Actor[KeeperMessage]):
    tick_s = 1.0

    def __init__(
        self,
        ports: Ports,
        cluster: str,
        identity: Identity,
        segments: Segments,
        store: IndexStore,
        *,
        segment_bytes: int,
    ) -> None:
        self._disk: Disk = ports.disk
        self._bucket = Bucket(ports.bus, subjects.members_bucket(cluster))
        self._identity = identity
        self._segments = segments
        self._store = store
        self._segment_bytes = segment_bytes
        self._told_offline = False
        self._exported: Exported | None = None
        self._error = ""

    async def on_batch(self, batch: list[KeeperMessage]) -> None:
        for message in batch:
            match message:
                case Admit(reply):
                    await self._admit(reply)
                case ToldOffline():
                    self._told_offline = True

    async def _admit(self, reply: Reply[None]) -> None:
        try:
            await self._look()
        except (Stranded, Unavailable, DiskFull) as error:
            reply.fail(error)
        else:
            reply.set(None)

    async def on_tick(self) -> None:
        """A word that we are offline may come before the tombstone is in the bucket."""
        if not self._told_offline:
            return
        try:
            self._told_offline = not await self._look()
        except Stranded:
            self._told_offline = False
        except (Unavailable, DiskFull) as error:
            log.info("not known yet whether anything is stranded", reason=str(error))

    async def _look(self) -> bool:
        """True if there is a tombstone with nothing above it; raises Stranded."""
        tombstone = await self._tombstone()
        if tombstone is None:
            return False
        if next(strays(self._store.scan, tombstone.passed_ts), None) is None:
            return True
        accepted = self._disk.exists(f"{folder(tombstone.passed_ts, tombstone.epoch)}/{ACCEPTED}")
        await self._export(tombstone, again=accepted)
        if not accepted:
            assert self._identity.stranded is not None
            raise self._identity.stranded
        log.warning("what is stranded is accepted", tombstone=tombstone.passed_ts)
        self._exported, self._identity.stranded = None, None
        return True

    async def _tombstone(self) -> Member | None:
        """Raises Unavailable. No bucket: there is no cluster yet that could have let us go."""
        try:
            entry = await self._bucket.get(subjects.escape(self._identity.node))
        except StreamMissing:
            return None
        if entry is None:
            return None
        member = msgspec.json.decode(entry.value, type=Member)
        return member if member.state == OFFLINE else None

    async def _export(self, tombstone: Member, *, again: bool) -> None:
        """Once, and again when it is accepted: Commits may have come since."""
        done = self._exported
        if not again and done is not None and done.tombstone_ts == tombstone.passed_ts:
            return
        fresh = Exported(self._identity.node, tombstone.epoch, tombstone.passed_ts)
        at = folder(fresh.tombstone_ts, fresh.epoch)
        self._identity.stranded = Stranded(f"records above the tombstone {tombstone.passed_ts}")
        export = Export(self._disk, self._segments, fresh, self._segment_bytes, self.progress)
        try:
            done = await export.run(strays(self._store.scan, tombstone.passed_ts))
        except TidelogError as error:
            self._error = str(error)
            raise
        self._error, self._exported = "", done
        told = f"{done.told()} above the tombstone {tombstone.passed_ts}, exported to {at}"
        self._identity.stranded = Stranded(
            told, hint=f"see export.json there, then make {at}/{ACCEPTED}"
        )
        log.error("stranded", what=told)

    def status(self) -> dict[str, object]:
        stranded = self._identity.stranded
        if stranded is None:
            return {"stranded": 0, "told_offline": self._told_offline}
        return {
            "stranded": 0 if self._exported is None else self._exported.count,
            "error": self._error,
            "why": str(stranded),
            "not_ready": f"stranded: {stranded.message}",
        }
