"""Decoding as far as the DDL history goes: what it does not know yet is fetched, or waited for."""

from __future__ import annotations

from tidelog.errors import BadInput
from tidelog.ports import Clock
from tidelog.schema.errors import UnknownJob, UnknownTable
from tidelog_drainer.config import DrainerConfig
from tidelog_drainer.decoder import DdlTxn, Decoder, RowTxn, SchemaBehind, Undecodable
from tidelog_drainer.merger import Txn
from tidelog_drainer.position import Start
from tidelog_drainer.schema_store import SchemaStore

HISTORY_TRIES = 20
"""Complete answers of the DDL history without the wanted job or table: then the feed stops."""

BEHIND_S = 1.0
"""How long a mutation newer than the DDL history waits for it, once for each schema version."""


class Decoding:
    """The pure decoder, with the store that brings what it lacks. Owned by the publisher."""

    def __init__(self, config: DrainerConfig, store: SchemaStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._decoder = Decoder(config, store.tracker, store.query_of)

    @property
    def dropped(self) -> dict[str, int]:
        """Transactions, DDLs and mutations, by reason."""
        return self._decoder.dropped

    def begin(self, start: Start) -> None:
        """Once the history was read: what is decoded lies above `start`."""
        self._decoder.base_version = max(
            start.schema_version, self._store.version_at(start.commit_ts)
        )
        self._decoder.allowed_version = self._store.newest_version
        self._decoder.early = set(start.early)

    async def decode(self, txn: Txn) -> RowTxn | DdlTxn | None:
        """None: it is dropped. Raises Undecodable, whatever it is that stops the feed at this
        transaction."""
        try:
            return await self._decode_or_ask(txn)
        except BadInput as error:
            raise Undecodable(txn[0], error.message, hint=error.hint) from error

    async def _decode_or_ask(self, txn: Txn) -> RowTxn | DdlTxn | None:
        """Decode, fetching more of the DDL history when the schema is unknown. Raises Undecodable
        or a BadInput: the history answers and still doesn't know, or can't be read."""
        tries = 0
        while True:
            try:
                return self._decoder.decode(txn)
            except SchemaBehind as behind:
                await self._catch_up(behind.version)
                continue
            except UnknownJob as error:
                missing: BadInput = error
                after: int | None = error.job_id - 1
            except UnknownTable as error:
                missing = error
                after = 0 if tries >= HISTORY_TRIES // 2 else None
            if tries >= HISTORY_TRIES:
                raise missing
            if tries:
                await self._store.pause(tries)
            await self._store.fetch_until_answered(missing.message, after)
            self._store.waiting = f"transaction {txn[0]}: {missing.message}"
            self._decoder.schema_changed()
            tries += 1

    async def _catch_up(self, version: int) -> None:
        """Give the history a moment to tell of a schema version that is in use already. Versions
        of a DDL that is still running are in no history: then rows go on without it."""
        deadline = self._clock.monotonic() + BEHIND_S
        why = f"the DDL job of schema version {version}"
        await self._store.fetch_until_answered(why)
        tries = 1
        while self._store.newest_version < version and self._clock.monotonic() < deadline:
            self._store.waiting = why
            await self._store.pause(tries)
            await self._store.fetch_until_answered(why)
            tries += 1
        self._store.waiting = ""
        self._decoder.allowed_version = max(version, self._store.newest_version)
        self._decoder.schema_changed()
