"""Measurements on Spark one after another, each a process of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import msgspec

from bench.on_spark import Asked, Ran


class SparkRuns:
    """What they leave is in the directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0

    async def run(self, asked: Asked) -> Ran:
        """Raises RuntimeError if it doesn't end well."""
        self._count += 1
        events = self._directory / f"events-{self._count}"
        events.mkdir(parents=True)
        path = self._directory / f"asked-{self._count}.json"
        path.write_bytes(msgspec.json.encode(msgspec.structs.replace(asked, events=str(events))))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bench.on_spark", str(path), stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"{asked.what} on Spark ended with {process.returncode}")
        return msgspec.json.decode(out.splitlines()[-1], type=Ran)
