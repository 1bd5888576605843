"""Files of a job that every machine of a cluster must see, under the same path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from tidelog.bulk.jobs import Job, ReplayJob
from tidelog.real.rng import RealRng
from tidelog_backfill.files.inputs import found
from tidelog_backfill.parquet_values import place_of

Sizes = dict[str, int]
"""Bytes that a file has at least, by its path."""


def files_of(job: Job) -> Sizes:
    """What tasks read of this machine's: logs, dumps, and files that URLs name, as a password's.
    Raises NotFound, BadInput."""
    if isinstance(job, ReplayJob):
        logs = found(*job.inputs).logs
        return {part.path: part.end for log in logs for part in log} | _named(job.downstream)
    dumps = _local(job.source)
    read = [path for path in dumps.rglob("*") if path.is_file()] if dumps else []
    sizes = {str(path): path.stat().st_size for path in read}
    return sizes | _named(job.downstream) | _named(job.source)


@contextmanager
def marked(job: Job) -> Iterator[Sizes]:
    """A file in the directory that tasks write Parquet files to, for so long."""
    directory = _local(job.parquet)
    if directory is None:
        yield {}
        return
    directory.mkdir(parents=True, exist_ok=True)
    mark = directory / f"_seen_{RealRng().token()}"
    mark.touch()
    try:
        yield {str(mark): 0}
    finally:
        mark.unlink()


def _local(url: str) -> Path | None:
    """A directory of this machine."""
    if not url or url.partition("://")[0] in ("mysql", "mariadb", "tidb"):
        return None
    files, path = place_of(url)
    return Path(path) if isinstance(files, fs.LocalFileSystem) else None


def _named(url: str) -> Sizes:
    options = parse_qsl(urlsplit(url).query)
    return {path: 0 for _, path in options if path.startswith("/") and Path(path).exists()}
