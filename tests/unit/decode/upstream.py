"""An upstream by hand: DDL jobs, their binlogs, and rows, straight into a Decoder."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.decode.config import DecodeConfig
from tidelog.decode.decoder import Decoder
from tidelog.decode.transactions import DdlTxn, RowTxn, Txn
from tidelog.rows.table_codec import DELETE, INSERT, UPDATE, TableCodec
from tidelog.schema import jobs
from tidelog.schema.model import (
    ColumnInfo,
    DBInfo,
    DdlJob,
    FieldType,
    HistoryInfo,
    Name,
    TableInfo,
)
from tidelog.schema.tracker import SchemaTracker
from tidelog_proto.binlog_pb2 import Binlog, PrewriteValue, TableMutation

_KINDS = {name: number for number, name in jobs.KIND_NAMES.items()}
NEXT = {"insert": INSERT, "update": UPDATE, "delete": DELETE}


def table_info(table_id: int, name: str, columns: tuple[str, ...] = ("id", "n")) -> TableInfo:
    """Of bigint columns, the first one the primary key."""
    return TableInfo(
        id=table_id,
        name=Name(name, name.lower()),
        cols=tuple(
            ColumnInfo(at + 1, Name(one, one), at, FieldType(8, 3 if at == 0 else 0))
            for at, one in enumerate(columns)
        ),
        pk_is_handle=True,
    )


class Upstream:
    """Each statement has the next commit_ts (`ts`); the schema version counts the DDLs."""

    def __init__(self, **config: object) -> None:
        self.tracker = SchemaTracker()
        self.queries: dict[int, str] = {}
        self.decoder = Decoder(
            DecodeConfig(**config),  # type: ignore[arg-type]
            self.tracker,
            lambda job_id: self.queries.get(job_id, ""),
        )
        self.decoder.allowed_version = 1 << 40
        self.ts = self.version = 0
        self._schemas: dict[str, int] = {}
        self._tables: dict[str, TableInfo] = {}
        self._next_id = 100

    @property
    def dropped(self) -> dict[str, int]:
        return self.decoder.passed.dropped

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _schema(self, db: str) -> int:
        return self._schemas.setdefault(db, self._id())

    def job(self, kind: str, db: str, table_id: int, query: str, info: HistoryInfo) -> int:
        """A job enters the history; its binlog is still to come."""
        job_id = self._id()
        self.queries[job_id] = query
        self.tracker.add_jobs(
            [DdlJob(job_id, _KINDS[kind], self._schema(db), table_id, db, query=query, binlog=info)]
        )
        return job_id

    def binlog(self, job_id: int) -> Txn:
        self.ts += 1
        made = Binlog(
            start_ts=self.ts - 1,
            commit_ts=self.ts,
            ddl_query=self.queries[job_id].encode(),
            ddl_job_id=job_id,
            ddl_schema_state=5,
        )
        return self.ts, self.ts - 1, made.SerializeToString()

    def decoded(self, job_id: int) -> DdlTxn | None:
        found = self.decoder.decode(self.binlog(job_id))
        assert found is None or isinstance(found, DdlTxn)
        return found

    def _ddl(
        self, kind: str, db: str, table_id: int, query: str, info: HistoryInfo
    ) -> DdlTxn | None:
        return self.decoded(self.job(kind, db, table_id, query, info))

    def _version(self) -> int:
        self.version += 1
        return self.version

    def schema(self, db: str, kind: str = "create_schema", query: str = "") -> DdlTxn | None:
        info = HistoryInfo(self._version(), DBInfo(self._schema(db), Name(db, db.lower())))
        return self._ddl(kind, db, 0, query or f"CREATE DATABASE {db}", info)

    def create(self, db: str, table: str, columns: tuple[str, ...] = ("id", "n")) -> DdlTxn | None:
        made = self._tables[f"{db}.{table}"] = table_info(self._id(), table, columns)
        query = f"CREATE TABLE {table} (id bigint primary key)"
        return self._ddl(
            "create_table", db, made.id, query, HistoryInfo(self._version(), table_info=made)
        )

    def add_column(self, db: str, table: str, added: str) -> int:
        """The job of an ADD COLUMN, whose binlog is still to come."""
        old = self._tables[f"{db}.{table}"]
        names = (*(column.name.text for column in old.columns), added)
        made = self._tables[f"{db}.{table}"] = table_info(old.id, table, names)
        query = f"ALTER TABLE {table} ADD COLUMN {added} int"
        return self.job(
            "add_column", db, made.id, query, HistoryInfo(self._version(), table_info=made)
        )

    def alter(self, db: str, table: str, added: str) -> DdlTxn | None:
        return self.decoded(self.add_column(db, table, added))

    def truncate(self, db: str, table: str) -> DdlTxn | None:
        old = self._tables[f"{db}.{table}"]
        names = tuple(column.name.text for column in old.columns)
        made = self._tables[f"{db}.{table}"] = table_info(self._id(), table, names)
        info = HistoryInfo(self._version(), table_info=made)
        return self._ddl("truncate_table", db, old.id, f"TRUNCATE TABLE {table}", info)

    def drop(self, db: str, table: str) -> DdlTxn | None:
        old = self._tables.pop(f"{db}.{table}")
        info = HistoryInfo(self._version(), table_info=old)
        return self._ddl("drop_table", db, old.id, f"DROP TABLE {table}", info)

    def rename(self, db: str, *pairs: tuple[str, str]) -> DdlTxn | None:
        """RENAME TABLE of one table, or of several, within a schema."""
        made: list[TableInfo] = []
        for old, new in pairs:
            was = self._tables.pop(f"{db}.{old}")
            names = tuple(column.name.text for column in was.columns)
            made.append(table_info(was.id, new, names))
            self._tables[f"{db}.{new}"] = made[-1]
        query = "RENAME TABLE " + ", ".join(f"{old} TO {new}" for old, new in pairs)
        if len(made) == 1:
            info = HistoryInfo(self._version(), table_info=made[0])
            return self._ddl("rename_table", db, made[0].id, query, info)
        info = HistoryInfo(self._version(), table_infos=tuple(made))
        return self._ddl("rename_tables", db, 0, query, info)

    def rename_job(self, db: str, old: str, new: str) -> int:
        """The job of a RENAME TABLE, whose binlog is still to come."""
        was = self._tables.pop(f"{db}.{old}")
        names = tuple(column.name.text for column in was.columns)
        made = self._tables[f"{db}.{new}"] = table_info(was.id, new, names)
        info = HistoryInfo(self._version(), table_info=made)
        return self.job("rename_table", db, made.id, f"RENAME TABLE {old} TO {new}", info)

    def id_of(self, name: str) -> int:
        return self._tables[name].id

    def txn(self, *changes: tuple[str, str, Mapping[str, int]]) -> Txn:
        """A transaction of (`db.table`, insert, update or delete, row)."""
        self.ts += 1
        mutations: dict[str, TableMutation] = {}
        for name, op, row in changes:
            info = self._tables[name]
            codec = TableCodec(info)
            values = {column.name.text: None for column in info.columns} | dict(row)
            mutation = mutations.setdefault(name, TableMutation(table_id=info.id))
            if op == "insert":
                mutation.inserted_rows.append(codec.encode_insert(values, row["id"]))
            elif op == "update":
                mutation.updated_rows.append(codec.encode_update(values, values, row["id"]))
            else:
                mutation.deleted_rows.append(codec.encode_delete(values, row["id"]))
            mutation.sequence.append(NEXT[op])  # type: ignore[arg-type]
        value = PrewriteValue(schema_version=self.version, mutations=mutations.values())
        made = Binlog(
            start_ts=self.ts - 1, commit_ts=self.ts, prewrite_value=value.SerializeToString()
        )
        return self.ts, self.ts - 1, made.SerializeToString()

    def commit(self, *changes: tuple[str, str, Mapping[str, int]]) -> RowTxn | None:
        found = self.decoder.decode(self.txn(*changes))
        assert found is None or isinstance(found, RowTxn)
        return found
