"""A DDL history that nobody planned: tables made, altered, renamed, swapped, dropped, recovered."""

from __future__ import annotations

from random import Random

import msgspec

from tests.unit.schema.jobs import table_info
from tidelog.schema import jobs as kinds
from tidelog.schema.model import DBInfo, DdlJob, HistoryInfo, Name, TableInfo

TS_STEP = 10


class RandomHistory:
    """Jobs with rising ids and versions; job n is finished at n * TS_STEP."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.jobs: list[DdlJob] = []
        self.ids: list[int] = []
        """Of every table there ever was."""
        self._tables: dict[int, tuple[int, TableInfo]] = {}
        self._dbs: dict[int, str] = {}
        self._dropped: dict[int, tuple[str, dict[int, tuple[int, TableInfo]]]] = {}
        self._next_id = 100
        for _ in range(3):
            self._create_schema()

    def extend(self, count: int) -> list[DdlJob]:
        """More jobs."""
        before = len(self.jobs)
        for _ in range(count):
            self._one()
        return self.jobs[before:]

    def _one(self) -> None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.3 or not self._tables:
            self._put(kinds.CREATE_TABLE, rng.choice(list(self._dbs)), self._new_table())
            return
        table_id = rng.choice(list(self._tables))
        db, info = self._tables[table_id]
        if kind < 0.6:
            names = [f"c{n}" for n in range(rng.randrange(1, 9))]
            wider = table_info(table_id, info.name.text, "id", *names)
            self._put(
                kinds.ADD_COLUMN, db, msgspec.structs.replace(wider, partition=info.partition)
            )
        elif kind < 0.7:
            name = f"r{len(self.jobs)}"
            named = msgspec.structs.replace(info, name=Name(name, name))
            self._put(kinds.RENAME_TABLE, rng.choice(list(self._dbs)), named, query="RENAME")
        elif kind < 0.78:
            del self._tables[table_id]
            self._put(kinds.TRUNCATE_TABLE, db, self._fresh(info), table_id=table_id)
        elif kind < 0.88:
            del self._tables[table_id]
            self._job(kinds.DROP_TABLE, db, table_id=table_id)
        elif kind < 0.92:
            self._job(kinds.ADD_COLUMN, db, info=info, state=kinds.JOB_STATE_ROLLED_BACK)
        elif kind < 0.95:
            self._exchange(table_id)
        else:
            self._schema()

    def _exchange(self, table_id: int) -> None:
        db, info = self._tables[table_id]
        partitioned = [(i, t) for i, (_, t) in self._tables.items() if t.partition is not None]
        if not partitioned or info.partition is not None:
            self._put(kinds.CREATE_TABLE, db, self._new_table(partitions=2))
            return
        target, old = self.rng.choice(partitioned)
        ids = sorted(old.partition_ids)
        after = table_info(target, old.name.text, partitions=(table_id, *ids[1:]))
        self._tables[target] = self._tables[target][0], after
        del self._tables[table_id]
        self._tables[ids[0]] = db, msgspec.structs.replace(info, id=ids[0])
        self.ids.append(ids[0])
        self._job(kinds.EXCHANGE_PARTITION, self._tables[target][0], info=after, table_id=table_id)

    def _schema(self) -> None:
        if self._dropped and self.rng.random() < 0.5:
            db, (name, tables) = self._dropped.popitem()
            self._dbs[db] = name
            self._tables |= tables
            self._job(kinds.RECOVER_SCHEMA, db, db_info=DBInfo(db, Name(name, name)))
        elif len(self._dbs) > 2:
            db = self.rng.choice(list(self._dbs))
            tables = {i: one for i, one in self._tables.items() if one[0] == db}
            self._dropped = {db: (self._dbs.pop(db), tables)}
            for table_id in tables:
                del self._tables[table_id]
            self._job(kinds.DROP_SCHEMA, db)
        else:
            self._create_schema()

    def _create_schema(self) -> None:
        db, self._next_id = self._next_id, self._next_id + 1
        self._dbs[db] = f"db{db}"
        self._job(kinds.CREATE_SCHEMA, db, db_info=DBInfo(db, Name(f"db{db}", f"db{db}")))

    def _new_table(self, partitions: int = 0) -> TableInfo:
        name = f"T{self._next_id}"
        info = self._fresh(table_info(0, name))
        ids = tuple(self._new_id() for _ in range(partitions))
        return table_info(info.id, name, partitions=ids)

    def _fresh(self, info: TableInfo) -> TableInfo:
        return msgspec.structs.replace(info, id=self._new_id())

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _put(
        self, kind: int, db: int, info: TableInfo, *, table_id: int = 0, query: str = ""
    ) -> None:
        self._tables[info.id] = db, info
        self.ids.append(info.id)
        self._job(kind, db, info=info, table_id=table_id or info.id, query=query)

    def _job(
        self,
        kind: int,
        db: int,
        *,
        info: TableInfo | None = None,
        table_id: int = 0,
        query: str = "",
        state: int = kinds.JOB_STATE_SYNCED,
        db_info: DBInfo | None = None,
    ) -> None:
        n = len(self.jobs) + 1
        binlog = HistoryInfo(n, db_info, info, n * TS_STEP)
        name = self._dbs.get(db, "")
        self.jobs.append(
            DdlJob(n, kind, db, table_id, name, state=state, query=query, binlog=binlog)
        )
