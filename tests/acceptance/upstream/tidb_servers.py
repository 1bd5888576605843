"""Several TiDB servers while the schema changes: at most one schema version apart.

A schema change goes through TiDB's states, a schema version each (appendix B.10). A column that is
being added or dropped is, from the state "write only" on, hidden from statements and yet written.
Once the last state is in use, rows of it may come before the change's own binlog, and rows of the
version before it may come after.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Final

from tests.acceptance.by_hand import ByHand
from tests.acceptance.upstream.race_history import Changed, History
from tests.acceptance.upstream.tidb_server import Server, View
from tidelog.pump_client import Writer
from tidelog.pump_client.ddl.change import Change
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.tables.table import Table
from tidelog.schema import jobs
from tidelog.schema.history import TableAt
from tidelog.timestamps import LOGICAL_BITS, physical_ms

FINISHED_MS: Final = 400
"""A job's FinishedTS is above its binlog's commit_ts."""
GONE: Final = (jobs.DROP_SCHEMA, jobs.DROP_TABLE)
HELD_BACK: Final = 0.05
"""So many jobs enter the history only when they are done: until then nobody knows what the versions
on the way are, and the Drainer waits a second for each."""


class Cluster:
    """Servers that write to one table, and the owner of the schema changes."""

    def __init__(self, writers: Sequence[Writer], table: str, seed: int) -> None:
        self.history = History()
        self.servers = [Server(one, self.history, at) for at, one in enumerate(writers)]
        self._table = table.split(".")
        self._hand = ByHand(writers[0])
        self._oracle = writers[0]._upstream.oracle
        self._random = random.Random(seed)

    async def race(
        self, transaction: Callable[[Server], Awaitable[None]], ddls: Sequence[str]
    ) -> None:
        """Transactions of all servers while the changes are made."""
        async with asyncio.TaskGroup() as group:
            for server in self.servers:
                server.ended = False
                group.create_task(server.work(transaction))
            try:
                for text in ddls:
                    await self.ddl(text)
            finally:
                for server in self.servers:
                    server.ended = True

    async def ddl(self, text: str) -> None:
        catalog = await self._hand.catalog()
        now_ts = await self._oracle.fresh(0)
        now = datetime.fromtimestamp(physical_ms(now_ts) / 1000, UTC)
        change = plan(parse(text), catalog, f"{now:%Y-%m-%d %H:%M:%S.%f}")
        assert change is not None, text
        finished_ts = now_ts + (FINISHED_MS << LOGICAL_BITS)
        job = change.job(catalog.next_id, catalog.version, text, finished_ts)
        after_job = catalog.last_job
        views = self._views(change, catalog.find(*self._table), catalog.version, job.version)
        told = len(views) - 1 if self._random.random() < HELD_BACK else 0
        for at, view in enumerate(views[:-1]):
            if at == told:
                await self._hand.append(job, after_job)
            if change.type == jobs.DROP_COLUMN and at == 1:
                await self._hand.binlogs(job.id, text, jobs.STATE_DELETE_ONLY)
            for server in self._in_any_order():
                await self._follow(server, view)
        if told == len(views) - 1:
            await self._hand.append(job, after_job)
        await self._last_state(change, views[-1], job.id, text)

    async def _last_state(self, change: Change, view: View, job_id: int, text: str) -> None:
        """The change's binlog comes when one server, or all, are there; of a drop when all are:
        what is dropped was in use two versions ago."""
        first, *others = self._in_any_order()
        await self._follow(first, view)
        late = change.type in GONE or self._random.random() < 0.5
        if not late:
            commit_ts = await self._hand.binlogs(job_id, text, change.schema_states[-1])
            await asyncio.gather(*(self._once_more(server) for server in self.servers))
        for server in others:
            await self._follow(server, view)
        if late:
            commit_ts = await self._hand.binlogs(job_id, text, change.schema_states[-1])
        table_id = view.table.id if view.table is not None else 0
        self.history.changes.append(Changed(commit_ts, view.version, table_id, text))

    async def _follow(self, server: Server, view: View) -> None:
        """And write a row as this version has it, or not."""
        await server.take(view)
        if self._random.random() < 0.7:
            await self._once_more(server)

    async def _once_more(self, server: Server) -> None:
        server.done.clear()
        if not server.ended:
            await server.done.wait()

    def _in_any_order(self) -> list[Server]:
        return self._random.sample(self.servers, len(self.servers))

    def _views(self, change: Change, old: TableAt | None, version: int, last: int) -> list[View]:
        """After the one that all servers have."""
        new = None
        if change.info is not None and change.type not in GONE:
            new = TableAt(self._table[0], self._table[1], last, change.info)
        states: list[tuple[TableAt | None, bool]] = [(new, False)]
        if change.type == jobs.ADD_COLUMN:
            states = [(old, False), (new, True), (new, True), (new, False)]
        elif change.type == jobs.DROP_COLUMN:
            states = [(old, True), (new, False), (new, False), (new, False)]
        hidden = frozenset(_names(old) ^ _names(new))
        first = last + 1 - len(states)
        assert first > version
        return [
            View(first + at, None, None)
            if table is None
            else View(first + at, Table(table), table.info, hidden if hides else frozenset())
            for at, (table, hides) in enumerate(states)
        ]


def _names(table: TableAt | None) -> set[str]:
    return {column.name.text for column in table.info.columns} if table is not None else set()
