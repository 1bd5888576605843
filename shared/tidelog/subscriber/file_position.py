"""A position in a file, for tools without a database."""

from __future__ import annotations

from pathlib import Path

from tidelog.real.disk import RealDisk
from tidelog.subscriber.positions import Position


class FilePosition:
    """`save` replaces the file atomically and durably. What was done after the last `save` comes
    again after a crash: at least once, so do what may be done twice."""

    def __init__(self, path: str | Path) -> None:
        place = Path(path).absolute()
        self._disk = RealDisk(place.parent)
        self._name = place.name

    def load(self) -> Position | None:
        """None: there is no such file. Raises BadInput for one that holds something else."""
        if not self._disk.exists(self._name):
            return None
        return Position.decode(self._disk.read_file(self._name).decode(errors="replace"))

    async def save(self, position: Position) -> None:
        """Raises IoFailed, DiskFull."""
        await self._disk.write_file(self._name, position.encode().encode() + b"\n")
