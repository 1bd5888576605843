"""What a DDL is planned with, asked of the server before its first step."""

from __future__ import annotations

from tidelog.changes import DdlMessage
from tidelog.ddl_pending import DdlFacts, TableFacts
from tidelog.downstreams.literals import quote
from tidelog.downstreams.mysql_session import MysqlSession


async def ask(session: MysqlSession, ddl: DdlMessage, *, keep_dropped: bool) -> DdlFacts:
    """Of the tables that the DDL touches, by the names they have before and after it."""
    places = [
        place
        for one in (() if ddl.brief else ddl.tables)
        for place in (
            (one.db_before, one.before.name if one.before is not None else ""),
            (one.db_after, one.after.name if one.after is not None else ""),
        )
        if place[1]
    ]
    found = [await _table(session, *place) for place in dict.fromkeys(places)]
    return DdlFacts(keep_dropped, tuple(one for one in found if one.partitions or one.referenced))


async def _table(session: MysqlSession, db: str, table: str) -> TableFacts:
    partitions = await session.rows(
        "SELECT PARTITION_NAME FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA ="
        f" {quote(db)} AND TABLE_NAME = {quote(table)} AND PARTITION_NAME IS NOT NULL"
        " ORDER BY PARTITION_ORDINAL_POSITION"
    )
    referenced = await session.rows(
        "SELECT 1 FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE"
        f" UNIQUE_CONSTRAINT_SCHEMA = {quote(db)} AND REFERENCED_TABLE_NAME ="
        f" {quote(table)} LIMIT 1"
    )
    return TableFacts(db, table, tuple(str(name) for (name,) in partitions), bool(referenced))
