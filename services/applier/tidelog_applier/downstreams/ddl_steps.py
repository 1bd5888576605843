"""Runs a DDL's steps exactly once over crashes, where DDL commits by itself (design section 9).

Before each step the checkpoint records the step and a digest of the affected tables' definitions.
At the next start an equal digest says that the step did not happen, another one that it did.
"""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec
import structlog

from tidelog import failpoints
from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint, DdlPending
from tidelog_applier.downstreams import checkpoint_table
from tidelog_applier.downstreams.ddl_mysql import DROPPED, STATE_DB, Facts, Step, plan
from tidelog_applier.downstreams.literals import quote, table_name
from tidelog_applier.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog_applier.downstreams.structure_ddl import Flavor

log = structlog.get_logger()

_COUNTER = re.compile(r" AUTO_INCREMENT=\d+")
_MISSING = {1146, 1049, 1305, 4091}


class DdlSteps:
    """For one DDL. `saved`: the checkpoint as it is stored; `keep_ms`: how long dropped tables'
    rows stay, 0 = not at all."""

    def __init__(
        self,
        session: MysqlSession,
        flavor: Flavor,
        feed: str,
        saved: Checkpoint | None,
        keep_ms: int,
    ) -> None:
        self._session = session
        self._flavor = flavor
        self._feed = feed
        self._saved = saved if saved is not None else Checkpoint(commit_ts=0)
        self._keep_ms = keep_ms

    async def run(self, ddl: DdlMessage, checkpoint: Checkpoint) -> list[str]:
        """Returns what the downstream can't hold. Raises StatementRefused where none was tried."""
        steps = plan(ddl, await self._facts(ddl))
        begun = self._saved.ddl_pending
        if begun is not None and begun.commit_ts != ddl.commit_ts:
            begun = None
        notes: list[str] = []
        for number, step in enumerate(steps):
            if begun is not None and number < begun.step:
                continue
            if step.swap:
                await self._swap(step, checkpoint)
                return notes
            before = await self._digest(step)
            if begun is not None and number == begun.step and begun.before != before:
                log.info("ddl step was done before", commit_ts=ddl.commit_ts, step=number)
            else:
                pending = DdlPending(ddl.commit_ts, number, before)
                await self._save(msgspec.structs.replace(self._saved, ddl_pending=pending))
                failpoints.hit("applier.ddl.recorded")
                for sql in step.before:
                    await self._session.run(sql)
                notes += await self._attempt(step)
                failpoints.hit("applier.ddl.run")
            for sql in step.after:
                await self._session.run(sql)
        await self._forget_old(ddl.commit_ts)
        await self._save(checkpoint)
        return notes

    async def _save(self, checkpoint: Checkpoint) -> None:
        await self._session.run(checkpoint_table.replace(self._feed, checkpoint))

    async def _attempt(self, step: Step) -> list[str]:
        """The first attempt the server takes."""
        refused: StatementRefused | None = None
        for attempt in step.attempts:
            if attempt.lenient and not (refused is not None and refused.is_about_data):
                continue
            try:
                if attempt.lenient:
                    await self._session.run_lenient(attempt.sql)
                elif attempt.sql:
                    await self._session.run(attempt.sql)
            except StatementRefused as error:
                refused = error
                log.warning("ddl attempt refused", code=error.code, error=error.message)
                continue
            return [attempt.note] if attempt.note else []
        assert refused is not None
        raise refused

    async def _swap(self, step: Step, checkpoint: Checkpoint) -> None:
        await self._session.run("BEGIN")
        for sql in step.swap:
            await self._session.run(sql)
        await self._save(checkpoint)
        failpoints.hit("applier.ddl.swap")
        await self._session.run("COMMIT")

    async def _digest(self, step: Step) -> str:
        """Of the definitions of the step's tables; "" for a step that may run twice."""
        if not step.tables:
            return ""
        found = sha256()
        for db, table in step.tables:
            found.update((await self._definition(db, table)).encode())
            found.update(b"\0")
        return found.hexdigest()

    async def _definition(self, db: str, table: str) -> str:
        try:
            rows = await self._session.rows(f"SHOW CREATE TABLE {table_name(db, table)}")
        except StatementRefused as error:
            if error.code in _MISSING:
                return ""
            raise
        return _COUNTER.sub("", str(rows[0][1]))

    async def _facts(self, ddl: DdlMessage) -> Facts:
        places = [
            place
            for one in (() if ddl.brief else ddl.tables)
            for place in (
                (one.db_before, one.before.name if one.before is not None else ""),
                (one.db_after, one.after.name if one.after is not None else ""),
            )
            if place[1]
        ]
        partitions: dict[tuple[str, str], frozenset[str]] = {}
        referenced: list[tuple[str, str]] = []
        for db, table in dict.fromkeys(places):
            rows = await self._session.rows(
                "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA ="
                f" {quote(db)} AND TABLE_NAME = {quote(table)} AND PARTITION_NAME IS NOT NULL"
            )
            if rows:
                partitions[db, table] = frozenset(str(name) for (name,) in rows)
            if await self._session.rows(
                "SELECT 1 FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE"
                f" UNIQUE_CONSTRAINT_SCHEMA = {quote(db)} AND REFERENCED_TABLE_NAME ="
                f" {quote(table)} LIMIT 1"
            ):
                referenced.append((db, table))
        return Facts(self._flavor, self._keep_ms > 0, partitions, frozenset(referenced))

    async def _forget_old(self, commit_ts: int) -> None:
        """Dropped tables that the upstream could not bring back any more. May run twice."""
        horizon = max(0, (commit_ts >> 18) - self._keep_ms) << 18
        rows = await self._session.rows(
            f"SELECT table_id, hidden FROM {DROPPED} WHERE commit_ts < {horizon} LIMIT 100"
        )
        for table_id, hidden in rows:
            await self._session.run(f"DROP TABLE IF EXISTS {table_name(STATE_DB, str(hidden))}")
            await self._session.run(f"DELETE FROM {DROPPED} WHERE table_id = {int(table_id)}")
