"""Where a backfill writes: what the driver asks of every target, and what a task does with one.

A target keeps the plan and which chunks are done, so that a job that was ended goes on, whoever
starts it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from tidelog.downstream import Image
from tidelog_backfill.snapshot.plan import Chunk, CopiedTable, SnapshotPlan


class Prepared(msgspec.Struct, frozen=True):
    """The tables as they are written, and what the target can't hold, a sentence each."""

    tables: list[CopiedTable]
    warnings: list[str] = []


class ChunkWriter(Protocol):
    """In a task. Errors are typed."""

    async def write(self, images: Sequence[Image]) -> None:
        """The next rows of the chunk."""

    async def done(self) -> None:
        """That was all of it; remembered with its last rows."""

    async def close(self) -> None: ...


class Way(Protocol):
    """How a task gets to the target. Travels to executors."""

    async def chunk(self, lane: int, table: CopiedTable, chunk: Chunk, ts: int) -> ChunkWriter:
        """Begin a chunk, of which an earlier try may have written some. `lane`: of all tasks at
        work no other has this number."""


class CopyTarget(Protocol):
    """The driver's side. Errors are typed."""

    @property
    def anew(self) -> str:
        """For hints: what a person does so that a kept plan is forgotten."""

    async def kept(self) -> SnapshotPlan | None:
        """The plan of a job that was ended before it was done. Raises Refused where the target
        holds what no first copy may meet."""

    async def prepare(self, tables: Sequence[CopiedTable], ts: int) -> Prepared:
        """Make them there, empty. Raises Refused for one with rows."""

    async def keep(self, plan: SnapshotPlan) -> None:
        """Durable when it returns."""

    async def done(self, plan: SnapshotPlan) -> frozenset[int]:
        """The numbers of its chunks that are written. Raises Refused where somebody else has
        written the target before all of them were."""

    def way(self) -> Way:
        """For tasks, from now on."""

    async def finish(self, plan: SnapshotPlan, reach: int) -> None:
        """All chunks are written, with rows up to `reach`: say so durably."""

    async def is_whole(self, plan: SnapshotPlan) -> bool:
        """True: `finish` has said so, and nothing is left to do but to forget the plan."""

    async def forget(self) -> None:
        """The job is through. A plan that is kept only to go on with is forgotten."""

    async def close(self) -> None: ...
