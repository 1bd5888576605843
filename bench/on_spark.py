"""One measurement on Spark: `python -m bench.on_spark FILE`, a process with a JVM of its own.

FILE is an `Asked` as JSON; prints a `Ran`. With the compiled codecs in PYTHONPATH it, and the
workers it starts, measure those. The session's start is not in the time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from bench.alone import FEED
from tidelog.bulk.jobs import ReplayJob, SparkSettings
from tidelog.rows import row
from tidelog_backfill.replay.run import replay
from tidelog_backfill.session import spark
from tidelog_backfill.source import TidelogSource

BATCH_ROWS = 5000
"""Of the JDBC writer, as many as the replay puts into a transaction."""
MEMORY = "2g"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """Of the relay or Pump's `log`, whose rows the DDL `history` names if need be. `read`: all
    changes, decoded, and thrown away. `replay`: into the database `url`, which holds
    everything up to `after`. `jdbc`: the rows that remain of the one table, `host`, by Spark's own
    writer with the driver `jar`. `events`: a directory for Spark's log of events."""

    what: Literal["read", "replay", "jdbc"]
    cores: int
    log: str
    history: str = ""
    events: str = ""
    url: str = ""
    after: int = 0
    table: str = ""
    host: str = ""
    user: str = ""
    password: str = ""
    jar: str = ""


class Ran(msgspec.Struct, frozen=True):
    """`shuffled`: bytes that tasks wrote for others."""

    seconds: float
    compiled: bool
    shuffled: int = 0


class _Metrics(msgspec.Struct):
    written: dict[str, int] = msgspec.field(name="Shuffle Write Metrics", default_factory=dict)


class _Event(msgspec.Struct):
    kind: str = msgspec.field(name="Event")
    metrics: _Metrics | None = msgspec.field(name="Task Metrics", default=None)


def shuffled(lines: Iterable[str]) -> int:
    """By a log of Spark's events: what the ended tasks say."""
    events = (msgspec.json.decode(line, type=_Event) for line in lines)
    return sum(
        event.metrics.written.get("Shuffle Bytes Written", 0)
        for event in events
        if event.kind == "SparkListenerTaskEnd" and event.metrics is not None
    )


def _lines(directory: Path) -> Iterator[str]:
    for path in directory.glob("[!.]*"):  # the others are checksums
        with path.open(encoding="utf-8") as file:
            yield from file


def run(asked: Asked) -> Ran:
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(asked.events).as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    if asked.jar:
        settings["spark.jars"] = asked.jar
    chosen = SparkSettings(master=f"local[{asked.cores}]", memory=MEMORY, settings=settings)
    session = spark(chosen, name=f"bench {asked.what}")
    session.dataSource.register(TidelogSource)
    session.range(asked.cores).mapInArrow(lambda batches: batches, "id bigint").count()
    began = time.perf_counter()
    match asked.what:
        case "read":
            _thrown_away(session, asked)
        case "replay":
            _replayed(session, asked, chosen)
        case "jdbc":
            _by_jdbc(session, asked)
    seconds = time.perf_counter() - began
    session.stop()
    is_compiled = str(row.__file__).endswith(".so")
    return Ran(seconds, is_compiled, shuffled(_lines(Path(asked.events))))


def _changes(session: SparkSession, asked: Asked, **options: str) -> DataFrame:
    named = {"ddl-history": asked.history} | options
    return session.read.format("tidelog").options(**named).load(asked.log)


def _thrown_away(session: SparkSession, asked: Asked) -> None:
    _changes(session, asked).write.format("noop").mode("overwrite").save()


def _replayed(session: SparkSession, asked: Asked, chosen: SparkSettings) -> None:
    job = ReplayJob(
        inputs=(asked.log,),
        downstream=asked.url,
        feed=FEED,
        start_ts=asked.after,
        spark=chosen,
    )
    replay(session, job, lambda _: None)


def _by_jdbc(session: SparkSession, asked: Asked) -> None:
    """It only inserts: what Spark finds to be a row's last version goes into an empty table."""
    changes = _changes(session, asked, table=asked.table)
    version = next(name for name in changes.columns if name.startswith("version"))
    newest = sql.max_by(sql.struct(*changes.columns), version).alias("row")
    rows = changes.groupBy("id").agg(newest).select("row.*").drop("commit_ts", "op")
    # The dialect that quotes names as MariaDB does is that of MySQL's URLs.
    rows.write.mode("append").jdbc(
        f"jdbc:mysql://{asked.host}/?permitMysqlScheme=true&useBulkStmts=true",
        asked.table,
        properties={
            "driver": "org.mariadb.jdbc.Driver",
            "user": asked.user,
            "password": asked.password,
            "batchsize": str(BATCH_ROWS),
        },
    )


if __name__ == "__main__":
    given = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Asked)
    sys.stdout.write(msgspec.json.encode(run(given)).decode() + "\n")
