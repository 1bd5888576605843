"""MySQL, MariaDB and TiDB, read in one snapshot (design section 11)."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence, Set
from typing import Any

import pymysql

from tidelog.downstream import Checkpoint
from tidelog.downstreams.mysql_connection import MysqlConnection
from tidelog.errors import BadInput, ConfigError, InvariantBroken, Unavailable
from tidelog.schema.tracker import SYSTEM_SCHEMAS
from tidelog_cli.verify import mysql_text as sql
from tidelog_cli.verify.place import Place
from tidelog_cli.verify.sides import Chunk, Key, Range, Row, Sum, checkpoint_of
from tidelog_cli.verify.tables import Column, Part, Table

_DENIED = frozenset((1044, 1045, 1049, 1142, 1143, 1227, 1698))
_TLS_HINT = "`?tls=on` where it wants TLS; tls_ca=FILE must be who signed its certificate"
_NO_TABLE = frozenset((1049, 1146))
_CHANGED = 1412
_SESSION = (
    "SET NAMES utf8mb4",
    "SET SESSION time_zone='+00:00'",
    "SET SESSION sql_mode='NO_BACKSLASH_ESCAPES'",
)
_JSON = (
    "SELECT CONSTRAINT_SCHEMA,TABLE_NAME,CHECK_CLAUSE FROM information_schema.CHECK_CONSTRAINTS"
    " WHERE CHECK_CLAUSE LIKE 'json\\_valid(%'"
)
_COLUMNS = (
    "SELECT c.TABLE_SCHEMA,c.TABLE_NAME,c.COLUMN_NAME,LOWER(c.DATA_TYPE),"
    "COALESCE(c.CHARACTER_MAXIMUM_LENGTH,0),COALESCE(c.COLLATION_NAME,''),t.TABLE_ROWS"
    " FROM information_schema.COLUMNS c JOIN information_schema.TABLES t USING"
    " (TABLE_SCHEMA,TABLE_NAME) WHERE t.TABLE_TYPE='BASE TABLE'"
    " ORDER BY c.TABLE_SCHEMA,c.TABLE_NAME,c.ORDINAL_POSITION"
)
_KEYS = (
    "SELECT TABLE_SCHEMA,TABLE_NAME,INDEX_NAME,COLUMN_NAME,NULLABLE,SUB_PART"
    " FROM information_schema.STATISTICS WHERE NON_UNIQUE=0"
    " ORDER BY TABLE_SCHEMA,TABLE_NAME,INDEX_NAME<>'PRIMARY',INDEX_NAME,SEQ_IN_INDEX"
)
Name = tuple[str, str]


class MysqlSide:
    """One connection."""

    def __init__(
        self, place: Place, connection: MysqlConnection, version: str, checkpoint_table: str
    ) -> None:
        self._place = place
        self._connection = connection
        self._product = next((p for p in ("tidb", "mariadb") if p in version.lower()), "mysql")
        self._checkpoint_table = checkpoint_table
        self.moment = ""

    @classmethod
    async def connect(cls, place: Place, checkpoint_table: str) -> MysqlSide:
        """Raises ConfigError, Unavailable."""
        connection = MysqlConnection.to(place.target)
        try:
            async with asyncio.timeout(place.target.connect_timeout_s):
                await connection._connect()
        except BaseException as error:
            connection.discard()
            if isinstance(error, RuntimeError) or _is_about_tls(error):
                raise ConfigError(f"{place.shown}: {error}", hint=_TLS_HINT) from error
            if isinstance(error, (pymysql.err.MySQLError, OSError)):
                raise _typed(error, place.shown) from error
            raise
        try:
            version = (await _ask(connection, place, "SELECT VERSION()"))[0][0]
            for statement in _SESSION:
                await _ask(connection, place, statement)
        except BaseException:
            connection.discard()
            raise
        return cls(place, connection, str(version), checkpoint_table)

    @property
    def shown(self) -> str:
        return self._place.shown

    async def fix(self, commit_ts: int) -> None:
        if self._product == "tidb" and commit_ts:
            await self._ask(f"SET SESSION tidb_snapshot='{commit_ts}'")
            self.moment = f"as it was at commit_ts {commit_ts}"
            return
        await self._ask("ROLLBACK")
        await self._ask("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        await self._ask("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        self.moment = "as it is now, in one snapshot"

    async def checkpoints(self) -> list[Checkpoint]:
        table = ".".join(sql.name(word) for word in self._checkpoint_table.split("."))
        try:
            async with self._connection.cursor() as cursor:
                await cursor.execute(f"SELECT checkPoint FROM {table}")
                rows = await cursor.fetchall()
        except pymysql.err.MySQLError as error:
            if error.args[0] in _NO_TABLE:
                return []
            raise _typed(error, self.shown) from error
        return [checkpoint_of(text, self.shown) for (text,) in rows]

    async def tables(self) -> list[Table]:
        keys = await self._keys()
        as_json = await self._json_columns()
        found: dict[Name, tuple[list[Column], int]] = {}
        for db, table, column, kind, length, collation, rows in await self._ask(_COLUMNS):
            if db.lower() in SYSTEM_SCHEMAS:
                continue
            columns, _ = found.setdefault((db, table), ([], int(rows or 0)))
            is_json = (db, table, column) in as_json
            columns.append(sql.column_of(column, kind, int(length), collation, is_json=is_json))
        return [
            Table(*name, tuple(columns), tuple(keys.get(name, ())), rows)
            for name, (columns, rows) in found.items()
        ]

    async def _keys(self) -> dict[Name, list[tuple[str, ...]]]:
        indexes: dict[Name, dict[str, list[str | None]]] = {}
        for db, table, index, column, nullable, prefix in await self._ask(_KEYS):
            parts = indexes.setdefault((db, table), {}).setdefault(index, [])
            parts.append(None if nullable == "YES" or prefix else column)
        return {
            name: [
                tuple(column for column in columns if column is not None)
                for columns in found.values()
                if None not in columns
            ]
            for name, found in indexes.items()
        }

    async def _json_columns(self) -> set[tuple[str, str, str]]:
        if self._product != "mariadb":
            return set()
        return {
            (db, table, clause.partition("`")[2].rpartition("`")[0].replace("``", "`"))
            for db, table, clause in await self._ask(_JSON)
        }

    async def upper(self, part: Part, chunk: Range, rows: int) -> Key | None:
        found = await self._ask(
            f"SELECT {sql.plains(part.key_columns)} FROM {sql.place(part)}"
            f" WHERE {sql.where(part, chunk)} ORDER BY {sql.ordered(part)} LIMIT {rows - 1},1"
        )
        return tuple(found[0]) if found else None

    async def sum(self, part: Part, chunk: Chunk) -> Sum:
        found = await self._ask(
            f"SELECT {sql.summed('h')} FROM (SELECT {sql.row_hash(part)} h FROM {sql.place(part)}"
            f" WHERE {sql.where(part, chunk)}) r"
        )
        return self._sum(part, found[0])

    async def sums(self, part: Part, buckets: int) -> dict[int, Sum]:
        found = await self._ask(
            f"SELECT b,{sql.summed('h')} FROM (SELECT {sql.bucket(part, buckets)} b,"
            f"{sql.row_hash(part)} h FROM {sql.place(part)}) r GROUP BY b"
        )
        return {int(number): self._sum(part, rest) for number, *rest in found}

    def _sum(self, part: Part, found: Sequence[Any]) -> Sum:
        rows, high, low, unhashed = (int(value or 0) for value in found)
        if unhashed:
            raise BadInput(
                f"{unhashed} rows of {part.db}.{part.table} at {self.shown} can't be hashed",
                hint="raise max_allowed_packet of that server",
            )
        return Sum(rows, high, low)

    async def hashes(self, part: Part, chunk: Chunk) -> list[tuple[Key, str]]:
        keys = sql.plains(part.key_columns)
        found = await self._ask(
            f"SELECT {sql.row_hash(part)},{keys} FROM {sql.place(part)}"
            f" WHERE {sql.where(part, chunk)}"
        )
        return [(tuple(key) if part.key else (), str(hashed)) for hashed, *key in found]

    async def rows(self, part: Part, chunk: Chunk, hashes: Set[str]) -> Sequence[Row]:
        wanted = ",".join(sql.quote(one) for one in hashes)
        return await self._ask(
            f"SELECT {sql.plains(part.columns)} FROM {sql.place(part)}"
            f" WHERE {sql.where(part, chunk)} AND {sql.row_hash(part)} IN ({wanted})"
        )

    async def close(self) -> None:
        await self._connection.end()

    async def _ask(self, query: str) -> Sequence[tuple[Any, ...]]:
        return await _ask(self._connection, self._place, query)


async def _ask(connection: MysqlConnection, place: Place, query: str) -> Sequence[tuple[Any, ...]]:
    try:
        async with connection.cursor() as cursor:
            await cursor.execute(query)
            found: Sequence[tuple[Any, ...]] = await cursor.fetchall()
            return found
    except (pymysql.err.MySQLError, OSError) as error:
        raise _typed(error, place.shown) from error


def _is_about_tls(error: BaseException) -> bool:
    known = isinstance(error, pymysql.err.MySQLError) and error.args[:1] in ((2026,), (3159,))
    return known or isinstance(error.__cause__, ssl.SSLError)


def _typed(error: Exception, where: str) -> ConfigError | Unavailable | BadInput | InvariantBroken:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    message = str(error.args[1]) if len(error.args) > 1 else str(error) or "no answer in time"
    if code in _DENIED:
        hint = "check user, password, TLS (`?tls=on`) and rights: it reads all that it compares"
        return ConfigError(f"{where} does not let us in ({code}): {message}", hint=hint)
    if isinstance(error, OSError) or code < 1000 or code >= 2000:
        return Unavailable(f"{where} can't be used ({code}): {message}", hint="does it run?")
    if code == _CHANGED:
        return Unavailable(f"a table of {where} was altered meanwhile", hint="compare again")
    return BadInput(f"{where} refused to be compared ({code}): {message}")
