"""A database that speaks MySQL's protocol, as a doctor asks it. An edge: nothing here is judged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from tidelog.downstreams.mysql_session import MysqlSession, StatementRefused
from tidelog.downstreams.target import Target
from tidelog.errors import ConfigError
from tidelog.schema.tracker import SYSTEM_SCHEMAS

OURS = frozenset(("tidb_binlog", "retl"))
_KEYLESS = (
    "SELECT t.TABLE_SCHEMA, t.TABLE_NAME FROM information_schema.TABLES t LEFT JOIN"
    " (SELECT DISTINCT TABLE_SCHEMA d, TABLE_NAME n FROM"
    " (SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE NON_UNIQUE = 0"
    " GROUP BY TABLE_SCHEMA, TABLE_NAME, INDEX_NAME HAVING SUM(NULLABLE = 'YES') = 0) k) keyed"
    " ON keyed.d = t.TABLE_SCHEMA AND keyed.n = t.TABLE_NAME"
    " WHERE t.TABLE_TYPE = 'BASE TABLE' AND keyed.d IS NULL ORDER BY 1, 2"
)
"""Not by EXISTS: of several tables, TiDB 7 takes all but the first for keyless then."""
_TRIGGERS = (
    "SELECT DISTINCT EVENT_OBJECT_SCHEMA, EVENT_OBJECT_TABLE FROM information_schema.TRIGGERS"
    " ORDER BY 1, 2"
)
_CASCADES = (
    "SELECT DISTINCT CONSTRAINT_SCHEMA, TABLE_NAME FROM"
    " information_schema.REFERENTIAL_CONSTRAINTS WHERE UPDATE_RULE NOT IN ('RESTRICT', 'NO ACTION')"
    " OR DELETE_RULE NOT IN ('RESTRICT', 'NO ACTION') ORDER BY 1, 2"
)
_SEQUENCES = (
    "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES"
    " WHERE TABLE_TYPE = 'SEQUENCE' ORDER BY 1, 2"
)


class Tables(msgspec.Struct, frozen=True):
    """DB.TABLE of those that are worth a word. `untold`: what the server does not tell."""

    keyless: list[str] = []
    triggers: list[str] = []
    cascades: list[str] = []
    sequences: list[str] = []
    untold: list[str] = []


class Database:
    """One session."""

    def __init__(self, session: MysqlSession, shown: str) -> None:
        self._session = session
        self.shown = shown

    @property
    def max_packet(self) -> int:
        return self._session.max_packet

    async def value(self, expression: str) -> Any:
        """None: the server does not know it, or this account may not. Raises Unavailable."""
        try:
            return (await self._session.rows(f"SELECT {expression}"))[0][0]
        except (StatementRefused, ConfigError):
            return None

    async def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Empty where the server knows no such thing. Raises ConfigError, Unavailable."""
        try:
            return await self._session.rows(sql)
        except StatementRefused:
            return []

    async def grants(self) -> list[str]:
        return [str(grant) for (grant,) in await self._rows("SHOW GRANTS")]

    async def tables(self) -> Tables:
        untold: list[str] = []
        return Tables(
            await self._tables(_KEYLESS, "keys", untold),
            await self._tables(_TRIGGERS, "triggers", untold),
            await self._tables(_CASCADES, "actions of foreign keys", untold),
            await self._tables(_SEQUENCES, "sequences", untold),
            untold,
        )

    async def _tables(self, sql: str, what: str, untold: list[str]) -> list[str]:
        """Neither the server's own nor ours."""
        hidden = {*SYSTEM_SCHEMAS, *OURS}
        try:
            rows = await self._session.rows(sql)
        except StatementRefused:
            untold.append(what)
            return []
        return [f"{db}.{table}" for db, table in rows if str(db).lower() not in hidden]

    async def channels(self, schema: str) -> list[int] | None:
        """Those that its mark table names; None: this account may not look."""
        quoted = schema.replace("`", "``")
        sql = f"SELECT DISTINCT channel_id FROM `{quoted}`._drainer_repl_mark ORDER BY 1"  # noqa: S608
        try:
            return [int(channel) for (channel,) in await self._rows(sql)]
        except ConfigError:
            return None


@asynccontextmanager
async def opened(target: Target) -> AsyncIterator[Database]:
    """Raises ConfigError, Unavailable."""
    session = await MysqlSession.connect(target)
    try:
        yield Database(session, target.shown)
    finally:
        await session.close()
