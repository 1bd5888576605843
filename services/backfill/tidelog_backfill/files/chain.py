"""A file's chunks one after the other: each begins where the one before ends.

A chunk's first record is guessed where nobody knows it, so that chunks are surveyed at the same
time. The guess is wrong where the chunk begins in a value that itself holds records: a row with a
piece of such a file in it. What the chunk before says is right: its records follow one another
from the file's beginning. Of pb files what those before have reached tells what one has again.

    facts = chained([alone(chunk) for chunk in chunks])     # alone: in any process
    facts = in_order(chunks)                                # the same in one
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from tidelog.errors import Corrupt
from tidelog_backfill.files.chunk import Chunk, Facts
from tidelog_backfill.files.held import Held
from tidelog_backfill.files.pb_survey import in_log
from tidelog_backfill.files.records import OnCorrupt
from tidelog_backfill.files.survey import survey
from tidelog_backfill.files.verdicts import settled

_UNKNOWN = -1


def alone(chunk: Chunk, *, on_corrupt: OnCorrupt = "stop") -> Facts:
    """For `chained`: what `survey` says, but for damage behind a guess, which may be none. Raises
    as that does."""
    try:
        return survey(chunk, on_corrupt=on_corrupt)
    except Corrupt:
        if chunk.exact:
            raise
        return _unknown(chunk)


def chained(facts: Iterable[Facts], *, on_corrupt: OnCorrupt = "stop") -> list[Facts]:
    """Facts of all chunks of some logs, in their order, each of an exact chunk with the verdicts of
    its Prewrites; those are surveyed again that guessed wrong. Raises as `survey` does."""
    return _chained(facts, on_corrupt, None)


def in_order(
    chunks: Iterable[Chunk], *, on_corrupt: OnCorrupt = "stop", held: Held | None = None
) -> list[Facts]:
    """Of all chunks of some logs, in their order; `held` is told of each. Raises as `survey`
    does."""
    return _chained(map(_unknown, chunks), on_corrupt, held)


def _chained(facts: Iterable[Facts], on_corrupt: OnCorrupt, held: Held | None) -> list[Facts]:
    found: list[Facts] = []
    path, at = "", 0
    reached = 0, 0
    for one in facts:
        if one.chunk.path != path:
            path, at = one.chunk.path, 0
        begin = min(at, one.chunk.end)
        right = one
        if one.begin != begin:
            right = survey(_from(one.chunk, begin), on_corrupt=on_corrupt, held=held)
        if right.chunk.kind == "pb":
            right = in_log(right, reached, on_corrupt)
            reached = right.reached
        found.append(right)
        at = max(at, right.end)
    return settled(found, on_corrupt, held)


def _unknown(chunk: Chunk) -> Facts:
    return Facts(chunk, _UNKNOWN, _UNKNOWN)


def _from(chunk: Chunk, begin: int) -> Chunk:
    return msgspec.structs.replace(chunk, begin=begin, exact=True, cuts=(), verdicts=())
