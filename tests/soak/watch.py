"""What the processes of a topology hold while they run: memory and descriptors, by name, life."""

from __future__ import annotations

import contextlib
import json
import os
import time
from pathlib import Path
from typing import Any

from tests.soak.slopes import Sample
from tests.soak.so_far import SoFar

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20
NATS = "nats"
UP = "up"
"""The process that starts the others: the only one that nobody kills."""
BLOCKS = "nats/store/jetstream/*/streams/KV_*/msgs/*.blk"
"""nats-server rids a bucket of old values when the newest file of its stream is full: BLOCK bytes
(defaultKVBlockSize of its filestore.go), an hour or two of ours. Until then it holds that file, and
after a kill reads all of it; that is a saw's tooth, and no growth."""
BLOCK = 4 << 20


class Watch:
    """`look` takes one sample of each process that lives, into `so_far`. `up`: pid of UP."""

    def __init__(self, directory: Path, so_far: SoFar, up: int) -> None:
        self._directory = directory
        self._so_far = so_far
        self._up = up
        self._began = time.monotonic() - so_far.seconds
        self._lives: dict[str, tuple[int, int, float]] = {}
        """By name: pid, number, since when."""
        self.blocks = 0
        """Bytes of BLOCKS at the last look: nats-server's memory is taken without them."""

    def look(self) -> None:
        now = time.monotonic()
        for name, pid in self._pids().items():
            life = self._lives.get(name)
            if life is None or life[0] != pid:
                life = self._lives[name] = pid, self._so_far.lives(name), now
            at, (_, number, since) = now - self._began, life
            try:
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                count = len(os.listdir(f"/proc/{pid}/fd"))
            except (OSError, IndexError):
                continue  # it was killed just now
            if not pages:
                continue  # so was this: nobody has waited for it yet
            held = 0
            if name == NATS:
                held = self.blocks = self._blocks()
            memory = (pages * PAGE - held) / MIB
            so_far = self._so_far
            for into, value in ((so_far.rss, memory), (so_far.descriptors, float(count))):
                into.setdefault(name, []).append(Sample(at, number, now - since, value))

    def _blocks(self) -> int:
        """Of each bucket the newest file: older ones must not hide behind it."""
        newest: dict[Path, tuple[int, int]] = {}
        for path in self._directory.glob(BLOCKS):
            with contextlib.suppress(FileNotFoundError):  # it was compacted just now
                one = int(path.stem), min(path.stat().st_size, BLOCK)
                newest[path.parent] = max(newest.get(path.parent, one), one)
        return sum(size for _, size in newest.values())

    def _pids(self) -> dict[str, int]:
        state: dict[str, Any] = json.loads((self._directory / "tidelog.json").read_text())
        return {UP: self._up} | {name: int(pid) for name, pid in state["pids"].items()}
