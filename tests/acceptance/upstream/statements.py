"""A statement that a MariaDB ran, told to Tidelog as a TiDB's DDL."""

from __future__ import annotations

import re

from msgspec import structs
from sqlglot import exp

from tests.acceptance.by_hand import ByHand
from tests.acceptance.upstream.binlog import Statement
from tidelog.pump_client import Writer
from tidelog.pump_client.ddl.keys import PRIMARY, Key, index
from tidelog.pump_client.ddl.parse import parse
from tidelog.schema.model import TableInfo

SKIPPED = re.compile(
    r"(?:`?(?:mysql|tidb_binlog)`?\b|^(?:BEGIN|COMMIT|ROLLBACK|SAVEPOINT))", re.IGNORECASE
)
NONCLUSTERED = re.compile(r"\bNONCLUSTERED\b", re.IGNORECASE)
STORED = re.compile(r"\b(?:STORED|PERSISTENT)\b", re.IGNORECASE)
TIDB_ONLY = re.compile(r"/\*T!.*?\*/", re.DOTALL)


async def tell(hand: ByHand, writer: Writer, statement: Statement) -> int:
    """Its commit_ts; 0: it changes nothing that TiDB would tell of."""
    text = statement.text
    if SKIPPED.search(text) or SKIPPED.search(f"`{statement.db}`"):
        return 0
    tree = parse(TIDB_ONLY.sub("", text))
    tables = list(tree.find_all(exp.Table))
    if any(not table.db for table in tables):
        for table in tables:
            table.set("db", table.args.get("db") or exp.to_identifier(statement.db))
        text = tree.sql(dialect="mysql")
    if isinstance(tree, exp.Create) and (NONCLUSTERED.search(text) or STORED.search(text)):
        return await _create(hand, text, tables[0].db)
    return (await writer.ddl(text)).commit_ts


async def _create(hand: ByHand, text: str, db: str) -> int:
    """CREATE TABLE with what Writer.ddl refuses, because only a database can serve it."""
    (number,) = await hand.ids(1)
    info = structs.replace(await hand.made(STORED.sub("VIRTUAL", text)), id=number)
    if STORED.search(text):
        stored = tuple(
            structs.replace(c, generated_stored=c.virtual and _is_stored(text, c.name.text))
            for c in info.columns
        )
        info = structs.replace(info, cols=stored)
    return await hand.ddl("create_table", db, text, _nonclustered(text, info))


def _is_stored(text: str, column: str) -> bool:
    """In this text of one column a line."""
    (line,) = [line for line in text.splitlines() if re.match(rf"\s*`?{column}`?\s", line)]
    return STORED.search(line) is not None


def _nonclustered(text: str, info: TableInfo) -> TableInfo:
    """The primary key is an index beside a hidden row id."""
    if not NONCLUSTERED.search(text):
        return info
    if info.pk_is_handle:
        (name,) = [c.name.text for c in info.columns if c.type.Flag & 2]
        key = Key(PRIMARY, ((name, -1),), unique=True, primary=True)
        made = index(key, 1 + len(info.indexes), info.columns, info.indexes)
        info = structs.replace(info, index_info=(*info.indexes, made))
    return structs.replace(info, pk_is_handle=False, is_common_handle=False)
