"""What every case uses: a source, all of Tidelog, a copy; write, wait, compare."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import tidelog
from tests.acceptance.by_hand import ByHand
from tests.acceptance.upstream.bridge import Bridge
from tests.acceptance.upstream.contents import ask, cursor, differences
from tests.processes import until
from tests.servers import MariaDb
from tests.topology import Running
from tidelog.pump_client import Writer

WAIT_S = 60


class Stage:
    """`source` is the truth. What it runs gets to the Pumps through the bridge."""

    def __init__(self, source: MariaDb, copy: MariaDb, running: Running, writers: list[Writer]):
        self.source = source
        self.copy = copy
        self.running = running
        self.writers = writers
        self.by_hand = ByHand(writers[0])
        self.bridge = Bridge(source, writers[0])

    async def sql(self, *statements: str | tuple[str, Sequence[object]]) -> None:
        """One transaction at the source, in its own zone, and on to the Pumps. A DDL commits."""
        with cursor(self.source) as at:
            at.execute("SET time_zone = @@global.time_zone")
            at.execute("BEGIN")
            for statement in statements:
                text, arguments = (statement, ()) if isinstance(statement, str) else statement
                at.execute(text, arguments)
            at.execute("COMMIT")
        await self.bridge.catch_up()

    async def each(self, *statements: str) -> None:
        """A transaction each."""
        for statement in statements:
            await self.sql(statement)

    def aside(self, *statements: str) -> None:
        """At the source alone: what the case tells Tidelog in its own way."""
        with cursor(self.source) as at:
            at.execute("SET sql_log_bin = 0")
            for statement in statements:
                at.execute(statement)

    async def equal(self, *dbs: str, commit_ts: int = 0) -> None:
        """Wait for the last commit, then compare row by row."""
        wanted = max(self.bridge.last, commit_ts)
        what = f"{wanted} to be applied"
        await asyncio.to_thread(until, lambda: self._applied() >= wanted, what, WAIT_S)
        unequal = [line for db in dbs for line in differences(self.source, self.copy, db)]
        assert not unequal, "\n".join(unequal)

    def _applied(self) -> int:
        return int(self.running.said("applier")["applied_ts"])

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        """Of the copy."""
        return ask(self.copy, sql)


@asynccontextmanager
async def staged(
    source: MariaDb, copy: MariaDb, running: Running, state: Path
) -> AsyncIterator[Stage]:
    """With two writers, as of two TiDB servers."""
    async with (
        tidelog.connect(running.nats, state_dir=state / "1") as one,
        tidelog.connect(running.nats, state_dir=state / "2") as other,
    ):
        yield Stage(source, copy, running, [one, other])
