"""A directory of Parquet files, of this machine or an object store: what is put there is whole, and
lasts, before anything that stands on it does (I6).

An object store has a file once it is closed. Of a machine's disk that is made sure here.
"""

from __future__ import annotations

from pathlib import Path
from typing import final

from pyarrow import fs

from tidelog.ports import Lock
from tidelog.real.disk import RealDisk
from tidelog.real.rng import RealRng
from tidelog_backfill.parquet_values import place_of

NEW = ".new"
"""Behind the name of a file that is being put."""


@final
class Lake:
    """Paths begin with `root`. Besides our own errors OSError is raised (`task_errors`)."""

    def __init__(self, url: str) -> None:
        """Raises BadInput."""
        self.files, self.root = place_of(url)
        self._is_local = isinstance(self.files, fs.LocalFileSystem)

    def lock(self, name: str) -> Lock | None:
        """A file of the root, which is there. None: of an object store nobody can be kept out.
        Raises DirectoryLocked."""
        return RealDisk(self.root).lock(name) if self._is_local else None

    async def make(self, directory: str) -> None:
        """With those above it."""
        above = (Path(directory), *Path(directory).parents) if self._is_local else ()
        missing = [place for place in above if not place.exists()]
        self.files.create_dir(directory, recursive=True)
        for place in missing:
            await RealDisk(place.parent).sync_dir("")

    async def put(self, path: str, data: bytes) -> None:
        """In place of what was there."""
        await self.make(path.rpartition("/")[0])
        with self.files.open_output_stream(f"{path}{NEW}") as stream:
            stream.write(data)
        await self.place(f"{path}{NEW}", path)

    def part(self, path: str) -> str:
        """Where a file is made before it is whole: nobody else's place, as a task that Spark takes
        for dead may be writing the same file still. No reader of a directory looks at it."""
        directory, _, name = path.rpartition("/")
        return f"{directory}/_{name}.{RealRng().token()}"

    async def place(self, part: str, path: str) -> None:
        """Give a file that is closed its name, in the same directory."""
        if not self._is_local:
            self.files.move(part, path)
            return
        disk = RealDisk(Path(part).parent)
        file = await disk.open(Path(part).name)
        try:
            await file.sync()
        finally:
            file.close()
        self.files.move(part, path)
        await disk.sync_dir("")

    async def remove(self, path: str) -> None:
        self.files.delete_file(path)
        if self._is_local:
            await RealDisk(Path(path).parent).sync_dir("")
