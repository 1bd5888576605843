"""Dump files as source: a directory as Dumpling writes it, of SQL or CSV, or a copy that a backfill
made into Parquet.

    metadata                          `Pos:` is the timestamp, if `Log:` is TiDB's
    <db>.<table>-schema.sql           CREATE TABLE
    <db>.<table>[.<number>].sql|.csv  rows; names are %-escaped

Files may be compressed (.gz, .zst, .bz2, .lz4).
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import cached_property
from typing import Any
from urllib.parse import unquote

import msgspec
import pyarrow as pa
from pyarrow import fs, parquet

from tidelog.config import redacted_url
from tidelog.errors import BadInput, NotFound, Refused
from tidelog.schema.structure import ColumnStructure, TableStructure
from tidelog_backfill.files.names import Names
from tidelog_backfill.parquet_values import place_of
from tidelog_backfill.snapshot.batches import BATCH_BYTES, batches
from tidelog_backfill.snapshot.dump_csv import csv_rows
from tidelog_backfill.snapshot.dump_files import errors, opened
from tidelog_backfill.snapshot.dump_lines import Lines
from tidelog_backfill.snapshot.dump_rows import NULL, converters
from tidelog_backfill.snapshot.dump_sql import sql_rows
from tidelog_backfill.snapshot.dump_tables import defined
from tidelog_backfill.snapshot.parquet import PLAN, WHOLE, directory_of, files_of
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.source import Found, Rows
from tidelog_backfill.snapshot.values import stored

EXACT = "every row is as it was at the dump's timestamp"
UNKNOWN = (
    "each row is as it was at some moment between the given timestamp and now, if the dump was made"
    " after that timestamp; nothing in it says so"
)
_PACKED = r"(?:\.(?:gz|zst|bz2|lz4))?"
_SCHEMA = re.compile(rf"(.+?)\.(.+)-schema\.sql{_PACKED}")
_VIEW = re.compile(r"(.+?)\.(.+)-schema-(?:view|sequence)\.sql.*")
_TABLE = r"(.+?)\.((?:(?!-schema).)+?)"
_DATA = re.compile(rf"{_TABLE}(?:\.[0-9]+)*\.(sql|csv){_PACKED}")
_UNREAD = re.compile(rf"{_TABLE}(?:-schema)?(?:\.[0-9]+)*\.(?:sql|csv|tsv|dat|parquet)(?:\.\w+)?")
_OTHERS = re.compile(r"metadata.*|.+-schema-(?:create|triggers|post|sequence)\.sql.*")
"""Files of a dump that say nothing about rows."""
NAMING = "a dump has DB.TABLE-schema.sql with CREATE TABLE, and rows in DB.TABLE.N.sql or .csv"
FEW = 8
"""So many names of ignored files are told."""
_POSITION = re.compile(r"^\s*Log:\s*tidb-binlog\s+Pos:\s*(\d+)", re.MULTILINE)
"""Other servers' positions are no timestamps."""
_ROWS = {"sql": sql_rows, "csv": csv_rows}


