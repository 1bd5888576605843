"""A simulated file's bytes: what is written, and what of it survives a power loss (pure).

A write is pending until a sync that began after it. A crash keeps everything synced and, of the
pending writes, nothing, all, a torn prefix or any subset with torn pieces: what file systems are
known to do (reliability 2.1, ALICE and CrashMonkey).
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import NamedTuple

SECTOR = 512


@dataclass
class Write:
    """`cut` is a truncation to `offset`; else `data` goes to `offset`."""

    offset: int
    data: bytes
    cut: bool = False


class FileImage(NamedTuple):
    """A file as a power loss would meet it."""

    durable: bytes
    pending: tuple[Write, ...]


class DiskImage(NamedTuple):
    """A disk as a power loss would meet it: the durable entries and each directory's pending ones,
    in order, as path -> file (None: removed); a file that is in none of `files` is a directory."""

    names: dict[str, int]
    changes: dict[str, list[tuple[str, int | None]]]
    files: dict[int, FileImage]


class Lost(NamedTuple):
    """Of a file at a power loss: bytes, and writes that are gone or torn."""

    bytes: int
    writes: int
    torn: int


@dataclass
class Inode:
    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)
    written: int = 0
    """Writes so far; those not pending any more are durable."""

    def write(self, offset: int, data: bytes) -> None:
        write = Write(offset, data)
        self.written += 1
        self.pending.append(write)
        apply(self.data, write)

    def truncate(self, size: int) -> None:
        write = Write(size, b"", cut=True)
        self.written += 1
        self.pending.append(write)
        apply(self.data, write)

    def synced_up_to(self, written: int) -> None:
        """The first `written` writes of all have reached the platter."""
        count = max(0, len(self.pending) - (self.written - written))
        for write in self.pending[:count]:
            apply(self.durable, write)
        del self.pending[:count]

    def forgotten(self) -> None:
        """A sync failed, and what was pending counts as clean without having got out: it is read
        until the power goes, and no later sync saves it (reliability 2.1, ATC'20)."""
        self.pending.clear()

    def image(self) -> FileImage:
        return FileImage(bytes(self.durable), tuple(self.pending))

    def crash(self, rng: random.Random | None) -> Lost:
        """Power loss; without `rng` nothing that is pending survives."""
        kept = _survivors(self.pending, rng) if rng is not None else []
        whole = {id(write) for write in self.pending}
        torn = sum(id(write) not in whole for write in kept)
        lost = Lost(
            sum(len(w.data) for w in self.pending) - sum(len(w.data) for w in kept),
            len(self.pending) - len(kept),
            torn,
        )
        for write in kept:
            apply(self.durable, write)
        self.pending.clear()
        self.data = bytearray(self.durable)
        return lost


def apply(content: bytearray, write: Write) -> None:
    if write.cut:
        del content[write.offset :]
        return
    if len(content) < write.offset:
        content.extend(bytes(write.offset - len(content)))  # a hole reads as zeros
    content[write.offset : write.offset + len(write.data)] = write.data


def _survivors(pending: list[Write], rng: random.Random) -> list[Write]:
    mode = rng.randrange(4)
    if not pending or mode == 0:
        return []
    if mode == 1:
        return list(pending)
    if mode == 2:
        whole = rng.randrange(len(pending))
        return [*pending[:whole], *_torn(pending[whole], rng)]
    kept: list[Write] = []
    for write in pending:
        fate = rng.randrange(3)
        if fate == 0:
            kept.append(write)
        elif fate == 1:
            kept.extend(_torn(write, rng))
    return kept


def _torn(write: Write, rng: random.Random) -> list[Write]:
    """A piece of a write: a prefix cut at any byte or at a sector, or a middle piece."""
    size = len(write.data)
    if write.cut or size < 2:
        return []
    end = rng.randrange(1, size)
    if size > SECTOR and rng.random() < 0.5:
        end = max(SECTOR, end // SECTOR * SECTOR)
    start = rng.randrange(end) if rng.random() < 0.2 else 0
    return [Write(write.offset + start, write.data[start:end])]
