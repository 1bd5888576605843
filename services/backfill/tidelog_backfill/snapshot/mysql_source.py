"""A MySQL-speaking server as source. TiDB is read as it was at a timestamp; MySQL and MariaDB know
none, so each chunk is one consistent read of its own moment (see `GUARANTEE`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any

import pymysql
from pymysql.cursors import SSCursor

from tidelog.downstreams.literals import Kind, name, quote, table_name
from tidelog.downstreams.mysql_connection import driver_arguments
from tidelog.downstreams.mysql_session import StatementRefused, typed
from tidelog.downstreams.row_text import number_literal, text_literal
from tidelog.downstreams.target import Target
from tidelog.downstreams.writing import kind_of
from tidelog.errors import Refused, Stopped, TidelogError
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog.schema.tracker import SYSTEM_SCHEMAS
from tidelog_backfill.files.names import Names
from tidelog_backfill.snapshot import structures
from tidelog_backfill.snapshot.batches import batches
from tidelog_backfill.snapshot.key_range import Bound, KeyRange, condition, consecutive
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, cut_key
from tidelog_backfill.snapshot.source import Found, Rows
from tidelog_backfill.snapshot.values import DECODERS, selected, stored

READ_TIMEOUT_S = 600
SQL_CHARS = 200
"""Of a statement that an error quotes."""
TEXT_BYTES = 40
"""Of a text that an error quotes, by which its row may be found: the driver names no column."""
EXACT = "every row is as it was at the snapshot's timestamp"
GUARANTEE = (
    "each row is as it was at some moment between the snapshot's timestamp and the copy's end; once"
    " the stream is applied up to that end, all are as upstream. That takes tables with a key, and"
    " a source whose transactions are committed there before their Commit is sent to a Pump, and"
    " have fetched their commit_ts before that, or do so within a minute after it"
)
_GC = frozenset((8055, 9006))
"""TiDB's garbage collection has passed the snapshot's timestamp. Nothing brings it back."""
_GC_HINT = (
    "SET GLOBAL tidb_gc_life_time to more than a copy takes, until it is done; this one can't be"
    " gone on with"
)
_NO_TEXT_HINT = "mend the value at the source, or leave the table out: `tables` names the others"
_ROW_ID = "`_tidb_rowid`"
_OURS = (
    (
        "SET SESSION time_zone = '+00:00', sql_mode = '', sql_select_limit = 18446744073709551615"
        " /*!50708 , max_execution_time = 0 */ /*M!100101 , max_statement_time = 0 */"
    ),
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
)
"""No session reads otherwise because of the server's global settings: neither rows that are not
committed, nor padded values, nor only the first of them, nor for no longer than an application's
query may take (of MySQL and TiDB; of MariaDB)."""
_PATIENT = "SET SESSION net_write_timeout = 86400"
"""Between two batches the server waits for the target, and for the job's rate."""
_GEOMETRIES = frozenset(
    (
        *("geometry", "point", "linestring", "polygon"),
        *("multipoint", "multilinestring", "multipolygon"),
        *("geometrycollection", "geomcollection"),
    )
)


class _Unread(SSCursor):  # type: ignore[misc]  # the driver has no types
    """Closed, it leaves the rest of its rows unread: its connection is of no more use then."""

    def close(self) -> None:
        if self._result is not None:
            self._result.unbuffered_active = False
        self.connection = None

    __del__ = close