class DumpSource:
    """A path, or any URL that pyarrow knows; executors see it, too."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._files, self._root = place_of(url)

    @property
    def shown(self) -> str:
        return redacted_url(self._url)

    @property
    def is_exact(self) -> bool:
        return self._copy.exact if self._copy is not None else self._position > 0

    @property
    def is_now(self) -> bool:
        return False

    @property
    def guarantee(self) -> str:
        if self._copy is not None:
            return self._copy.guarantee
        return EXACT if self.is_exact else UNKNOWN

    def timestamp(self) -> int:
        return self._copy.ts if self._copy is not None else self._position

    def found(self, tables: Sequence[str], ts: int) -> Found:
        own = self.timestamp()
        if own and ts != own:
            raise BadInput(
                f"{self.shown} was made at {own}, and cannot be copied as of {ts}",
                hint="leave snapshot-ts out",
            )
        wanted = Names(tables)
        if self._copy is not None:
            known = self._of_copy()
            return Found([one for one in known if wanted.wants(one.db, one.structure.name)])
        return self._of_dump(wanted)

    def chunks(self, tables: Sequence[CopiedTable], rows: int, ts: int) -> list[Chunk]:
        """A file each: whoever made them chose their size."""
        pairs = [(at, file) for at, table in enumerate(tables) for file in table.files]
        if split := [t.shown for t in tables if t.ordered and len(t.files) > 1]:
            raise BadInput(
                f"rows of {', '.join(split)} must be written in order, and lie in several files",
                hint="give them a primary key, or dump each into one file",
            )
        return [Chunk(number, at, file=file) for number, (at, file) in enumerate(pairs)]

    @contextmanager
    def read(self, table: CopiedTable, chunk: Chunk, ts: int, batch_rows: int) -> Iterator[Rows]:
        path = f"{self._root}/{chunk.file}"
        if chunk.file.endswith(".parquet"):
            yield _guarded(self._parquet(path, table.structure, batch_rows), chunk.file)
            return
        kind = _DATA.fullmatch(chunk.file)
        assert kind is not None
        with errors(chunk.file):
            file = opened(self._files, path, chunk.file)
        with file as stream:
            text = io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="\n")
            lines = Lines(text, chunk.file)
            rows, columns = _ROWS[kind[3]](lines, table.structure), stored(table.structure)
            values = _values(rows, columns, lines)
            yield _guarded(batches(values, columns, batch_rows), chunk.file)

    def _parquet(self, path: str, of: TableStructure, batch_rows: int) -> Rows:
        """Decimals as a server gives them: text, or integers."""
        convert = {one.name: _digits if one.base == "decimal" else int for one in stored(of)}
        with parquet.ParquetFile(path, filesystem=self._files) as file:
            for batch in _of_groups(file, batch_rows):
                columns = [
                    [None if v is None else convert[name](v) for v in values.to_pylist()]
                    if pa.types.is_decimal(values.type)
                    else values.to_pylist()
                    for name, values in zip(batch.schema.names, batch.columns, strict=True)
                ]
                yield list(zip(*columns, strict=True))

    @cached_property
    def _copy(self) -> SnapshotPlan | None:
        """The plan of a backfill that made this directory."""
        data = self._text(PLAN)
        with errors(f"{self.shown}: {PLAN}"):
            return msgspec.json.decode(data, type=SnapshotPlan) if data else None

    @cached_property
    def _position(self) -> int:
        found = _POSITION.search(self._text("metadata"))
        return int(found[1]) if found is not None else 0

    @cached_property
    def _names(self) -> list[str]:
        try:
            listed = self._files.get_file_info(fs.FileSelector(self._root, recursive=True))
        except OSError as error:
            raise NotFound(f"{self.shown} is no directory that can be read: {error}") from error
        return sorted(
            str(one.path)[len(self._root) + 1 :] for one in listed if one.type == fs.FileType.File
        )

    def _of_copy(self) -> Iterator[CopiedTable]:
        """Raises Refused for a copy that was ended, or of which files are gone."""
        assert self._copy is not None
        lacks = {WHOLE, *files_of(self._copy)}.difference(self._names)
        if lacks:
            raise Refused(
                f"{self.shown} is a copy that is not whole: {min(lacks)} is missing",
                hint="give the same `tidelog backfill` again that made it: it goes on behind its"
                " last chunk",
            )
        for table in self._copy.tables:
            begin = f"{directory_of(table)}/chunk-"
            files = tuple(name for name in self._names if name.startswith(begin))
            yield CopiedTable(table.db, table.structure, files)

    def _of_dump(self, wanted: Names) -> Found:
        """Raises NotFound for a directory that holds no dump, and for rows of no table."""
        ignored = [name for name in self._names if not any(one.fullmatch(name) for one in _KNOWN)]
        told = [f"no file of a dump, and not read: {_few(ignored)}"] if ignored else []
        if not any(_SCHEMA.fullmatch(name) for name in self._names):
            what = "; ".join([f"{self.shown} has no DB.TABLE-schema.sql", *told])
            raise NotFound(what, hint=NAMING)
        schemas, files = self._sorted(wanted)
        views = {place for name in self._names if (place := _place(_VIEW, name)) is not None}
        found: list[CopiedTable] = []
        warnings = [f"{'.'.join(place)} is not copied: view" for place in views & set(schemas)]
        for place, name in schemas.items():
            if place not in views:
                table, lacks = self._defined(place[0], name)
                found.append(CopiedTable(place[0], table, tuple(files.pop(place, ()))))
                warnings += [f"{'.'.join(place)}: the copy lacks {what}" for what in lacks]
        if files:
            without = ", ".join(".".join(place) for place in files)
            what = f"{self.shown} has rows of {without}, and no -schema.sql of them"
            raise NotFound(what, hint=NAMING)
        return Found(found, [*warnings, *told], list(views))

    def _sorted(self, wanted: Names) -> tuple[dict[_Place, str], dict[_Place, list[str]]]:
        """The files of structures and those of rows. Raises BadInput for files whose rows would be
        missing."""
        schemas: dict[_Place, str] = {}
        files: dict[_Place, list[str]] = {}
        for name in self._names:
            if place := _place(_SCHEMA, name):
                if wanted.wants(*place):
                    schemas[place] = name
            elif place := _place(_DATA, name):
                if wanted.wants(*place):
                    files.setdefault(place, []).append(name)
            elif (place := _place(_UNREAD, name)) and wanted.wants(*place):
                raise BadInput(
                    f"{self.shown} has {name}, which can't be read",
                    hint="dump SQL or CSV, plain or compressed by gzip or zstd",
                )
        return schemas, files

    def _defined(self, db: str, name: str) -> tuple[TableStructure, list[str]]:
        try:
            return defined(db, self._text(name))
        except BadInput as error:
            raise BadInput(
                f"{self.shown}: {name}: {error.message}", hint="name others by `tables`"
            ) from error

    def _text(self, name: str) -> str:
        path = f"{self._root}/{name}"
        if self._files.get_file_info(path).type != fs.FileType.File:
            return ""
        where = f"{self.shown}: {name}"
        with errors(where), opened(self._files, path, where) as stream:
            return stream.read().decode()


_KNOWN = (_SCHEMA, _VIEW, _DATA, _UNREAD, _OTHERS)
_Place = tuple[str, str]


def _place(pattern: re.Pattern[str], name: str) -> _Place | None:
    """(db, table) in a file's name."""
    found = pattern.fullmatch(name)
    return (unquote(found[1]), unquote(found[2])) if found is not None else None


def _few(names: Sequence[str]) -> str:
    return ", ".join([*names[:FEW], "…"] if len(names) > FEW else names)


def _guarded(rows: Rows, where: str) -> Rows:
    """What the reader of the rows meets itself passes as it is."""
    with errors(where):
        yield from rows


def _of_groups(file: parquet.ParquetFile, most: int) -> Iterator[pa.RecordBatch]:
    """At most so many rows each, and of about BATCH_BYTES, if those of a group are of one size."""
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        few = max(1, BATCH_BYTES * group.num_rows // max(1, group.total_byte_size))
        yield from file.iter_batches(min(most, few), row_groups=[number])


def _digits(value: Decimal) -> str:
    """Never with an exponent."""
    return f"{value:f}"


def _values(
    rows: Iterable[Sequence[Any]], columns: Sequence[ColumnStructure], lines: Lines
) -> Iterator[list[Any]]:
    """Raises Corrupt."""
    convert: list[tuple[int, Callable[[str], object]]] = list(enumerate(converters(columns)))
    for row in rows:
        try:
            yield [None if row[at] is NULL else f(row[at]) for at, f in convert]
        except ValueError as error:
            raise lines.corrupt(f"has a row that is none of its table: {error}") from error
