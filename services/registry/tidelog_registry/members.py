"""The membership bucket, source 0 of every Drainer (I3): its only writer, while the lease is held,
and always after its own last write.

At the start a marker is written. Each write says after which sequence it comes, so the server
refuses what an earlier registry still had under way.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import msgspec
import structlog

from tidelog import subjects
from tidelog.actor import Actor, Reply
from tidelog.errors import Conflict, Corrupt, DiskFull, StreamMissing, Unavailable
from tidelog.failpoints import hit
from tidelog.kv import Bucket
from tidelog.membership import Member
from tidelog.ports import Headers, Ports
from tidelog.sealed import read_sealed, seal
from tidelog.subjects import escape
from tidelog.unreadable import NOT_READABLE
from tidelog_registry.lease.tenure import AnotherRegistry, Tenure
from tidelog_registry.metrics import MEMBERSHIP_LOST
from tidelog_registry.nodes.node_state import NODE_LEASE_S

log = structlog.get_logger()

COPY = "members.json"
FENCE = "fence"
"""The marker's key: a deletion, which readers pass over."""
H_WRITER, H_EPOCH = "Tidelog-Registry", "Tidelog-Registry-Epoch"
"""Which registry's directory an entry was written from, by which epoch of its lease: a write whose
outcome was unknown may arrive late, even when the process that sent it is no more, and is then no
second registry's. One of a later epoch is, on whichever copy of a directory it runs."""
WRITE_S = 2.0
"""How long an answer is waited for; a write that comes later all the same is refused."""
RETRY_S = 0.3


class Record(msgspec.Struct, frozen=True):
    """Make the entry what it says; answered when it is durable in the bucket."""

    member: Member
    reply: Reply[Written]


class Written(msgspec.Struct, frozen=True):
    """`losses` as in `View`: an entry may have become durable in a bucket made anew."""

    member: Member
    losses: int


class Look(msgspec.Struct, frozen=True):
    reply: Reply[View]


class View(msgspec.Struct, frozen=True):
    """`losses` counts how often the bucket was found missing, recreated or rolled back, or came
    without a copy to compare it with; `fresh`: there was neither bucket nor copy at the start."""

    members: dict[str, Member]
    losses: int
    fresh: bool


class Copy(msgspec.Struct, frozen=True):
    """What this registry last knew of the bucket, in its data directory: by it a bucket that was
    recreated or rolled back is recognised, and entries of Pumps that are down are filled in.
    `settling`: the nodes have not had one lease time yet to announce themselves. `writer` names
    this directory in the entries."""

    created: str
    last_seq: int
    members: list[Member]
    settling: bool = False
    writer: str = ""


