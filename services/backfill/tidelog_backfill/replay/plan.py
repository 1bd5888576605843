"""What a replay does, step by step: decided from the chunks' facts, before anything is written."""

from __future__ import annotations

import msgspec

from tidelog.changes import DdlMessage
from tidelog.schema.structure import TableStructure
from tidelog_backfill.files.chunk import Chunk
from tidelog_backfill.files.view import View

Surveyed = tuple[int, int, int, int, int]
"""Of a chunk: records, rows, their bytes, open Prewrites, damaged bytes."""


class Segment(msgspec.Struct, frozen=True):
    """DDLs, one after the other, then all row changes of `view`'s one span at once. After it the
    downstream holds everything up to `commit_ts`. `number`: the same for the same logs, whatever
    of them is done already. `chunks`: where those rows may be; `rows` and `size` (bytes): about how
    much they are. `surveyed`: what was found in the files of `chunks`; where it differs they were
    damaged or mended. `structures`: by `structure_key`, of every table at every version that they
    name."""

    number: int
    commit_ts: int
    ddls: list[DdlMessage]
    view: View
    chunks: list[Chunk]
    structures: dict[str, TableStructure]
    rows: int = 0
    size: int = 0
    surveyed: list[Surveyed] = []


class Plan(msgspec.Struct, frozen=True):
    """`begins`: what was committed up to there stands elsewhere, or is applied. Behind the last
    segment, or at once where there is none, everything up to `until` is. `left_out`: what is
    not replayed, by reason, as the Drainer counts it. `warnings`: for whoever reads.
    `skipped_bytes`: of damaged records."""

    begins: int
    until: int
    segments: list[Segment]
    left_out: dict[str, int] = {}
    warnings: list[str] = []
    skipped_bytes: int = 0
