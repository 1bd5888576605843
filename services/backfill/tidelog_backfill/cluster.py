"""What a job on a cluster needs of it, asked before anything is written: a master that answers,
executors that have this very package, and files that they see as the driver does.

A function nested in another travels as it is, not by its name: so these probes run where the
package is missing, too.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import version
from urllib.parse import urlsplit

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.bulk.jobs import Job
from tidelog.errors import ConfigError, NotFound, Unavailable
from tidelog_backfill.shared_files import Sizes, files_of, marked
from tidelog_backfill.watching import watched

Seen = tuple[str, str, str, list[str]]
"""Of a task: its machine, the version of the package there or "", why not, files it misses."""

MASTER = "spark://"
MASTER_PORT = 7077
CONNECT_S = 10.0
EXECUTORS_S = 120.0
"""So long a cluster may take until the first task has run."""
PACKAGE = "tidelog"
IMPORTED = "tidelog_backfill.replay.step"
"""Has whatever tasks need."""
ENVIRONMENT_HINT = (
    "executors need the same tidelog as this machine, and PYSPARK_PYTHON names their Python:"
    " docs/replay.md, on a cluster"
)
WORKERS_HINT = (
    "see the master's page: are workers alive, and have they so much memory and so many cores free"
    " (--spark spark.executor.memory=…, spark.cores.max=…)?"
)
SHARED_HINT = "a shared disk under the same path on every machine, or --master 'local[*]'"


def is_local(master: str) -> bool:
    return master.startswith("local")


def own_address(master: str) -> str:
    """This machine's address as a standalone master sees it, and so its executors; "" for masters
    of other kinds. Raises Unavailable if none of those named answers, ConfigError."""
    if not master.startswith(MASTER):
        return ""
    why: Exception | None = None
    for place in master.removeprefix(MASTER).split(","):
        try:
            parts = urlsplit(f"//{place}")
            there = parts.hostname or "", parts.port or MASTER_PORT
            with socket.create_connection(there, CONNECT_S) as connection:
                return str(connection.getsockname()[0])
        except ValueError as error:
            raise ConfigError(f"--master {master}: {error}", hint="spark://HOST:PORT") from error
        except OSError as error:
            why = error
    raise Unavailable(
        f"Spark's master {master} can't be reached: {why}",
        hint="start it, or do the job on this machine with --master 'local[*]'",
    ) from why


def check(spark: SparkSession, job: Job) -> None:
    """Raises Unavailable (no executor), ConfigError (they can't do a task of this package),
    NotFound (they don't see a file of the job)."""
    with marked(job) as marks:
        seen = _probed(spark, look(IMPORTED, PACKAGE, files_of(job) | marks))
    for host, has, trouble, missing in seen:
        if trouble:
            raise ConfigError(f"executor {host} has no tidelog: {trouble}", hint=ENVIRONMENT_HINT)
        if has != version(PACKAGE):
            raise ConfigError(
                f"executor {host} has tidelog {has}, this is {version(PACKAGE)}",
                hint=ENVIRONMENT_HINT,
            )
        if missing:
            raise NotFound(f"executor {host} does not see {missing[0]}", hint=SHARED_HINT)


def look(imported: str, package: str, files: Sizes) -> Callable[[Iterable[int]], Iterator[Seen]]:
    """A task: its machine, the package's version there or why it has none, and files that it does
    not see."""

    def seen(_: Iterable[int]) -> Iterator[Seen]:
        import importlib
        import os
        import socket
        from importlib.metadata import version

        def is_there(path: str, size: int) -> bool:
            try:
                return os.stat(path).st_size >= size
            except OSError:
                return False

        missing = [path for path, size in files.items() if not is_there(path, size)]
        try:
            importlib.import_module(imported)
            yield socket.gethostname(), version(package), "", missing
        except ImportError as error:
            yield socket.gethostname(), "", str(error), missing

    return seen


def _probed(spark: SparkSession, task: Callable[[Iterable[int]], Iterator[Seen]]) -> list[Seen]:
    """What several tasks say, of whatever executors they reach."""
    context = spark.sparkContext

    def collected() -> list[Seen]:
        count = 2 * context.defaultParallelism
        return context.parallelize(range(count), count).mapPartitions(task).collect()

    async def in_time() -> list[Seen]:
        async with asyncio.timeout(EXECUTORS_S):
            return await watched(spark, collected, lambda _: None)

    try:
        return asyncio.run(in_time())
    except TimeoutError as error:
        raise Unavailable(
            f"no executor of {context.master} did a task within {EXECUTORS_S:.0f} s",
            hint=WORKERS_HINT,
        ) from error
    except (PySparkException, Py4JError) as error:
        raise ConfigError(
            f"executors can't do a task of {sys.executable}: {said(error)}", hint=ENVIRONMENT_HINT
        ) from error


def said(error: Exception) -> str:
    """What Spark says of it, without stack traces."""
    found = getattr(error, "java_exception", None)
    text = str(found.getMessage() if found is not None else error)
    return text.strip().partition("\n")[0]
