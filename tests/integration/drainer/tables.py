"""The tables of `load` in a MariaDB, held against what was committed."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import msgspec
import pymysql

from tests.integration.drainer.ledger import Ledger, Row
from tests.integration.drainer.load import DATABASE, OWN, TABLES
from tests.servers import MariaDb
from tests.wrong import Wrong
from tidelog.downstream import Checkpoint

NAMES = (*(f"t{number}" for number in range(TABLES)), *(f"own{number}" for number in range(OWN)))


class DownstreamTables:
    """`large` transactions write other tables: a load that is held against these has none."""

    def __init__(self, database: MariaDb, ledger: Ledger) -> None:
        self._database = database
        self._ledger = ledger

    @property
    def url(self) -> str:
        return f"mysql://root@{self._database.host}:{self._database.port}/"

    def create(self) -> None:
        """As they were before the feed began."""
        self.rows(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4 COLLATE utf8mb4_bin")
        for name in NAMES:
            self.rows(f"CREATE TABLE {DATABASE}.{name} (id BIGINT PRIMARY KEY, body MEDIUMTEXT)")

    def checkpoint(self) -> Checkpoint:
        rows = self.rows("SELECT checkPoint FROM tidb_binlog.checkpoint")
        if not rows:
            return Checkpoint(0)
        return msgspec.json.decode(str(rows[0]["checkPoint"]), type=Checkpoint)

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """Empty while there is no such table."""
        server = self._database
        connection = pymysql.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            cursorclass=pymysql.cursors.DictCursor,
            autocommit=True,
        )
        with closing(connection), connection.cursor() as cursor:
            try:
                cursor.execute(sql)
            except pymysql.err.ProgrammingError:
                return []
            return list(cursor.fetchall())

    def compare(self, commit_ts: int) -> None:
        """Raises Wrong unless the tables are what was committed up to there."""
        wanted = self._source(commit_ts)
        for name in NAMES:
            columns = [r["Field"] for r in self.rows(f"SHOW COLUMNS FROM {DATABASE}.{name}")]
            have = {r["id"]: r for r in self.rows(f"SELECT * FROM {DATABASE}.{name}")}
            cells = (cell for row in wanted[name].values() for cell in row.items())
            unknown = {column for column, value in cells if value is not None} - set(columns)
            if unknown:
                raise Wrong(f"{name} at {commit_ts} has no column {', '.join(sorted(unknown))}")
            rows: dict[Any, dict[str, Any]] = {
                key: {column: row.get(column) for column in columns}
                for key, row in wanted[name].items()
            }
            if have != rows:
                missing = sorted(rows.keys() - have.keys())
                extra = sorted(have.keys() - rows.keys())
                other = [k for k in rows.keys() & have.keys() if rows[k] != have[k]]
                raise Wrong(
                    f"{name} at {commit_ts}: {len(missing)} rows missing, {len(extra)} too much,"
                    f" {len(other)} other ones: {[*missing, *extra, *other][:5]}"
                )

    def _source(self, commit_ts: int) -> dict[str, dict[Any, Row]]:
        tables: dict[str, dict[Any, Row]] = {name: {} for name in NAMES}
        for at in self._ledger.order:
            if at > commit_ts:
                break
            for name, changes in self._ledger.txns[at].rows.items():
                for _, before, after in changes:
                    if before is not None:
                        del tables[name][before["id"]]
                    if after is not None:
                        tables[name][after["id"]] = after
        return tables