class Members(Actor[Record | Look]):
    tick_s = 1.0

    def __init__(self, ports: Ports, cluster: str, tenure: Tenure) -> None:
        self._ports = ports
        self._tenure = tenure
        self._bucket = Bucket(ports.bus, subjects.members_bucket(cluster))
        self._members: dict[str, Member] = {}
        self._written: dict[str, Headers] = {}
        self._writer = ports.rng.token()
        self._fenced = False
        self._missing: dict[str, Member] = {}
        self._created = ""
        self._last_seq = 0
        self._losses = 0
        self._settled_at: float | None = None
        self._fresh = False
        self._unsaved = False

    async def on_start(self) -> None:
        for step in (self._load, self._fence):
            while True:
                try:
                    await step()
                    break
                except (Unavailable, StreamMissing, Conflict) as error:
                    log.warning("the membership bucket is not ours yet", reason=str(error))
                    await self._ports.clock.sleep(RETRY_S)

    async def on_batch(self, batch: list[Record | Look]) -> None:
        for message in batch:
            match message:
                case Record(member, reply):
                    await self._record(member)
                    reply.set(Written(member, self._losses))
                case Look(reply):
                    reply.set(View(dict(self._members), self._losses, self._fresh))

    async def on_tick(self) -> None:
        try:
            await self._check()
            if not self._fenced:
                with suppress(Conflict):
                    await self._fence()
            if self._unsaved:
                await self._save()
            now = self._ports.clock.monotonic()
            if self._settled_at is not None and now >= self._settled_at:
                self._settled_at = None
                await self._save()
        except (Unavailable, StreamMissing) as error:
            log.info("the membership bucket can't be asked", reason=str(error))

    def status(self) -> dict[str, object]:
        return {"members": len(self._members), "last_seq": self._last_seq, "losses": self._losses}

    async def _load(self) -> None:
        copy = read_sealed(self._ports.disk, COPY, Copy)
        if copy is not None:
            self._created, self._last_seq = copy.created, copy.last_seq
            self._members = {member.node: member for member in copy.members}
            self._writer = copy.writer or self._writer
            if copy.settling:
                self._lost()
            await self._check(reread=True)
            return
        state = await self._bucket.state()
        self._fresh = state is None
        self._settled_at = self._ports.clock.monotonic() + NODE_LEASE_S
        self._losses = 0 if self._fresh else 1
        self._created = (state or await self._bucket.create()).created
        await self._read()
        await self._save()

    async def _fence(self) -> None:
        """Write the marker. A foreign one that comes later says that another registry began."""
        await self._check(reread=True)
        hit("registry.members.before_fence")
        self._last_seq = await self._bucket.delete(
            FENCE,
            expected_last=self._last_seq,
            headers=self._signature(),
            timeout_s=WRITE_S,
        )
        hit("registry.members.fenced")
        self._fenced = True
        await self._save()

    async def _check(self, *, reread: bool = False) -> None:
        """Is it still the bucket we know, with everything we wrote? Without the lease it may be
        another registry's by now: the lease will tell."""
        self._tenure.check()
        state = await self._bucket.state()
        shorter = state is not None and state.last_seq < self._last_seq
        if state is None or state.created != self._created or shorter:
            await self._rebuild()
        elif self._missing:
            await self._fill()
        elif reread:
            # It may be ahead of our copy: written just before a crash.
            await self._read()
            await self._save()
        elif state.last_seq > self._last_seq:
            await self._surprised()

    async def _surprised(self) -> None:
        """Entries that nobody here knows of. A late write of an earlier life: a fresh instance of
        the directory begins with what it says. Raises Conflict, or AnotherRegistry."""
        before = self._members
        await self._read()
        changed = [node for node, member in self._members.items() if before.get(node) != member]
        for node in changed:
            if self._foreign(self._written[node]):
                raise _somebody_else(node)
        await self._save()
        if changed:
            raise Conflict(f"late writes changed the membership of {', '.join(changed)}")

    async def _rebuild(self) -> None:
        """Make the bucket anew, so that every reader sees by its date that it is another one, and
        fill it with what is known here; the rest comes from the nodes' announcements. One that was
        made later than ours may be our own, of just before a crash: its entries hold. One that came
        back with an older store says what was true once, a Pump's tombstone too."""
        self._lost()
        MEMBERSHIP_LOST.inc()
        log.error("the membership bucket was lost", known=len(self._members))
        state = await self._bucket.state()
        if state is not None and _made(state.created) <= _made(self._created):
            await self._ports.bus.stream_delete(self._bucket.stream)
            state = None
        self._created = (state or await self._bucket.create()).created
        self._missing |= self._members
        self._last_seq, self._fenced = 0, False
        await self._fill()

    def _lost(self) -> None:
        self._losses += 1
        self._settled_at = self._ports.clock.monotonic() + NODE_LEASE_S

    async def _fill(self) -> None:
        await self._read()
        for node in sorted(self._missing):
            member = self._missing[node]
            if node not in self._members:
                await self._put(member)
        self._missing = {}
        await self._save()

    async def _read(self) -> None:
        if self._fenced:
            marker = await self._bucket.last(FENCE)
            if marker is not None and self._foreign(marker.headers):
                raise AnotherRegistry("another registry began to write the membership")
        entries, self._last_seq = await self._bucket.entries()
        self._members, self._written = {}, {}
        for key in sorted(entries):
            try:
                member = msgspec.json.decode(entries[key].value, type=Member)
            except NOT_READABLE as error:
                raise Corrupt(f"membership entry {key} can't be read: {error}") from error
            self._members[member.node] = member
            self._written[member.node] = entries[key].headers

    def _signature(self) -> Headers:
        return {H_WRITER: self._writer, H_EPOCH: str(self._tenure.epoch)}

    def _foreign(self, signature: Headers) -> bool:
        later = int(signature.get(H_EPOCH, 0)) > self._tenure.epoch
        return later or signature.get(H_WRITER, "") != self._writer

    async def _save(self) -> None:
        """Later, if there is no room: a bucket that is ahead of the copy is what a crash leaves,
        too."""
        settling = self._settled_at is not None
        members = list(self._members.values())
        copy = Copy(self._created, self._last_seq, members, settling, self._writer)
        try:
            hit("registry.members.before_copy")
            await self._ports.disk.write_file(COPY, seal(copy))
        except DiskFull as error:
            log.warning("no room for the copy of the membership", reason=error.message)
            self._unsaved = True
        else:
            self._unsaved = False

    async def _put(self, member: Member) -> None:
        self._tenure.check()
        hit("registry.members.before_put")
        self._last_seq = await self._bucket.put(
            escape(member.node),
            msgspec.json.encode(member),
            expected_last=self._last_seq,
            headers=self._signature(),
            timeout_s=WRITE_S,
        )
        hit("registry.members.put")
        self._members[member.node] = member

    async def _record(self, member: Member) -> None:
        """Until it is written; an entry that says so already is left as it is, byte for byte."""
        while self._members.get(member.node) != member:
            try:
                await self._put(member)
            except Conflict:
                await self._explain(member)
            except (Unavailable, StreamMissing) as error:
                log.warning("membership not written yet", node=member.node, reason=str(error))
                await self._ports.clock.sleep(RETRY_S)
                self.progress()
                await self._explain(member)
            else:
                await self._save()

    async def _explain(self, wanted: Member) -> None:
        """After a refusal or an unknown outcome: was it us, now or in an earlier life, was the
        bucket lost, or is there a second registry? Raises AnotherRegistry for the last."""
        before, losses = self._members, self._losses
        try:
            await self._check(reread=True)
        except (Unavailable, StreamMissing) as error:
            log.info("the membership bucket can't be asked", reason=str(error))
            return
        if self._losses != losses:
            return
        for node, found in self._members.items():
            if found not in (before.get(node), wanted) and self._foreign(self._written[node]):
                raise _somebody_else(node)


def _made(created: str) -> datetime:
    return datetime.fromisoformat(created)


def _somebody_else(node: str) -> AnotherRegistry:
    return AnotherRegistry(f"somebody else writes the membership of {node}")
