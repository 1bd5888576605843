"""What is read for a query: chunks of files, and what of each is shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from tempfile import TemporaryFile

import msgspec

from tidelog.errors import NotFound
from tidelog.schema.history import unpacked
from tidelog.schema.structure import TableStructure, structure
from tidelog_backfill.files.chain import in_order
from tidelog_backfill.files.chunk import Chunk, Facts
from tidelog_backfill.files.held import Held
from tidelog_backfill.files.inputs import CHUNK_BYTES, Input, found
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.replay.history import schema_history
from tidelog_backfill.replay.plan import Plan, Segment
from tidelog_backfill.replay.planning import plan
from tidelog_backfill.replay.wanted import Wanted
from tidelog_backfill.source.losses import Loss, losses, tell
from tidelog_backfill.source.options import Options
from tidelog_backfill.source.pushdown import Window

_STRUCTURE = msgspec.json.Decoder(TableStructure)


class Task(msgspec.Struct, frozen=True):
    """A chunk; `view` None: its records as they are."""

    chunk: Chunk
    view: View | None = None


GROUPED_BYTES = 64 << 20
PARTITIONS = 32
"""At least, before small chunks are read by one task: each costs Spark about as much as a MiB."""
LEAST_BYTES = 4 << 20
"""Of a chunk, however small the log is."""


def grouped(apart: Sequence[Task], chunk_bytes: int = 0) -> list[list[Task]]:
    """What each partition reads, in order. `chunk_bytes`: of one, 0 = nobody said how much."""
    total = sum(one.chunk.end - one.chunk.begin for one in apart)
    most = min(chunk_bytes or GROUPED_BYTES, total // PARTITIONS)
    groups: list[list[Task]] = []
    size = most
    for one in apart:
        size += one.chunk.end - one.chunk.begin
        if size > most:
            groups.append([])
            size = one.chunk.end - one.chunk.begin
        groups[-1].append(one)
    return groups


def tasks(options: Options, window: Window) -> list[Task]:
    """Raises NotFound, BadInput, Corrupt; of Pumps' logs what `plan` does. What these tasks will
    pass by is told now: a task that knows it can tell nobody."""
    read = found(*options.paths)
    # Where a chunk of a Pump's log begins is a guess: its rows may hold what looks like records.
    guessed = options.rows == "raw" and read.kind == "segment"
    chunks = read.chunks(max(1, read.size) if guessed else _chunk_bytes(options, read))
    if options.rows == "raw":
        return [Task(chunk) for chunk in chunks]
    only = options.wanted or window.names()
    if read.kind == "segment":
        return _planned(chunks, options, window, only)
    if options.on_corrupt == "skip" or read.kind == "pb":
        facts = _facts(chunks, options)
        chunks = [one.chunk for one in facts] if read.kind == "pb" else chunks
        tell(losses(facts, window))
    view = View([Span(window.after_ts, window.until_ts)], only=only)
    return [Task(chunk, view) for chunk in chunks]


def _chunk_bytes(options: Options, read: Input) -> int:
    """Of a log of a few files, too, all cores have something to read."""
    return options.chunk_bytes or min(CHUNK_BYTES, max(LEAST_BYTES, read.size // PARTITIONS))


def lost(options: Options, window: Window) -> list[Loss]:
    """What a reading with on-corrupt=skip leaves out, and what is in no log, as this one says.
    Without a DDL history, nothing is told of rows of Pumps' logs that can't be decoded. Raises as
    `tasks` does."""
    options = msgspec.structs.replace(options, on_corrupt="skip")
    read = found(*options.paths)
    facts = _facts(read.chunks(_chunk_bytes(options, read)), options)
    if read.kind != "segment" or not options.ddl_history:
        return losses(facts, window)
    return losses(facts, window, _plan(facts, options, window, options.wanted).warnings)


def _planned(
    chunks: Sequence[Chunk], options: Options, window: Window, only: tuple[str, ...]
) -> list[Task]:
    with TemporaryFile() as file:
        held = Held(file, window.after_ts, window.until_ts)
        facts = held.once(in_order(chunks, on_corrupt=options.on_corrupt, held=held))
    made = _plan(facts, options, window, only)
    tell(losses(facts, window, made.warnings))
    views = ((one.chunk, _view(one.chunk, made.segments)) for one in facts)
    return [Task(chunk, view) for chunk, view in views if view.spans]


def _plan(facts: Sequence[Facts], options: Options, window: Window, only: tuple[str, ...]) -> Plan:
    """The rows of a Pump's log have no names: the DDL history has them."""
    history = asyncio.run(schema_history(options.ddl_history))
    wanted = Wanted(
        after_ts=window.after_ts,
        until_ts=window.until_ts,
        tables=only,
        on_corrupt=options.on_corrupt,
        goes_on=False,
    )
    return plan(facts, wanted, history=history)


def _facts(chunks: Sequence[Chunk], options: Options) -> list[Facts]:
    return in_order(chunks, on_corrupt=options.on_corrupt)


def _view(chunk: Chunk, segments: Sequence[Segment]) -> View:
    """The spans of those that have rows in the chunk."""
    spans = [
        span
        for segment in segments
        if any(_overlap(chunk, part) for part in segment.chunks)
        for span in segment.view.spans
    ]
    return msgspec.structs.replace(segments[0].view, spans=spans) if segments else View([])


def _overlap(chunk: Chunk, part: Chunk) -> bool:
    return chunk.path == part.path and chunk.begin < part.end and part.begin < chunk.end


def newest_structure(options: Options) -> TableStructure:
    """Of the one table that is wanted. Raises NotFound, and what `tasks` does."""
    read = found(*options.paths)
    place = options.table.lower()
    if read.kind == "segment":
        history = asyncio.run(schema_history(options.ddl_history))
        states = [one for one in history.tables() if f"{one.db}.{one.table.lower}".lower() == place]
        shapes = [structure(unpacked(one)) for one in states]
    else:
        told = (one for facts in _facts(read.chunks(), options) for one in facts.structures)
        named = [(db, _STRUCTURE.decode(data)) for db, data in told]
        shapes = [one for db, one in named if f"{db}.{one.name}".lower() == place]
    if not shapes:
        raise NotFound(
            f"no structure of {options.table} is in the log", hint="write table=DB.TABLE"
        )
    return max(shapes, key=lambda one: one.version)
