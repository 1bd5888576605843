"""Dump files as source: a directory as Dumpling writes it, of SQL or CSV, or a copy that a backfill
made into Parquet.

    metadata                         `Pos:` is the timestamp that TiDB was dumped at
    <db>.<table>-schema.sql          CREATE TABLE
    <db>.<table>.<number>.sql|.csv   rows; names are %-escaped
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import cached_property
from itertools import islice
from urllib.parse import unquote

import msgspec
from pyarrow import fs, parquet
from sqlglot import exp

from tidelog.config import redacted_url
from tidelog.errors import BadInput, NotFound
from tidelog.pump_client.ddl.parse import parse
from tidelog.pump_client.ddl.plan import plan
from tidelog.pump_client.tables.catalog import Catalog
from tidelog.schema.history import TableAt
from tidelog.schema.model import DBInfo, Name
from tidelog.schema.structure import TableStructure, structure
from tidelog_backfill.parquet_values import place_of
from tidelog_backfill.snapshot.dump_rows import NULL, converters, csv_rows, sql_rows
from tidelog_backfill.snapshot.parquet import PLAN, directory_of
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan
from tidelog_backfill.snapshot.source import Found, Rows
from tidelog_backfill.snapshot.values import stored

EXACT = "every row is as it was at the dump's timestamp"
UNKNOWN = (
    "each row is as it was at some moment between the given timestamp and now, if the dump was made"
    " after that timestamp; nothing in it says so"
)
_SCHEMA = re.compile(r"(.+?)\.(.+)-schema\.sql")
_DATA = re.compile(r"(.+?)\.(.+?)\.[0-9]+\.(?:sql|csv)")
_POSITION = re.compile(r"^\s*Pos:\s*(\d+)", re.MULTILINE)
_COMMENTS = re.compile(r"/\*.*?\*/", re.DOTALL)
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
        known = self._of_copy() if self._copy is not None else self._of_dump()
        wanted = [
            one for one in known if not tables or any(fnmatchcase(one.shown, p) for p in tables)
        ]
        return Found(wanted)

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
        kind = chunk.file.rpartition(".")[2]
        path = f"{self._root}/{chunk.file}"
        if kind == "parquet":
            yield self._parquet(path, table.structure, batch_rows)
            return
        columns = stored(table.structure)
        convert = list(enumerate(converters(columns)))
        with self._files.open_input_stream(path) as stream:
            lines = io.TextIOWrapper(stream, "utf-8", "surrogateescape", newline="\n")
            rows = _ROWS[kind](lines, [one.name for one in columns], chunk.file)
            values = (
                [None if row[at] is NULL else f(row[at]) for at, f in convert] for row in rows
            )
            yield iter(lambda: list(islice(values, batch_rows)), [])

    def _parquet(self, path: str, of: TableStructure, batch_rows: int) -> Rows:
        """Decimals as a server gives them: text, or integers."""
        texts = {one.name for one in stored(of) if one.base == "decimal"}
        with parquet.ParquetFile(path, filesystem=self._files) as file:
            for batch in file.iter_batches(batch_rows):
                columns = [
                    [None if v is None else str(v) for v in values.to_pylist()]
                    if name in texts
                    else values.to_pylist()
                    for name, values in zip(batch.schema.names, batch.columns, strict=True)
                ]
                yield list(zip(*columns, strict=True))

    @cached_property
    def _copy(self) -> SnapshotPlan | None:
        """The plan of a backfill that made this directory."""
        data = self._text(PLAN)
        return msgspec.json.decode(data, type=SnapshotPlan) if data else None

    @cached_property
    def _position(self) -> int:
        found = _POSITION.search(self._text("metadata"))
        return int(found[1]) if found is not None else 0

    @cached_property
    def _names(self) -> list[str]:
        listed = self._files.get_file_info(fs.FileSelector(self._root, recursive=True))
        return sorted(
            str(one.path)[len(self._root) + 1 :] for one in listed if one.type == fs.FileType.File
        )

    def _of_copy(self) -> Iterator[CopiedTable]:
        assert self._copy is not None
        for table in self._copy.tables:
            begin = f"{directory_of(table)}/chunk-"
            files = tuple(name for name in self._names if name.startswith(begin))
            yield CopiedTable(table.db, table.structure, files)

    def _of_dump(self) -> Iterator[CopiedTable]:
        files: dict[tuple[str, str], list[str]] = {}
        for name in self._names:
            if (found := _DATA.fullmatch(name)) is not None:
                files.setdefault((unquote(found[1]), unquote(found[2])), []).append(name)
        for name in self._names:
            if (found := _SCHEMA.fullmatch(name)) is not None:
                place = unquote(found[1]), unquote(found[2])
                yield CopiedTable(
                    place[0], _defined(place[0], self._text(name)), tuple(files.pop(place, ()))
                )
        if files:
            without = ", ".join(".".join(place) for place in files)
            raise NotFound(f"{self.shown} has rows of {without}, and no -schema.sql of them")

    def _text(self, name: str) -> str:
        path = f"{self._root}/{name}"
        if self._files.get_file_info(path).type != fs.FileType.File:
            return ""
        with self._files.open_input_stream(path) as stream:
            return bytes(stream.read()).decode()


def _defined(db: str, text: str) -> TableStructure:
    """Of CREATE TABLE, as the server said it. Raises DdlNotSupported."""
    plain = _COMMENTS.sub("", text)
    tree = parse(plain[plain.upper().index("CREATE TABLE") :])
    tree.this.this.set("db", exp.to_identifier(db))
    catalog = Catalog()
    catalog.databases[db.lower()] = DBInfo(1, Name(db, db.lower()))
    change = plan(tree, catalog, "")
    assert change is not None
    assert change.info is not None
    return structure(TableAt(db, change.info.name.text, 0, change.info))
