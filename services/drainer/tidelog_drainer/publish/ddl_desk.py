"""What operators order about DDLs, and which were not published as they came: kept in `DDL_<FEED>`.

In a bucket, because whichever Drainer publishes the feed next must know both; and in a file, for a
bucket that is lost. Each write replaces the revision that was read, so two Drainers that think they
publish never undo each other's.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TypeVar

import msgspec
import structlog
from msgspec.structs import replace

from tidelog import subjects
from tidelog.decode.ddls import Ddls
from tidelog.decode.errors import UndecidedDdl
from tidelog.drainer_control import (
    ACTIONS,
    FORWARD,
    NOTED_KEY,
    ORDERS_KEY,
    SKIP,
    STOP,
    DdlOrders,
    DecidedDdl,
    DrainerRequest,
    FeedDdls,
    NotedDdls,
)
from tidelog.errors import (
    BadInput,
    Conflict,
    Corrupt,
    DiskFull,
    Refused,
    StreamMissing,
    Unavailable,
)
from tidelog.kv import Bucket
from tidelog.ports import Ports
from tidelog.schema.jobs import check_kind
from tidelog.sealed import read_sealed, seal
from tidelog.unreadable import NOT_READABLE

DECIDED_MAX = 200
POLICY_MAX = 200
"""Of orders kept. An older decision is asked for again, should its DDL ever come again."""
DDLS_FILE = "ddls.json"
FOLLOW_S = 2.0
TRIES = 8
"""Writes that meet another Drainer's."""

VERBS = "ddls, ddl-pass, ddl-skip, ddl-policy"

S = TypeVar("S", DdlOrders, NotedDdls)

log = structlog.get_logger()


class Kept(msgspec.Struct, frozen=True):
    """DDLS_FILE: both, as this node last knew them."""

    orders: DdlOrders = DdlOrders()
    noted: NotedDdls = NotedDdls()


