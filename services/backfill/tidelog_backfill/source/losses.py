"""What a reading leaves out of damaged or incomplete logs, as rows of its own: nothing else in a
DataFrame tells of it. Pure, but for the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import pyarrow as pa
import structlog

from tidelog_backfill.files.chunk import Facts
from tidelog_backfill.files.lost import damaged, missing, unwritten
from tidelog_backfill.replay.plan_relays import coverage, gaps
from tidelog_backfill.source.pushdown import Window

log = structlog.get_logger()

SCHEMA = pa.schema(
    [
        ("why", pa.string()),
        ("file", pa.string()),
        ("offset", pa.int64()),
        ("bytes", pa.int64()),
        ("after_ts", pa.int64()),
        ("until_ts", pa.int64()),
    ]
)
DAMAGED = "damaged bytes, and the changes in them"
ELSEWHERE = "damaged bytes, and the changes in them, at further places of the file"
MISSING = "changes with after_ts < commit_ts <= until_ts are in no file of the relay log"


class Loss(msgspec.Struct, frozen=True):
    """`offset` None: at several places. Either of a file, or of a time, or what `why` says."""

    why: str
    file: str | None = None
    offset: int | None = None
    bytes: int | None = None
    after_ts: int | None = None
    until_ts: int | None = None


def losses(facts: Sequence[Facts], window: Window, warnings: Sequence[str] = ()) -> list[Loss]:
    """Of all chunks of some logs, surveyed with what is damaged passed by. `warnings`: those of the
    plan, where there is one."""
    found = [loss for one in facts for loss in _of_chunk(one)]
    relays = [one for one in facts if one.chunk.kind == "relay"]
    begins = min((above for above, _ in coverage(relays)), default=0)
    lacks = list(gaps(relays, max(begins, window.after_ts), window.until_ts))
    found += [Loss(MISSING, after_ts=one.position, until_ts=one.after) for one in lacks]
    for one in unwritten(facts, window.after_ts, window.until_ts):
        found.append(Loss(str(one), after_ts=one.from_ts - 1, until_ts=one.to_ts))
    told = {*damaged(facts), *missing(lacks), *(one.why for one in found)}
    return [*found, *(Loss(why) for why in warnings if why not in told)]


def _of_chunk(facts: Facts) -> Iterator[Loss]:
    """The first few places, and all bytes."""
    path = facts.chunk.path
    for offset, size in facts.skipped_at:
        yield Loss(DAMAGED, path, offset, size)
    rest = facts.skipped - sum(size for _, size in facts.skipped_at)
    if rest:
        yield Loss(ELSEWHERE, path, None, rest)


def batch(found: Sequence[Loss], schema: pa.Schema) -> pa.RecordBatch:
    """`schema`: fields of SCHEMA."""
    arrays = [pa.array([getattr(one, field.name) for one in found], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def tell(found: Sequence[Loss]) -> None:
    """Where the driver writes its log: whoever reads a DataFrame need not have asked for it."""
    if found:
        size = sum(one.bytes or 0 for one in found)
        hint = '.option("rows", "lost") lists it'
        log.warning("left out", places=len(found), bytes=size, first=found[0].why, hint=hint)