class MysqlSource:
    """Connects anew for each call."""

    def __init__(self, url: str, password: str) -> None:
        self._target = Target.parse(url, password, what="source")
        self._product = ""

    @property
    def shown(self) -> str:
        return self._target.shown

    @property
    def is_exact(self) -> bool:
        return self._is("tidb")

    @property
    def is_now(self) -> bool:
        return not self.is_exact

    @property
    def guarantee(self) -> str:
        return EXACT if self.is_exact else GUARANTEE

    def timestamp(self) -> int:
        if not self.is_exact:
            return 0
        with self._session() as ask:
            ask("BEGIN")
            ((ts,),) = ask("SELECT @@tidb_current_ts")
        return int(ts)

    def found(self, tables: Sequence[str], ts: int) -> Found:
        found = self.described(tables, ts)
        _refuse_geometries(found.tables)
        return found

    def described(self, tables: Sequence[str], ts: int) -> Found:
        """Those that can't be copied, too."""
        with self._session(self._at(ts)) as ask:
            rows = ask(
                "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, TABLE_COLLATION, TABLE_COMMENT,"
                " CREATE_OPTIONS FROM information_schema.TABLES ORDER BY 1, 2"
            )
            names = Names(tables)
            wanted = [row for row in rows if _is_wanted(str(row[0]), str(row[1]), names)]
            plain = [row for row in wanted if row[2] == "BASE TABLE"]
            warnings: list[str] = []
            found = [self._table(ask, warnings, *row[:2], *row[3:5]) for row in plain]
        others = [row for row in wanted if row[2] != "BASE TABLE"]
        warnings += [f"{row[0]}.{row[1]} is not copied: {str(row[2]).lower()}" for row in others]
        warnings += [
            f"{row[0]}.{row[1]}: the copy is not partitioned"
            for row in plain
            if "partitioned" in str(row[5] or "")
        ]
        return Found(found, warnings, [(str(row[0]), str(row[1])) for row in others])

    def _table(
        self, ask: Any, warnings: list[str], db: str, table: str, collation: Any, comment: Any
    ) -> CopiedTable:
        names = {"db": quote(db), "table": quote(table)}
        where = f"TABLE_SCHEMA = {names['db']} AND TABLE_NAME = {names['table']}"
        is_mariadb = self._is("mariadb")
        documents = set()
        if is_mariadb:
            documents = {row[0] for row in ask(structures.JSON_CHECKS.format(**names))}
        described = ask(structures.COLUMNS.format(where=where))
        columns = [
            structures.column(row, is_mariadb=is_mariadb, is_json=row[0] in documents)
            for row in described
        ]
        listed = ask(structures.KEYS.format(table=table_name(db, table)))
        keys = [structures.key_part(row) for row in listed]
        checks = [row[0] for row in ask(structures.CHECKS.format(where=where))]
        lacks = [
            *structures.left_out(keys),
            *structures.changed(described, [one for one in checks if one not in documents]),
        ]
        warnings += [f"{db}.{table}: the copy lacks {what}" for what in lacks]
        found = structures.table(
            table,
            columns,
            keys,
            ask(structures.FOREIGN_KEYS.format(**names)),
            collation=str(collation or ""),
            comment=str(comment or ""),
        )
        return CopiedTable(db, found)

    def chunks(self, tables: Sequence[CopiedTable], rows: int, ts: int) -> list[Chunk]:
        found: list[Chunk] = []
        with self._session(self._at(ts)) as ask:
            for number, table in enumerate(tables):
                for within in consecutive(_bounds(ask, table, rows)):
                    found.append(Chunk(len(found), number, within))
        return found

    @contextmanager
    def read(self, table: CopiedTable, chunk: Chunk, ts: int, batch_rows: int) -> Iterator[Rows]:
        structure = table.structure
        columns = stored(structure)
        listed = ", ".join(selected(column) for column in columns)
        sql = f"SELECT {listed} FROM {table_name(table.db, structure.name)}"
        key = [name(column) for column in cut_key(structure)]
        where = condition(key, chunk.within)
        if where:
            sql += f" WHERE {where}"
        order = key or (self._order(table) if self.is_exact else [])
        if order:
            sql += f" ORDER BY {', '.join(order)}"
        begin = self._at(ts) if self.is_exact else [_PATIENT]
        told = f"{table.shown}: {sql}"
        with self._connected(begin) as connection, connection.cursor(_Unread) as cursor:
            with self._errors(told):
                cursor.execute(sql)
            yield batches(self._rows(cursor, told), columns, batch_rows)

    def _order(self, table: CopiedTable) -> list[str]:
        """Of a table that is not cut. A second try of one that is `ordered` passes by as many rows
        as the first has written: they must be the same."""
        if not table.structure.key_columns:
            return [_ROW_ID]
        return [name(column) for column in table.structure.key_columns] if table.ordered else []

    def _rows(self, cursor: SSCursor, told: str) -> Iterator[Sequence[Any]]:
        with self._errors(told):
            yield from iter(cursor.fetchone, None)

    def _at(self, ts: int) -> list[str]:
        """What a session begins with that sees the source at `ts`."""
        return [f"SET SESSION tidb_snapshot = '{ts}'"] if self.is_exact and ts else []

    def _is(self, product: str) -> bool:
        if not self._product:
            with self._session() as ask:
                version = str(ask("SELECT VERSION()")[0][0]).lower()
            self._product = next((p for p in ("tidb", "mariadb") if p in version), "mysql")
        return self._product == product

    @contextmanager
    def _session(self, begin: Sequence[str] = ()) -> Iterator[Any]:
        """A function that asks: SQL -> rows."""
        with self._connected(begin) as connection, connection.cursor() as cursor:

            def ask(sql: str) -> Sequence[Sequence[Any]]:
                with self._errors(sql):
                    cursor.execute(sql)
                    found: Sequence[Sequence[Any]] = cursor.fetchall()
                    return found

            yield ask

    @contextmanager
    def _connected(self, begin: Sequence[str]) -> Iterator[pymysql.Connection]:
        target = self._target
        with self._errors("connect"):
            connection = pymysql.connect(
                **driver_arguments(target),
                conv=DECODERS,
                connect_timeout=target.connect_timeout_s,
                read_timeout=READ_TIMEOUT_S,
            )
        with closing(connection):
            for sql in (*_OURS, *begin):
                with self._errors(sql), connection.cursor() as cursor:
                    cursor.execute(sql)
            yield connection

    @contextmanager
    def _errors(self, sql: str) -> Iterator[None]:
        """As ours, with what was asked."""
        try:
            yield
        except (UnicodeDecodeError, pymysql.err.MySQLError, OSError) as error:
            raise self._met(error, sql) from error

    def _met(self, error: Exception, sql: str) -> TidelogError:
        asked = sql[:SQL_CHARS]
        if isinstance(error, UnicodeDecodeError):
            what = f"{self.shown} has a text that is no UTF-8: {error.object[:TEXT_BYTES]!r}"
            return Stopped(f"{what}: {asked}", hint=_NO_TEXT_HINT)
        if error.args and error.args[0] in _GC:
            what = f"{self.shown} has rows of the snapshot's timestamp no more"
            return Stopped(f"{what} ({error.args[0]}): {asked}", hint=_GC_HINT)
        met = typed(error, self.shown, sql)
        if isinstance(met, StatementRefused):
            why = f"({met.code}): {error.args[-1]}: {asked}"
            return Stopped(f"{self.shown} refused a statement {why}")
        return met


