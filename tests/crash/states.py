"""Every disk that a power loss may leave, from an image of what is durable and what is pending.

Of a file: any of its unsynced writes dropped, kept, or kept in part: cut at any byte, without some
of their sectors, grown, with zeros for what is not there yet. Of a directory: any of its unsynced
changes of entries; a directory that is lost takes what is in it along. Pure; a choice is a few
numbers, so that a state can be named and met again.
"""

from __future__ import annotations

import itertools
import posixpath
import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.sim.inode import SECTOR, DiskImage, FileImage, Write, apply

Files = dict[str, bytes | None]
"""Path -> content, None for a directory."""
ALL_SUBSETS = 10
EVERY_BYTE = 700
"""A write up to this size is cut at each of its bytes, a larger one at as many places."""
ENDS, OFTEN = 20, 3
"""The first and last bytes of a write, where framing is, are met so much more often."""


class Dimension(NamedTuple):
    """One thing that may turn out in several ways: a directory's entries, or a file's content."""

    what: str | int
    ways: list[tuple[object, ...]]
    """The first: nothing survived; the second: everything did."""


def dimensions(image: DiskImage) -> list[Dimension]:
    found: list[Dimension] = []
    for directory, changes in sorted(image.changes.items()):
        found.append(Dimension(directory, list(subsets(len(changes)))))
    for number, file in image.files.items():
        if file.pending:
            found.append(Dimension(number, list(file_ways(file.pending))))
    return found


def subsets(count: int) -> Iterator[tuple[int, ...]]:
    """Which of `count` changes survive: all subsets of a few; of many each prefix, each alone,
    all but each."""
    everything = tuple(range(count))
    yield ()
    yield everything
    if count <= ALL_SUBSETS:
        for size in range(1, count):
            yield from itertools.combinations(everything, size)
        return
    yield from (everything[:size] for size in range(1, count))
    yield from ((one,) for one in everything)
    yield from (tuple(other for other in everything if other != one) for one in everything)


def file_ways(pending: Sequence[Write]) -> Iterator[tuple[object, ...]]:
    """(kept,) or (kept, which write is torn, how, where)."""
    kept = [(tuple(some),) for some in subsets(len(pending))]
    yield from kept[:2]
    yield from kept[2:]
    for at in range(max(0, len(pending) - 3), len(pending)):
        before = tuple(range(at))
        for how, where in tears(pending[at]):
            yield (before, at, how, where)
            if before:
                yield ((), at, how, where)


def tears(write: Write) -> Iterator[tuple[str, int]]:
    """How one write may be kept in part."""
    size = len(write.data)
    if write.cut or size < 2:
        return
    step = max(1, size // EVERY_BYTE)
    edges = range(SECTOR - write.offset % SECTOR, size, SECTOR)
    cuts = sorted({*range(1, size, step), *(e + d for e in edges for d in (-1, 0, 1))})
    for cut in cuts:
        if 0 < cut < size:
            yield ("prefix", cut)
            yield ("zeros after", cut)
    for cut in (*range(min(size, ENDS)), *range(max(0, size - ENDS), size)):
        yield from [("prefix", cut), ("zeros after", cut)] * OFTEN
    for sector in range(len(edges) + 1):
        yield ("without sector", sector)
        yield ("only sector", sector)
        yield ("zeros before sector", sector)


def torn(write: Write, how: str, where: int) -> list[Write]:
    data, size = write.data, len(write.data)
    if how == "prefix":
        return [Write(write.offset, data[:where])]
    if how == "zeros after":
        return [Write(write.offset, data[:where]), Write(write.offset + size, b"")]
    first = SECTOR - write.offset % SECTOR
    begin = 0 if where == 0 else first + (where - 1) * SECTOR
    end = min(size, first + where * SECTOR)
    sector = Write(write.offset + begin, data[begin:end])
    if how == "only sector":
        return [sector]
    if how == "without sector":
        rest = [Write(write.offset, data[:begin]), Write(write.offset + end, data[end:])]
        return [piece for piece in rest if piece.data]
    return [Write(write.offset + begin, data[begin:])]


def content(file: FileImage, way: tuple[object, ...]) -> bytes:
    kept = way[0]
    assert isinstance(kept, tuple)
    writes = [file.pending[at] for at in kept]
    if len(way) == 4:
        _, at, how, where = way
        assert isinstance(at, int)
        assert isinstance(how, str)
        assert isinstance(where, int)
        writes += torn(file.pending[at], how, where)
    data = bytearray(file.durable)
    for write in writes:
        apply(data, write)
    return bytes(data)


def disk(image: DiskImage, choice: dict[str | int, tuple[object, ...]]) -> Files:
    """The disk that these ways give; what is not named kept nothing."""
    names = dict(image.names)
    for directory, changes in image.changes.items():
        for at in choice.get(directory, ()):
            assert isinstance(at, int)
            path, number = changes[at]
            if number is None:
                names.pop(path, None)
            else:
                names[path] = number
    files: Files = {}
    for path in sorted(names):
        parent = posixpath.dirname(path)
        if parent and files.get(parent, b"") is not None:
            continue
        file = image.files.get(names[path])
        way = choice.get(names[path], ((),))
        files[path] = None if file is None else content(file, way)
    return files


def choices(
    dims: Sequence[Dimension], rng: random.Random, count: int
) -> Iterator[dict[str | int, tuple[object, ...]]]:
    """`count` of the ways: nothing, everything, each way of each dimension with the others at
    either extreme, as many as fit in half of them, and for the rest any combination."""
    yield {}
    yield {dim.what: dim.ways[1] for dim in dims}
    sweeps = [(dim, way, rest) for dim in dims for way in range(len(dim.ways)) for rest in (0, 1)]
    if len(sweeps) > count // 2:
        sweeps = rng.sample(sweeps, count // 2)
    for dim, way, rest in sweeps:
        yield {other.what: other.ways[rest] for other in dims} | {dim.what: dim.ways[way]}
    for _ in range(count - len(sweeps) - 2):
        yield {dim.what: rng.choice(dim.ways) for dim in dims}
