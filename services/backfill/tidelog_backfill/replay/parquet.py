"""Parquet files as target: a directory per table, and in it for each segment the last change of
every key, with the table's columns as they were then.

    DIR/<db>.<table>/<after commit_ts>-v<version>-<part>.parquet
    DIR/_ddl/<commit_ts>-<schema version>.json                     the DDLs between the segments
    DIR/_replay.json                                               up to where it holds everything
    DIR/_replay.lock                                               held by the replay at work

Before the table's own columns stand `_op` (u: the row is there, d: it is gone, and has its key
only), `_commit_ts` and `_seq`, a transaction's order. A table at the end: of each key the row with
the largest (`_commit_ts`, `_seq`), unless it is gone, of those behind the last DDL that emptied it.
Changes of a table without a key are all there, c and d: an update is a d of the row as it was and a
c, of the same `_seq`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, final

import msgspec
import pyarrow as pa
from pyarrow import fs, parquet

from tidelog.changes import DdlMessage
from tidelog.downstream import Checkpoint, TableRule
from tidelog.downstreams.writing import rule_of
from tidelog.errors import Refused, Stopped
from tidelog.ports import Lock
from tidelog.schema.structure import TableStructure
from tidelog.subjects import escape, unescape
from tidelog.unreadable import NOT_READABLE
from tidelog_backfill.column_types import file_type
from tidelog_backfill.lake import Lake
from tidelog_backfill.parquet_values import array
from tidelog_backfill.replay.bundles import Bundle, Change
from tidelog_backfill.replay.gather import gathered
from tidelog_backfill.replay.outline import position_after
from tidelog_backfill.replay.parquet_rows import Rows
from tidelog_backfill.replay.plan import Segment
from tidelog_backfill.replay.position import Position
from tidelog_backfill.replay.routing import Form, Place, Routing
from tidelog_backfill.replay.target import Said
from tidelog_backfill.replay.write import PartWriting, Wrote
from tidelog_backfill.snapshot.values import stored

STATE, LOCK, DDLS = "_replay.json", "_replay.lock", "_ddl"
GROUP_ROWS = 20_000
GROUP_BYTES = 16 << 20
_OWN = [("_op", pa.string()), ("_commit_ts", pa.int64()), ("_seq", pa.int64())]


@final
class ParquetTarget:
    """A directory that holds this replay and nothing else."""

    def __init__(self, url: str, feed: str) -> None:
        self._url = url
        self._feed = feed
        self._lake = Lake(url)
        self._files, self._root = self._lake.files, self._lake.root
        self._lock: Lock | None = None
        self.position = Position(feed, None)

    async def open(self) -> None:
        """Raises DirectoryLocked while another replay has it, Refused for another feed's directory,
        Stopped for a state that can't be read."""
        await self._lake.make(self._root)
        self._lock = self._lake.lock(LOCK)
        saved = self._saved()
        if saved is not None and saved.feed != self._feed:
            raise Refused(f"{self._url} holds a replay of feed {saved.feed}", hint="name another")
        self.position = Position(self._feed, saved)

    def _saved(self) -> Checkpoint | None:
        path = f"{self._root}/{STATE}"
        if self._files.get_file_info(path).type != fs.FileType.File:
            return None
        with self._files.open_input_stream(path) as stream:
            data = stream.read()
        try:
            return msgspec.json.decode(data, type=Checkpoint)
        except NOT_READABLE as error:
            raise Stopped(
                f"{path} does not say up to where the files are: {error}",
                hint="name another directory, or empty this one",
            ) from error

    async def close(self) -> None:
        if self._lock is not None:
            self._lock.release()

    async def save(self, checkpoint: Checkpoint) -> None:
        """Raises Refused where somebody else has saved since: of an object store, where nobody is
        kept out, that is noticed here, before what it has written is taken for an attempt's."""
        if self._saved() != self.position.saved:
            raise Refused(
                f"another replay writes {self._url}",
                hint="let it end, then give the command again; or name another directory",
            )
        await self._put(STATE, msgspec.json.encode(checkpoint))
        self.position.saved = checkpoint

    async def present(self, databases: Sequence[str]) -> dict[Place, TableStructure]:
        return {}

    async def rules(
        self, structures: dict[str, TableStructure]
    ) -> list[tuple[str, TableStructure, TableRule]]:
        """Raises Stopped for a table whose columns are called like ours."""
        for structure in structures.values():
            _check_names(structure)
        return [
            (unescape(key.partition(".")[0]), structure, rule_of(structure))
            for key, structure in structures.items()
        ]

    async def ddl(self, ddl: DdlMessage, said: Said) -> list[str]:
        """It is kept with the rows behind it."""
        if ddl.schema_version not in self.position.ddls_done:
            after = max(self.position.commit_ts, position_after(ddl))
            name = f"{DDLS}/{ddl.commit_ts}-{ddl.schema_version}.json"
            await self._put(name, msgspec.json.encode(ddl))
            await self.save(self.position.after(ddl, after))
        return []

    async def step(self, segment: Segment, route: Routing) -> tuple[PartWriting, frozenset[int]]:
        (span,) = segment.view.spans
        await self._clear(span.after_ts)
        return ParquetWriting(self._url, span.after_ts, route), frozenset()

    async def forget_steps(self) -> None:
        """It remembers none: an unfinished one is written anew."""

    async def _clear(self, after_ts: int) -> None:
        """What an attempt has left that ended: it may have had other parts."""
        found = fs.FileSelector(self._root, recursive=True, allow_not_found=True)
        for one in self._files.get_file_info(found):
            if one.base_name.lstrip("_").startswith(_prefix(after_ts)):
                await self._lake.remove(one.path)

    async def _put(self, name: str, data: bytes) -> None:
        await self._lake.put(f"{self._root}/{name}", data)