def _is_wanted(db: str, table: str, names: Names) -> bool:
    return db.lower() not in SYSTEM_SCHEMAS and names.wants(db, table)


def has_geometry(structure: TableStructure) -> bool:
    return any(column.base in _GEOMETRIES for column in structure.columns)


def _refuse_geometries(tables: Sequence[CopiedTable]) -> None:
    """TiDB has none, so neither has a stream. Raises Refused."""
    found = [
        f"{table.shown}.{column.name} ({column.base})"
        for table in tables
        for column in table.structure.columns
        if column.base in _GEOMETRIES
    ]
    if found:
        raise Refused(
            f"geometries can't be copied: {', '.join(found)}",
            hint="leave these tables out: `tables` names all others, by wildcards",
        )


def _bounds(ask: Any, table: CopiedTable, rows: int) -> Iterator[Bound]:
    """The key of each `rows`-th row: one walk through the key's index."""
    structure = table.structure
    key = cut_key(structure)
    if not key or table.ordered:
        return
    names = [name(column) for column in key]
    kinds = {column.name: column for column in structure.columns}
    listed = ", ".join(names)
    last: Bound = ()
    while True:
        where = condition(names, KeyRange(last))
        found = ask(
            f"SELECT {listed} FROM {table_name(table.db, structure.name)}"
            f"{f' WHERE {where}' if where else ''} ORDER BY {listed} LIMIT {rows - 1}, 1"
        )
        if not found:
            return
        last = tuple(_literal(kinds[n], value) for n, value in zip(key, found[0], strict=True))
        yield last


def _literal(column: ColumnStructure, value: Any) -> str:
    match kind_of(column):
        case Kind.NUMBER:
            return number_literal(value)
        case Kind.BINARY:
            return f"x'{value.hex()}'"
        case _:
            return text_literal(value)
