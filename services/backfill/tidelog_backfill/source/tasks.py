"""What is read for a query: chunks of files, and what of each is shown."""

from __future__ import annotations

import msgspec

from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.inputs import found
from tidelog_backfill.files.view import Span, View
from tidelog_backfill.source.options import Options
from tidelog_backfill.source.pushdown import Window


class Task(msgspec.Struct, frozen=True):
    """A chunk; `view` None: its records as they are."""

    chunk: Chunk
    view: View | None = None


def tasks(options: Options, window: Window) -> list[Task]:
    """Raises NotFound, BadInput, Corrupt."""
    read = found(*options.paths)
    chunks = read.chunks(options.chunk_bytes)
    if options.rows == "raw":
        return [Task(chunk) for chunk in chunks]
    return [Task(chunk, _view(options, window)) for chunk in chunks]


def _view(options: Options, window: Window) -> View:
    """Of logs whose rows tell their tables themselves."""
    only = options.wanted or window.names()
    return View([Span(window.after_ts, window.until_ts)], only=only)
