"""Decoding as far as the DDL history goes: what it does not know yet is fetched, or waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Collection

from tidelog.decode.ddls import Ddls
from tidelog.decode.decoder import Decoder
from tidelog.decode.doubts import InDoubt
from tidelog.decode.errors import MustAsk, SchemaBehind, Undecodable
from tidelog.decode.survey import Survey, survey
from tidelog.decode.transactions import DdlTxn, LargeTxn, RowTxn
from tidelog.decode.wire import Malformed
from tidelog.errors import BadInput
from tidelog.filter.unwanted import Unwanted
from tidelog.ports import Clock
from tidelog.schema.errors import TablesAway, UnknownJob, UnknownTable
from tidelog.timestamps import compose
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decode.envelopes import envelope_of
from tidelog_drainer.merge.merger import Txn
from tidelog_drainer.merge.spool import Spooled
from tidelog_drainer.schema.errors import HistoryTooShort
from tidelog_drainer.schema.store import SchemaStore

HISTORY_TRIES = 20
"""Complete answers of the DDL history without the wanted job or table: then the feed stops."""

BEHIND_S = 1.0
"""So long after its schema version came into use a job is in the history. A mutation waits for it,
once for each schema version that is newer than the history, or has a gap below it."""
BEHIND_TS = compose(int(BEHIND_S * 1000))


class Decoding:
    """The pure decoder, with the store that brings what it lacks. Owned by the publisher."""

    def __init__(self, config: DrainerConfig, store: SchemaStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._decoder = Decoder(config, store.tracker, store.tracker.query_of, envelope_of(config))
        self._without: set[int] = set()
        """Schema versions that rows went on without."""
        self._looked_ts = 0
        """What the history had shown, by FinishedTS, before it was last asked for what finished
        late, too: of before that it lacks nothing but what takes BEHIND_S. (When it was asked is no
        such word: a file may be of long ago.) A look reads thousands of jobs, so there is one for
        each DDL, and for a backlog of them one."""

    @property
    def dropped(self) -> dict[str, int]:
        """Transactions, DDLs and mutations, by reason."""
        return self._decoder.passed.dropped

    @property
    def ddls(self) -> Ddls:
        """Their policy, and what was noted of them."""
        return self._decoder.ddls

    @property
    def unwanted(self) -> Unwanted:
        """What the Pumps need not send any more."""
        return self._decoder.unwanted

    def begin(
        self, commit_ts: int, version: int, early: Collection[int], behind: Collection[int]
    ) -> None:
        """Once the history was read. See `Ddls.begin`."""
        self._decoder.ddls.begin(commit_ts, version, early, behind)
        self._decoder.allowed_version = self._known_if_looked(commit_ts)

    async def keep(self, passed_ts: int) -> None:
        """Up to here all is published: what the schema was on the way is let go. Raises as
        SchemaStore.keep."""
        passed = self._decoder.passed
        await self._store.keep(passed_ts, passed.highest, passed.unpublished(passed_ts))
        settled = self._store.tracker.settled
        self._decoder.passed.settle(settled)
        self._without = {one for one in self._without if one > settled}

    def at_once(self, txn: Txn) -> RowTxn | DdlTxn | None:
        """`decode`, where nothing has to be read or asked: nearly always. Raises MustAsk, and as
        `decode` does."""
        if not isinstance(txn[2], bytes):
            raise MustAsk
        try:
            return self._decoder.decode(txn)
        except (InDoubt, SchemaBehind, TablesAway, UnknownJob, UnknownTable):
            raise MustAsk from None

    async def decode(self, txn: Txn) -> LargeTxn | RowTxn | DdlTxn | None:
        """None: it is dropped. Raises InDoubt; or Undecodable, whatever it is that stops the feed
        at this transaction."""
        try:
            return await self._decode_or_ask(txn)
        except (BadInput, HistoryTooShort) as error:
            raise Undecodable(txn[0], error.message, hint=error.hint) from error

    async def _decode_or_ask(self, txn: Txn) -> LargeTxn | RowTxn | DdlTxn | None:
        """Decode, fetching more of the DDL history when the schema is unknown. Raises Undecodable
        or a BadInput: the history answers and still doesn't know, or can't be read."""
        commit_ts, start_ts, payload = txn
        found = await _surveyed(commit_ts, payload) if isinstance(payload, Spooled) else None
        tries = 0
        while True:
            try:
                if found is not None and isinstance(payload, Spooled):
                    return self._decoder.large(commit_ts, start_ts, payload, found)
                return self._decoder.decode(txn)
            except SchemaBehind as behind:
                await self._catch_up(behind.version, commit_ts)
                continue
            except TablesAway as away:
                await self._store.load(away.pages, away.needed)
                continue
            except (UnknownJob, UnknownTable) as error:
                if tries >= HISTORY_TRIES:
                    raise
                await self._ask(error, tries)
            self._decoder.schema_changed()
            tries += 1

    async def _ask(self, missing: UnknownJob | UnknownTable, tries: int) -> None:
        """Read what is new in the history, or from the missing job on: jobs may finish out of
        order. A table that stays unknown may have got lost from the snapshot."""
        if tries:
            await self._store.pause(tries)
        if isinstance(missing, UnknownJob):
            job = missing.job_id
            await self._read(self._store.fetch_until_answered(missing.message, job - 1, wanted=job))
        elif tries == HISTORY_TRIES // 2:
            await self._store.rebuild("unknown table")
        else:
            await self._read(self._store.fetch_until_answered(missing.message))
        self._store.waiting = missing.message

    async def _catch_up(self, version: int, commit_ts: int) -> None:
        """Know every job up to a schema version that a transaction has."""
        if self._allow_known() < version:
            await self._look(version, commit_ts)
        self._decoder.schema_changed()

    def _allow_known(self) -> int:
        """Rows up to the schema version up to which every job is known: this one."""
        known = self._known_if_looked(self._looked_ts)
        self._decoder.allowed_version = known
        return known

    def _known_if_looked(self, at_ts: int) -> int:
        """A job is in the history within BEHIND_S."""
        return self._store.tracker.known_upto(self._decoder.allowed_version, at_ts - BEHIND_TS)

    async def _look(self, version: int, commit_ts: int) -> None:
        """Give the history a moment to tell of the jobs up to a schema version that is in use.

        Versions of a DDL that is still running are in no history: then rows go on without it,
        which is counted: had it just become public, they would lack its columns. Of a version
        below one that is known the DDL has run, and what the history doesn't tell of a moment
        later is none: a job takes several versions.
        """
        store, why = self._store, f"the DDL job of schema version {version}"
        await self._read(store.fetch_until_answered(why))
        if self._allow_known() >= version:
            return
        await self._wait_for(version, why)
        newest = store.newest_version
        if newest < version:
            store.go_on_without(version)
            self._without.add(version)
            self._decoder.allowed_version = version
            return
        now_ts = max(commit_ts, store.tracker.finished_ts)
        is_live = self._known_if_looked(now_ts) < version
        if is_live:
            store.waiting = why
            await self._clock.sleep(BEHIND_S)
        shown_ts = store.tracker.finished_ts
        await self._read(store.look_late(why))
        self._looked_ts = shown_ts
        if self._allow_known() < version:
            self._decoder.allowed_version = newest

    async def _wait_for(self, version: int, why: str) -> None:
        """Until the history tells of this version or a newer one, or a moment is over."""
        store = self._store
        deadline = self._clock.monotonic() + BEHIND_S
        tries = 1
        while store.newest_version < version and self._clock.monotonic() < deadline:
            store.waiting = why
            await store.pause(tries)
            await self._read(store.fetch_until_answered(why))
            tries += 1
        if store.newest_version < version:
            await self._read(store.look_late(why))

    async def _read(self, reading: Awaitable[None]) -> None:
        """Of the history; a job that it tells of behind rows of its version is counted."""
        decoded_upto = self._decoder.allowed_version
        before = self._versions(decoded_upto)
        await reading
        for version in sorted(self._versions(decoded_upto) - before - self._without):
            self._store.told_late(version)

    def _versions(self, upto: int) -> set[int]:
        """Of the jobs that are known up to a schema version, and not folded."""
        tracker = self._store.tracker
        return {step.version for step in tracker.between(tracker.folded.version, upto + 1)}


async def _surveyed(commit_ts: int, payload: Spooled) -> Survey:
    """Letting others run between the steps. Raises Undecodable."""
    steps = survey(payload)
    while True:
        try:
            next(steps)
        except StopIteration as done:
            found: Survey = done.value
            return found
        except Malformed as error:
            raise Undecodable(commit_ts, f"its bytes are no binlog: {error}") from error
        await asyncio.sleep(0)
