"""What the processes of a topology hold while they run: memory and descriptors, by name, life."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

from tests.soak.slopes import Sample

PAGE = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


class Watch:
    """`look` takes one sample of each process that lives."""

    def __init__(self, directory: Path) -> None:
        self._state = directory / "tidelog.json"
        self._began = time.monotonic()
        self._lives: dict[str, tuple[int, int, float]] = {}
        """By name: pid, number, since when."""
        self.rss: dict[str, list[Sample]] = {}
        """MiB."""
        self.descriptors: dict[str, list[Sample]] = {}

    def look(self) -> None:
        now = time.monotonic()
        for name, pid in self._pids().items():
            life = self._lives.get(name)
            if life is None or life[0] != pid:
                life = self._lives[name] = pid, life[1] + 1 if life else 0, now
            at, (_, number, since) = now - self._began, life
            try:
                pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
                count = len(os.listdir(f"/proc/{pid}/fd"))
            except (OSError, IndexError):
                continue  # it was killed just now
            if not pages:
                continue  # so was this: nobody has waited for it yet
            for into, value in ((self.rss, pages * PAGE / MIB), (self.descriptors, float(count))):
                into.setdefault(name, []).append(Sample(at, number, now - since, value))

    def _pids(self) -> dict[str, int]:
        state: dict[str, Any] = json.loads(self._state.read_text())
        return {name: int(pid) for name, pid in state["pids"].items()}