class ParquetWriting(msgspec.Struct, frozen=True):
    """A file for each form of a table that a part has rows of."""

    url: str
    after_ts: int
    routing: Routing

    async def written(self, part: int, found: Iterator[Bundle]) -> Wrote:
        """Raises Stopped for a value that Parquet can't have, OSError."""
        files = _Files(self, part)
        pins: set[int] = set()
        groups = gathered(found, self.routing.spread, pins)
        for _, of_table in groupby(groups, itemgetter(0)):
            for _, changes in of_table:
                for change in changes:
                    await files.add(change)
            await files.end()
        return Wrote(part, files.rows, files.count, sorted(pins))


class _Files:
    """Of a table in a part, by form: those of all would be more than a process may have open.
    They have their names when `end` returns, and are whole then; `count` files with `rows` are."""

    def __init__(self, writing: ParquetWriting, part: int) -> None:
        self._writing = writing
        self._part = part
        self._lake = Lake(writing.url)
        self._open: dict[int, _File] = {}
        self.rows = self.count = 0

    async def add(self, change: Change) -> None:
        file = self._open.get(change.form)
        if file is None:
            form = self._writing.routing.forms[change.form]
            directory = f"{self._lake.root}/{escape(form.db)}.{escape(form.structure.name)}"
            begin = _prefix(self._writing.after_ts)
            name = f"{begin}v{form.structure.version}-{self._part:03}.parquet"
            await self._lake.make(directory)
            file = self._open[change.form] = _File(self._lake, directory, name, form)
        file.add(change)

    async def end(self) -> None:
        """The table is through."""
        files, self._open = self._open, {}
        for file in files.values():
            self.rows += await file.end()
        self.count += len(files)


class _File:
    def __init__(self, lake: Lake, directory: str, name: str, form: Form) -> None:
        self._lake = lake
        self._path = f"{directory}/{name}"
        self._part = lake.part(self._path)
        self._columns = stored(form.structure)
        self._rows = Rows(form.structure)
        own = [pa.field(name, kind, nullable=False) for name, kind in _OWN]
        theirs = [pa.field(one.name, file_type(one)) for one in self._columns]
        self._schema = pa.schema([*own, *theirs])
        self._writer = parquet.ParquetWriter(self._part, self._schema, filesystem=lake.files)
        self._held: list[Change] = []
        self._bytes = self._count = 0

    def add(self, change: Change) -> None:
        self._held.append(change)
        self._bytes += len(change.payload)
        if len(self._held) >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._flush()

    async def end(self) -> int:
        self._flush()
        self._writer.close()
        await self._lake.place(self._part, self._path)
        return self._count

    def _flush(self) -> None:
        held, self._held, self._bytes = self._held, [], 0
        rows = [(op, one.commit_ts, one.seq, row) for one in held for op, row in self._rows.of(one)]
        self._count += len(rows)
        values: list[list[Any]] = [[row[at] for row in rows] for at in range(len(_OWN))]
        values += [[row.get(one.name) for *_, row in rows] for one in self._columns]
        columns = zip(values, self._schema, strict=True)
        arrays = [array(column, field.type) for column, field in columns]
        self._writer.write_batch(pa.record_batch(arrays, schema=self._schema))


def _check_names(structure: TableStructure) -> None:
    """Nobody reads a file of two columns that are called alike."""
    own = {name for name, _ in _OWN}
    taken = [one.name for one in stored(structure) if one.name.lower() in own]
    if taken:
        raise Stopped(
            f"the table {structure.name} has a column {taken[0]} of its own",
            hint="leave the table out, or replay into a database",
        )


def _prefix(after_ts: int) -> str:
    """Of files with the rows of a segment."""
    return f"{after_ts:020}-"
