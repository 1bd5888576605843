"""`tidelog replay`: its options."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tidelog.bulk.jobs import ReplayJob
from tidelog.errors import BadInput, ConfigError, TidelogError
from tidelog_cli import bulk, hand_over
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
    Shown,
    Spark,
    Tables,
    Where,
    place,
    timestamp,
)
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, fail, run

FEED = "main"
CHECKPOINT_TABLE = "tidb_binlog.checkpoint"


def replay_command(
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input", help="A relay's, a Pump's or pb files' directory; again for more Pumps."
        ),
    ] = None,
    ddl_history: Annotated[
        str, typer.Option(help="For Pumps' logs: file:PATH, http://HOST:PORT of a TiDB, embedded.")
    ] = "",
    downstream: Downstream = "",
    parquet: Parquet = "",
    until: Annotated[str, typer.Option(help="The last commit_ts to write, or a time (UTC).")] = "",
    start: Annotated[
        str, typer.Option(help="A downstream without a checkpoint holds everything up to there.")
    ] = "",
    tables: Tables = None,
    rules: Annotated[
        Path | None, typer.Option(help="TOML file with the Drainer's filters and DDL policies.")
    ] = None,
    on_corrupt: Annotated[
        str, typer.Option(help="stop, or skip: damaged records are passed by and counted.")
    ] = "stop",
    of: Annotated[
        str, typer.Option(help="Hand over an Applier's backlog: its relay, its downstream.")
    ] = "",
    applier_config: Annotated[
        Path | None, typer.Option(help="With --of: its configuration, if `up` did not write it.")
    ] = None,
    feed: Name = FEED,
    checkpoint_table: CheckpointTable = CHECKPOINT_TABLE,
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
    """Write days of logs into a database, or Parquet, at once: last write per key between DDLs. At
    its end the feed's stream goes on from there."""
    where = Where(
        local=local, node=node, detach=detach, directory=directory, nats=nats, cluster=cluster
    )
    try:
        chosen: dict[str, Any] = {
            "spark": bulk_options.settings(master, memory, spark or ()),
            "parts": parts,
            "until_ts": timestamp(until, "--until"),
            "on_corrupt": _on_corrupt(on_corrupt),
        }
        if of:
            own = (inputs, downstream, parquet, tables, rules, ddl_history, start)
            if any(own) or feed != FEED or checkpoint_table != CHECKPOINT_TABLE:
                raise BadInput("--of has its input, its target and its feed from the Applier")
            given = hand_over.settings(of, applier_config, directory)
            run(_handed_over(where, of, given, given.job(chosen), as_json=as_json))
        job = ReplayJob(
            inputs=tuple(map(place, inputs or ())),
            ddl_history=place(ddl_history) if ddl_history.startswith("file:") else ddl_history,
            downstream=downstream,
            parquet=place(parquet),
            start_ts=timestamp(start, "--start"),
            tables=tuple(tables or ()),
            rules=_rules(rules),
            feed=feed,
            checkpoint_table=checkpoint_table,
            **where.known(),
            **chosen,
        )
    except TidelogError as error:
        fail(error)
    where.carry_out(job, as_json=as_json)


async def _handed_over(
    where: Where, node: str, given: hand_over.Given, job: ReplayJob, *, as_json: bool
) -> int:
    with Shown(as_json=as_json) as shown:
        env = bulk_options.environment(given.password)
        report = await hand_over.hand_over(where.topology(), node, job, env, shown.told)
    return bulk_options.print_report(report, as_json=as_json)


def _on_corrupt(text: str) -> Literal["stop", "skip"]:
    if text == "skip":
        return "skip"
    if text != "stop":
        raise ConfigError(f"--on-corrupt {text!r}", hint="stop or skip")
    return "stop"


def _rules(path: Path | None) -> dict[str, Any]:
    if path is None:
        return {}
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} can't be read: {error}") from error
