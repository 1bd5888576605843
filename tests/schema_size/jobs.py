"""A DDL history of any length, made up as it is asked for, in TiDB's spelling."""

from __future__ import annotations

import json
from array import array
from collections.abc import Iterator

from tidelog.schema.model import DdlJob, TableInfo, decode_jobs

FIRST_COLUMNS, MOST_COLUMNS = 6, 12
SCHEMA_ID, FIRST_TABLE = 2, 10_000_000
TS = 440_000_000_000_000_000
"""Job n is finished at TS + n."""


class Jobs:
    """Job 1 creates the schema `app`, the others create tables and add columns to them in turn:
    job n has the id 3 n, as ids go to tables and schemas too, and schema version n."""

    def __init__(self, jobs: int, tables: int) -> None:
        self.count = jobs
        self.table_of = array("L", [0, 0])
        self.columns_of = array("B", [0, 0])
        """After job n."""
        every = max(2, (jobs - 1) // tables)
        columns = array("B")
        for n in range(2, jobs + 1):
            if (n - 2) % every == 0 and len(columns) < tables:
                table = len(columns)
                columns.append(FIRST_COLUMNS)
            else:
                table = n * 7919 % len(columns)
                columns[table] = min(MOST_COLUMNS, columns[table] + 1)
            self.table_of.append(table)
            self.columns_of.append(columns[table])
        self.columns = columns
        """Of each table, at the end."""

    @property
    def last_ts(self) -> int:
        return TS + self.count

    def page(self, upto_id: int, limit: int) -> bytes:
        """As `GET /ddl/history` answers: from the newest job not above an id, back."""
        newest = min(upto_id // 3, self.count)
        return (
            b"[" + b",".join(self.job(n) for n in range(newest, max(0, newest - limit), -1)) + b"]"
        )

    def all(self) -> Iterator[bytes]:
        return (self.job(n) for n in range(1, self.count + 1))

    def job(self, n: int) -> bytes:
        if n == 1:
            db = b'{"id":%d,"db_name":{"O":"app","L":"app"},"state":5}' % SCHEMA_ID
            return _JOB % (3, 1, SCHEMA_ID, 0, b"", b"CREATE DATABASE app", 1, db, b"null", TS + 1)
        table, columns = self.table_of[n], self.columns_of[n]
        name = b"t%d" % table
        info = _TABLE % (FIRST_TABLE + table, name, name, b",".join(_COLUMNS[:columns]))
        kind = 3 if columns == FIRST_COLUMNS else 5
        query = b"ALTER TABLE `%s` ADD COLUMN `c%d` BIGINT" % (name, columns)
        return _JOB % (
            3 * n,
            kind,
            SCHEMA_ID,
            FIRST_TABLE + table,
            name,
            query,
            n,
            b"null",
            info,
            TS + n,
        )

    def table(self, table: int) -> TableInfo:
        """As it is at the end."""
        last = max(n for n in range(2, self.count + 1) if self.table_of[n] == table)
        (job,) = decode_jobs(b"[" + self.job(last) + b"]")
        assert isinstance(job, DdlJob)
        assert job.binlog is not None
        assert job.binlog.table_info is not None
        return job.binlog.table_info


_JOB = (
    b'{"id":%d,"type":%d,"schema_id":%d,"table_id":%d,"schema_name":"app","table_name":"%s",'
    b'"state":6,"warning":null,"err":null,"err_count":0,"row_count":0,"raw_args":null,'
    b'"schema_state":5,"snapshot_ver":0,"real_start_ts":1,"start_ts":1,"dependency_id":0,'
    b'"query":"%s","binlog":{"SchemaVersion":%d,"DBInfo":%s,"TableInfo":%s,"FinishedTS":%d,'
    b'"MultipleTableInfos":null},"version":1,"reorg_meta":null,"multi_schema_info":null,'
    b'"priority":0,"seq_num":1}'
)
_TABLE = (
    b'{"id":%d,"name":{"O":"%s","L":"%s"},"charset":"utf8mb4","collate":"utf8mb4_bin","cols":[%s],'
    b'"index_info":null,"constraint_info":null,"fk_info":null,"state":5,"pk_is_handle":true,'
    b'"is_common_handle":false,"common_handle_version":0,"comment":"","auto_inc_id":0,'
    b'"max_col_id":12,"max_idx_id":0,"update_timestamp":1,"ShardRowIDBits":0,"partition":null,'
    b'"compression":"","view":null,"sequence":null,"Lock":null,"version":5,"tiflash_replica":null}'
)


def _column(number: int) -> bytes:
    name = "id" if number == 0 else f"c{number}"
    text = number % 3 == 1
    column = {
        "id": number + 1,
        "name": {"O": name, "L": name},
        "offset": number,
        "origin_default": None,
        "origin_default_bit": None,
        "default": None,
        "default_bit": None,
        "default_is_expr": False,
        "generated_expr_string": "",
        "generated_stored": False,
        "dependences": None,
        "type": {
            "Tp": 15 if text else 8,
            "Flag": 4099 if number == 0 else 0,
            "Flen": 255 if text else 20,
            "Decimal": 0,
            "Charset": "utf8mb4" if text else "binary",
            "Collate": "utf8mb4_bin" if text else "binary",
            "Elems": None,
            "ElemsIsBinaryLit": None,
            "Array": False,
        },
        "state": 5,
        "comment": "",
        "hidden": False,
        "change_state_info": None,
        "version": 2,
    }
    return json.dumps(column, separators=(",", ":")).encode()


_COLUMNS = [_column(number) for number in range(MOST_COLUMNS)]
