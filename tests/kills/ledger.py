"""What the writer of the kill rig was told, in a file: by it the stream is judged.

A line each. Of a transaction: begun, before anything of it is sent, with a digest of its rows; then
acked with its commit_ts, or failed for certain. An ack counts once its line is fsynced.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import msgspec

SYNC_S = 0.01
"""Acks of so long are synced at once."""

Event = tuple[str, dict[str, Any] | None, dict[str, Any] | None]
"""A table, and a row of it before and after."""


class Life(msgspec.Struct, frozen=True, tag="life"):
    number: int


class Begun(msgspec.Struct, frozen=True, tag="begun"):
    id: int
    digest: str


class Acked(msgspec.Struct, frozen=True, tag="acked"):
    id: int
    commit_ts: int


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The error's class; what is definite must not be in the stream."""

    id: int
    error: str


Line = Life | Begun | Acked | Failed
_decode = msgspec.json.Decoder(Line).decode


def digest(events: list[Event]) -> str:
    """The same for the same changes of rows, in whatever order of tables."""
    made = blake2b(digest_size=8)
    for text in sorted(f"{table} {_row(before)} {_row(after)}" for table, before, after in events):
        made.update(text.encode())
    return made.hexdigest()


def _row(row: Mapping[str, Any] | None) -> str:
    return "-" if row is None else ",".join(f"{name}={row[name]}" for name in sorted(row))


class LedgerFile:
    """The writer's side."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._file = path.open("ab")
        self._waiting: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()

    def begin_life(self) -> int:
        """Its number; what a killed life left of its last line ends here."""
        lives = sum(isinstance(line, Life) for line in Ledger(self._path).read())
        self._file.write(b"\n")
        self.write(Life(lives + 1))
        return lives + 1

    def close(self) -> None:
        self._file.close()

    def write(self, line: Line) -> None:
        """Handed to the system: a killed process leaves it there."""
        self._file.write(msgspec.json.encode(line) + b"\n")
        self._file.flush()

    async def durable(self, line: Line) -> None:
        """Returns once it is fsynced, with others'."""
        self.write(line)
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        self._wanted.set()
        await waiting

    async def keep(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            waiting, self._waiting = self._waiting, []
            await asyncio.to_thread(os.fsync, self._file.fileno())
            for one in waiting:
                one.set_result(None)
            await asyncio.sleep(SYNC_S)  # others' acks come meanwhile, for one fsync


class Ledger:
    """The rig's side: `read` gives what came since the last time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read(self) -> Iterator[Line]:
        """Whole lines only; of one that a kill cut the rest is passed over."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for text in filter(None, whole.split(b"\n")):
            try:
                yield _decode(text)
            except msgspec.DecodeError:
                continue  # the line that was being written when its writer was killed
