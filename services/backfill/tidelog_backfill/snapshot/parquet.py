"""Parquet files as target: a directory per table, a file per chunk, named by its number.

A file is there when it is whole, so the files themselves say which chunks are done. The plan lies
beside them in `_backfill.json`, and `_SUCCESS` says that the copy is whole. The backfill at work
holds `_backfill.lock`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import fs, parquet

from tidelog.downstream import Image
from tidelog.errors import Refused, Stopped
from tidelog.ports import Lock
from tidelog.subjects import escape
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.column_types import file_type
from tidelog_backfill.lake import NEW, Lake
from tidelog_backfill.parquet_values import array
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.target import Prepared
from tidelog_backfill.snapshot.values import stored

PLAN, LOCK, WHOLE = "_backfill.json", "_backfill.lock", "_SUCCESS"

GROUP_BYTES = 32 << 20
"""Of values, about: a writer's memory holds one row group."""


def table_schema(table: CopiedTable) -> pa.Schema:
    columns = stored(table.structure)
    return pa.schema([pa.field(one.name, file_type(one), nullable=one.nullable) for one in columns])


class ParquetWriter:
    """One chunk's file."""

    def __init__(self, lake: Lake, path: str, schema: pa.Schema) -> None:
        self._lake = lake
        self._path = path
        self._schema = schema
        self._part = lake.part(path)
        self._writer = parquet.ParquetWriter(self._part, schema, filesystem=lake.files)
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0

    async def write(self, images: Sequence[Image]) -> None:
        arrays = [
            array([_value(one, field) for one in images], field.type) for field in self._schema
        ]
        self._held.append(pa.record_batch(arrays, schema=self._schema))
        self._bytes += self._held[-1].nbytes
        if self._bytes >= GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        """A row group: one for each batch would be small, and slow to read."""
        held, self._held, self._bytes = self._held, [], 0
        if held:
            self._writer.write_table(pa.Table.from_batches(held))

    async def done(self) -> None:
        self._flush()
        self._writer.close()
        await self._lake.place(self._part, self._path)

    async def close(self) -> None:
        self._writer.close()


def _value(image: Image, field: pa.Field) -> Any:
    """Marked of the texts is the document null, which a file can tell from SQL's."""
    value = image.row[field.name]
    if field.name in image.b64 and pa.types.is_string(field.type):
        return b64decode(value).decode()
    return value


class ParquetWay(msgspec.Struct, frozen=True):
    """To the directory at a URL."""

    url: str

    async def chunk(self, lane: int, table: CopiedTable, chunk: Chunk, ts: int) -> ParquetWriter:
        lake = Lake(self.url)
        directory = f"{lake.root}/{directory_of(table)}"
        await lake.make(directory)
        return ParquetWriter(lake, f"{directory}/{_file(chunk.number)}", table_schema(table))


class ParquetTarget:
    """A directory that holds this copy and nothing else."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._lake = Lake(url)
        self._files, self._root = self._lake.files, self._lake.root
        self._lock: Lock | None = None

    @property
    def anew(self) -> str:
        return "name another directory, or empty this one"

    async def kept(self) -> SnapshotPlan | None:
        """Raises DirectoryLocked while another backfill has it, too; Refused where there is
        something else: then nothing is left there."""
        self._found()
        await self._lake.make(self._root)
        if self._lock is None:
            self._lock = self._lake.lock(LOCK)
        return self._found()

    def _found(self) -> SnapshotPlan | None:
        plan = self._plan()
        if plan is not None:
            return plan
        begun = f"{PLAN}{NEW}"  # a plan that was not kept, as its writer was ended
        everything = self._files.get_file_info(fs.FileSelector(self._root, allow_not_found=True))
        if any(one.base_name not in (LOCK, begun) for one in everything):
            raise Refused(
                f"{self._url} is not empty", hint="a backfill fills a directory of its own"
            )
        return None

    def _plan(self) -> SnapshotPlan | None:
        path = f"{self._root}/{PLAN}"
        if not self._is_file(path):
            return None
        with self._files.open_input_stream(path) as stream:
            data = stream.read()
        try:
            return msgspec.json.decode(data, type=SnapshotPlan)
        except NOT_READABLE as error:
            raise Stopped(f"{path} is no plan of a backfill: {error}", hint=self.anew) from error

    async def prepare(self, tables: Sequence[CopiedTable], ts: int) -> Prepared:
        """No table is made before the plan is kept: who begins again finds an empty place."""
        return Prepared(list(tables))

    async def keep(self, plan: SnapshotPlan) -> None:
        """Raises Refused where another backfill has kept one since, as do `done` and `finish`: of
        an object store, where nobody is kept out, that is noticed there."""
        if self._plan() is not None:
            raise self._another()
        await self._put(PLAN, msgspec.json.encode(plan))

    async def done(self, plan: SnapshotPlan) -> frozenset[int]:
        self._check(plan)
        files = zip(plan.chunks, files_of(plan), strict=True)
        return frozenset(
            chunk.number for chunk, name in files if self._is_file(f"{self._root}/{name}")
        )

    def way(self) -> ParquetWay:
        return ParquetWay(self._url)

    async def finish(self, plan: SnapshotPlan, reach: int) -> None:
        """`_SUCCESS` tells the rows' timestamp, too."""
        self._check(plan)
        await self._clear(plan)
        told = {"ts": plan.ts, "reach": reach, "guarantee": plan.guarantee}
        await self._put(WHOLE, msgspec.json.encode(told))

    async def _clear(self, plan: SnapshotPlan) -> None:
        """What tries have left that ended."""
        for table in plan.tables:
            there = fs.FileSelector(f"{self._root}/{directory_of(table)}", allow_not_found=True)
            for one in self._files.get_file_info(there):
                if one.base_name.startswith("_chunk-"):
                    await self._lake.remove(one.path)

    async def is_whole(self, plan: SnapshotPlan) -> bool:
        """As its chunks say: files that are gone are written again."""
        return False

    async def forget(self) -> None:
        """The plan stays: it is part of the copy (`DumpSource`)."""

    async def close(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _check(self, plan: SnapshotPlan) -> None:
        kept = self._plan()
        if kept is None or kept.digest != plan.digest:
            raise self._another()

    def _another(self) -> Refused:
        hint = "let it end, or name another directory"
        return Refused(f"another backfill writes {self._url}", hint=hint)

    async def _put(self, name: str, data: bytes) -> None:
        await self._lake.put(f"{self._root}/{name}", data)

    def _is_file(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type == fs.FileType.File)


def directory_of(table: CopiedTable) -> str:
    return f"{escape(table.db)}.{escape(table.structure.name)}"


def files_of(plan: SnapshotPlan) -> list[str]:
    """Of its chunks, each below the copy's directory."""
    return [
        f"{directory_of(plan.tables[chunk.table])}/{_file(chunk.number)}" for chunk in plan.chunks
    ]


def _file(number: int) -> str:
    return f"chunk-{number:06}.parquet"
