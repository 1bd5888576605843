"""`tidelog backfill`: its options."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.bulk.jobs import BackfillJob
from tidelog.errors import TidelogError
from tidelog_cli import bulk
from tidelog_cli.commands import bulk_options
from tidelog_cli.commands.bulk_options import (
    CheckpointTable,
    Detach,
    Downstream,
    Local,
    Master,
    Memory,
    Name,
    Node,
    Parquet,
    Parts,
    Spark,
    Tables,
    Where,
    place,
    timestamp,
)
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, fail


def backfill_command(
    source: Annotated[
        str,
        typer.Option(
            envvar="TIDELOG_BACKFILL_SOURCE",
            help="mysql://USER@HOST:PORT/ of TiDB, MySQL or MariaDB, or a directory of dump files.",
        ),
    ],
    downstream: Downstream = "",
    parquet: Parquet = "",
    to_feed: Annotated[
        bool, typer.Option("--to-feed", help="Into the stream SNAP_<FEED> instead.")
    ] = False,
    tables: Tables = None,
    snapshot: Annotated[
        str, typer.Option(help="Copy the tables as at this timestamp or time; now, if none.")
    ] = "",
    chunk_rows: Annotated[int, typer.Option(min=1, help="Rows of one task, about.")] = 100_000,
    rows_per_s: Annotated[int, typer.Option(min=0, help="At most; 0 = as fast as it goes.")] = 0,
    feed: Name = "main",
    checkpoint_table: CheckpointTable = "tidb_binlog.checkpoint",
    local: Local = False,
    master: Master = "local[*]",
    memory: Memory = "1g",
    spark: Spark = None,
    parts: Parts = 0,
    node: Node = bulk.NODE,
    detach: Detach = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """Copy whole tables as they are at one timestamp. The feed's stream goes on from there."""
    where = Where(
        local=local, node=node, detach=detach, directory=directory, nats=nats, cluster=cluster
    )
    try:
        job = BackfillJob(
            source=place(source),
            downstream=downstream,
            parquet=place(parquet),
            to_feed=to_feed,
            tables=tuple(tables or ()),
            snapshot_ts=timestamp(snapshot, "--snapshot"),
            chunk_rows=chunk_rows,
            rows_per_s=rows_per_s,
            feed=feed,
            checkpoint_table=checkpoint_table,
            parts=parts,
            spark=bulk_options.settings(master, memory, spark or ()),
            **where.known(),
        )
    except TidelogError as error:
        fail(error)
    where.carry_out(job, as_json=as_json)