class DdlDesk:
    """Owned by the publisher."""

    def __init__(self, feed: str, ports: Ports, ddls: Ddls) -> None:
        self._feed = feed
        self._disk = ports.disk
        self._clock = ports.clock
        self._ddls = ddls
        self._bucket = Bucket(ports.bus, subjects.ddl_bucket(feed))
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """What earlier lives kept. Raises Corrupt, Unavailable."""
        mine = self._own()
        kept = await self._kept()
        orders = _newer(mine.orders, kept.orders)
        self._ddls.policy.obey(orders)
        if orders != kept.orders:  # the bucket was lost, or is an older one
            await self._update(ORDERS_KEY, DdlOrders, lambda now: now)
        self._ddls.noted.merged(mine.noted)
        self._ddls.noted.merged(kept.noted)
        self._ddls.noted.changed = False

    async def _kept(self) -> Kept:
        """What the bucket has. Raises Corrupt, Unavailable."""
        orders, noted = DdlOrders(), NotedDdls()
        with contextlib.suppress(StreamMissing):
            if (entry := await self._bucket.get(ORDERS_KEY)) is not None:
                orders = self._decode(ORDERS_KEY, entry.value, DdlOrders)
            if (entry := await self._bucket.get(NOTED_KEY)) is not None:
                noted = self._decode(NOTED_KEY, entry.value, NotedDdls)
        return Kept(orders, noted)

    async def follow(self) -> None:
        """Until it is cancelled, beside another Drainer that leads: what that one was ordered is
        kept here too, for the time when the bucket is lost."""
        while True:
            with contextlib.suppress(Unavailable, Corrupt, DiskFull):  # who leads says it
                mine, kept = self._own(), await self._kept()
                if kept.orders.number > mine.orders.number:
                    both = replace(mine, orders=kept.orders)
                    await self._disk.write_file(DDLS_FILE, seal(both))
            await self._clock.sleep(FOLLOW_S)

    def _own(self) -> Kept:
        hint = f"delete it: the bucket {self._bucket.name} has the same"
        return read_sealed(self._disk, DDLS_FILE, Kept, hint) or Kept()

    async def save(self) -> None:
        """What was noted since is kept, before the stream passes it. Raises Corrupt,
        Unavailable."""
        noted = self._ddls.noted
        if noted.changed:
            async with self._writing:
                # What is noted during the write is for the next batch, which passes it.
                noted.changed = False
                try:
                    await self._update(NOTED_KEY, NotedDdls, noted.merged)
                    await self._remember()
                except BaseException:
                    noted.changed = True
                    raise

    async def answer(self, asked: DrainerRequest, stands_at: UndecidedDdl | None) -> FeedDdls:
        """An order is kept before it is obeyed, and obeyed before it is answered. Raises BadInput,
        Corrupt, Refused, Unavailable."""
        match asked.verb:
            case "ddls":
                pass
            case "ddl-pass":
                await self._decide(asked.ts, FORWARD, stands_at)
            case "ddl-skip":
                await self._decide(asked.ts, SKIP, stands_at)
            case "ddl-policy":
                await self._set_policy(asked.kind, asked.action)
            case _:
                raise BadInput(f"unknown verb {asked.verb!r}", hint=VERBS)
        return self.state(stands_at)

    def state(self, stands_at: UndecidedDdl | None) -> FeedDdls:
        orders, listed = self._ddls.policy.orders, self._ddls.noted.listed()
        waits = stands_at is not None and not self.decides(stands_at)
        ddl = stands_at.ddl if stands_at is not None and waits else None
        return FeedDdls(self._feed, ddl, orders.policy, orders.decided, listed.ddls, listed.older)

    def decides(self, met: UndecidedDdl) -> bool:
        """An operator has said by now what becomes of it."""
        return self._ddls.policy.action(met.ddl.kind, met.ddl.job_id) != STOP

    async def _decide(self, commit_ts: int, action: str, at: UndecidedDdl | None) -> None:
        """Asked twice, as its answer may be lost, it is the same."""
        known = self._ddls.policy.orders.decided
        if any((one.commit_ts, one.action) == (commit_ts, action) for one in known):
            return
        if at is None or self.decides(at) or at.ddl.commit_ts != commit_ts:
            where = f"at {at.ddl.commit_ts}" if at and not self.decides(at) else "at no DDL"
            raise Refused(
                f"feed {self._feed} does not stand at {commit_ts}: it stands {where}",
                hint="`tidelog ddl` shows where it stands; `tidelog ddl policy` decides beforehand",
            )
        met = at.ddl
        decided = DecidedDdl(met.job_id, commit_ts, met.kind, action)

        def with_it(now: DdlOrders) -> DdlOrders:
            others = [one for one in now.decided if one.job_id != met.job_id]
            all_of_them = [*others, decided][-DECIDED_MAX:]
            return replace(now, decided=all_of_them, number=self._number_after(now))

        await self._order(with_it)

    async def _set_policy(self, kind: str, action: str) -> None:
        if not kind or action not in ("", *ACTIONS):
            raise BadInput(f"a policy {kind}={action}", hint=f"KIND= or KIND={'|'.join(ACTIONS)}")
        try:
            if action:  # what stands there can always be taken away
                check_kind(kind)
        except ValueError as error:
            raise BadInput(
                str(error), hint="a DDL that the feed stops at names its kind"
            ) from error

        def with_it(now: DdlOrders) -> DdlOrders:
            others = {one: what for one, what in now.policy.items() if one != kind}
            if action and len(others) >= POLICY_MAX:
                raise Refused(f"feed {self._feed} has {POLICY_MAX} policies", hint="`ddl-policy`")
            policy = others | ({kind: action} if action else {})
            return replace(now, policy=policy, number=self._number_after(now))

        await self._order(with_it)

    def _number_after(self, now: DdlOrders) -> int:
        """Above those, too, that the store has lost and a Drainer that is away still has."""
        return max(now.number + 1, self._clock.wall_ms())

    async def _order(self, change: Callable[[DdlOrders], DdlOrders]) -> None:
        async with self._writing:
            kept = await self._update(ORDERS_KEY, DdlOrders, change)
            self._ddls.policy.obey(kept)
            await self._remember()
        log.info("an operator's order about DDLs", feed=self._feed, orders=kept)

    async def _update(self, key: str, kind: type[S], change: Callable[[S], S]) -> S:
        """Changes what is kept now; of a bucket that was lost, what this life knows. Raises
        Corrupt, Unavailable."""
        for _ in range(TRIES):
            entry, revision = await self._bucket.read_or_create(key)
            before = self._known(kind)
            if entry is not None:
                before = _newer(before, self._decode(key, entry.value, kind))
            after = change(before)
            try:
                await self._bucket.put(key, msgspec.json.encode(after), expected=revision)
            except (Conflict, StreamMissing):
                continue
            return after
        raise Unavailable(f"bucket {self._bucket.name} changes all the time", hint="ask again")

    def _decode(self, key: str, value: bytes, kind: type[S]) -> S:
        """Raises Corrupt."""
        try:
            return msgspec.json.decode(value, type=kind)
        except NOT_READABLE as error:
            bucket = self._bucket.name
            hint = f"`nats kv del {bucket} {key}`: the Drainer goes on with its {DDLS_FILE}"
            raise Corrupt(f"{key} in bucket {bucket} can't be read: {error}", hint=hint) from error

    def _known(self, kind: type[S]) -> S:
        known = {DdlOrders: self._ddls.policy.orders, NotedDdls: NotedDdls()}
        return known[kind]  # type: ignore[return-value]

    async def _remember(self) -> None:
        kept = Kept(self._ddls.policy.orders, self._ddls.noted.listed())
        await self._disk.write_file(DDLS_FILE, seal(kept))


def _newer(mine: S, kept: S) -> S:
    """Of orders that of more; of what was noted, and of two that are as old, the bucket's. (What an
    earlier release wrote has no number: a bucket that was lost is as old, and has none.)"""
    if not (isinstance(mine, DdlOrders) and isinstance(kept, DdlOrders)):
        return kept
    return mine if mine.number > kept.number or kept == DdlOrders() else kept
