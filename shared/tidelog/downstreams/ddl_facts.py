"""What a DDL is planned with, asked of the server before its first step."""

from __future__ import annotations

import msgspec

from tidelog.changes import DdlMessage
from tidelog.ddl_pending import DdlFacts, TableFacts
from tidelog.downstreams.literals import quote
from tidelog.downstreams.mysql_session import MysqlSession
from tidelog.downstreams.present import read_present
from tidelog.schema.structure import TableStructure


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
    if ddl.kind == "truncate_table":
        emptied = {(one.db_before, one.before.name): one.before for one in ddl.tables if one.before}
        found = [
            msgspec.structs.replace(
                one, own=await _has_own(session, one, emptied[one.db, one.name])
            )
            if (one.db, one.name) in emptied
            else one
            for one in found
        ]
    told = (one for one in found if one.partitions or one.referenced or one.own)
    return DdlFacts(keep_dropped, tuple(told))


async def _has_own(session: MysqlSession, table: TableFacts, structure: TableStructure) -> bool:
    present = await read_present(session, (table.db, table.name), frozenset())
    if present is None:
        return False
    indexes = await session.rows(
        "SELECT DISTINCT INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA ="
        f" {quote(table.db)} AND TABLE_NAME = {quote(table.name)}"
    )
    known = {"primary", *(key.name.lower() for key in structure.keys)}
    own = {str(index).lower() for (index,) in indexes} - known
    return present.triggers or bool(own) or bool(present.own_columns(structure))


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
