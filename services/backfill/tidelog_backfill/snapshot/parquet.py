"""Parquet files as target: a directory per table, a file per chunk, named by its number.

A file is there when it is whole, so the files themselves say which chunks are done. The plan lies
beside them in `_backfill.json`, and `_SUCCESS` says that the copy is whole.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyarrow import fs, parquet

from tidelog.downstream import Image
from tidelog.errors import BadInput, Refused, Stopped
from tidelog.schema.structure import ColumnStructure
from tidelog.subjects import escape
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.target import Prepared
from tidelog_backfill.snapshot.values import stored

PLAN, WHOLE = "_backfill.json", "_SUCCESS"
_INTEGERS = frozenset(("tinyint", "smallint", "mediumint", "int", "bigint", "year", "bit"))
_DECIMAL_DIGITS = 38
_UNSIGNED = pa.decimal128(20, 0)
"""Readers of Parquet know no unsigned 64-bit integers."""


def arrow_type(column: ColumnStructure) -> pa.DataType:
    """Times stay MySQL's text: zero dates and hours beyond 24 have no other type."""
    if column.binary:
        return pa.binary()
    match column.base:
        case "bigint" if column.unsigned:
            return _UNSIGNED
        case "bit" if column.length == 64:
            return _UNSIGNED
        case base if base in _INTEGERS:
            return pa.int64()
        case "decimal" if 0 < column.length <= _DECIMAL_DIGITS:
            return pa.decimal128(column.length, max(0, column.scale))
        case "float":
            return pa.float32()
        case "double":
            return pa.float64()
    return pa.string()


def table_schema(table: CopiedTable) -> pa.Schema:
    columns = stored(table.structure)
    return pa.schema(
        [pa.field(one.name, arrow_type(one), nullable=one.nullable) for one in columns]
    )


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        texts = [None if value is None else str(value) for value in values]
        return pa.array(texts, pa.string()).cast(kind)
    if pa.types.is_binary(kind):
        return pa.array([None if value is None else b64decode(value) for value in values], kind)
    if pa.types.is_string(kind):
        texts = [bytes(v).decode() if isinstance(v, msgspec.Raw) else v for v in values]
        return pa.array(texts, kind)
    return pa.array(values, kind)


class ParquetWriter:
    """One chunk's file."""

    def __init__(self, files: fs.FileSystem, path: str, schema: pa.Schema) -> None:
        self._files = files
        self._path = path
        self._schema = schema
        directory, _, name = path.rpartition("/")
        self._part = f"{directory}/_{name}"
        self._writer = parquet.ParquetWriter(self._part, schema, filesystem=files)

    async def write(self, images: Sequence[Image]) -> None:
        arrays = [
            _array([one.row[field.name] for one in images], field.type) for field in self._schema
        ]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))

    async def done(self) -> None:
        self._writer.close()
        self._files.move(self._part, self._path)

    async def close(self) -> None:
        self._writer.close()


class ParquetWay(msgspec.Struct, frozen=True):
    """To the directory at a URL."""

    url: str

    async def chunk(self, lane: int, table: CopiedTable, chunk: Chunk, ts: int) -> ParquetWriter:
        files, root = place_of(self.url)
        path = f"{root}/{directory_of(table)}/{_file(chunk.number)}"
        return ParquetWriter(files, path, table_schema(table))


class ParquetTarget:
    """A directory that holds this copy and nothing else."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._files, self._root = place_of(url)

    async def kept(self) -> SnapshotPlan | None:
        path = f"{self._root}/{PLAN}"
        if self._is_file(path):
            with self._files.open_input_stream(path) as stream:
                data = stream.read()
            try:
                return msgspec.json.decode(data, type=SnapshotPlan)
            except msgspec.DecodeError as error:
                hint = "name another directory, or empty this one"
                raise Stopped(f"{path} is no plan of a backfill: {error}", hint=hint) from error
        everything = fs.FileSelector(self._root, allow_not_found=True)
        if self._files.get_file_info(everything):
            raise Refused(
                f"{self._url} is not empty", hint="a backfill fills a directory of its own"
            )
        return None

    async def prepare(self, tables: Sequence[CopiedTable], ts: int) -> Prepared:
        for table in tables:
            self._files.create_dir(f"{self._root}/{directory_of(table)}")
        return Prepared(list(tables))

    async def keep(self, plan: SnapshotPlan) -> None:
        self._put(PLAN, msgspec.json.encode(plan))

    async def done(self, plan: SnapshotPlan) -> frozenset[int]:
        return frozenset(
            chunk.number
            for chunk in plan.chunks
            if self._is_file(
                f"{self._root}/{directory_of(plan.tables[chunk.table])}/{_file(chunk.number)}"
            )
        )

    def way(self) -> ParquetWay:
        return ParquetWay(self._url)

    async def finish(self, plan: SnapshotPlan, reach: int) -> None:
        """`_SUCCESS` tells the rows' timestamp, too."""
        told = {"ts": plan.ts, "reach": reach, "guarantee": plan.guarantee}
        self._put(WHOLE, msgspec.json.encode(told))

    async def close(self) -> None:
        """Nothing is open."""

    def _put(self, name: str, data: bytes) -> None:
        path = f"{self._root}/{name}"
        with self._files.open_output_stream(f"{path}.new") as stream:
            stream.write(data)
        self._files.move(f"{path}.new", path)

    def _is_file(self, path: str) -> bool:
        return bool(self._files.get_file_info(path).type == fs.FileType.File)


def place_of(url: str) -> tuple[fs.FileSystem, str]:
    """A path, or any URL that pyarrow knows. Raises BadInput."""
    try:
        if "://" in url:
            files, path = fs.FileSystem.from_uri(url)
            return files, str(path).rstrip("/")
        return fs.LocalFileSystem(), url.rstrip("/")
    except (pa.ArrowInvalid, OSError) as error:
        raise BadInput(
            f"{url} can't be written: {error}", hint="a path, file://, s3://, gs://"
        ) from error


def directory_of(table: CopiedTable) -> str:
    return f"{escape(table.db)}.{escape(table.structure.name)}"


def _file(number: int) -> str:
    return f"chunk-{number:06}.parquet"
