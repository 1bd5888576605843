"""What `tidelog replay` and `tidelog backfill` share: options, progress, where the job is done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tidelog.bulk import told
from tidelog.bulk.control import RUNNING, JobStatus
from tidelog.bulk.jobs import Job, SparkSettings
from tidelog.errors import ConfigError, Unavailable
from tidelog.timestamps import moment, parse_ts
from tidelog_cli import bulk, state_file
from tidelog_cli.connect import connected
from tidelog_cli.state_file import TopologyState
from tidelog_cli.terminal import console, emit, errors, run, say

Downstream = Annotated[
    str,
    typer.Option(
        envvar="TIDELOG_BACKFILL_DOWNSTREAM", help="mysql://USER@HOST:PORT/?password_file=FILE"
    ),
]
Parquet = Annotated[str, typer.Option(help="Write Parquet files into this directory instead.")]
Tables = Annotated[
    list[str] | None, typer.Option(help="DB.TABLE with wildcards; again for more. All if none.")
]
Local = Annotated[bool, typer.Option("--local", help="Do it here, in a process of its own.")]
Node = Annotated[str, typer.Option(help="The backfill service that shall do it.")]
Detach = Annotated[bool, typer.Option("--detach", help="Submit it, and don't wait.")]
Master = Annotated[str, typer.Option(help="Spark's master: local[2], or a cluster's URL.")]
Memory = Annotated[str, typer.Option(help="Of Spark's JVM.")]
Spark = Annotated[
    list[str] | None, typer.Option("--spark", help="KEY=VALUE of Spark's own; again for more.")
]
Parts = Annotated[
    int, typer.Option(min=0, help="Connections that write at most; 0 = one per core.")
]
Name = Annotated[str, typer.Option(help="The feed whose stream goes on after it.")]
CheckpointTable = Annotated[str, typer.Option(help="Where the downstream's checkpoint is.")]


def timestamp(text: str, option: str) -> int:
    """Digits or a time. Raises ConfigError."""
    try:
        return parse_ts(text) if text else 0
    except ValueError as error:
        raise ConfigError(
            f"{option} {text!r}: {error}", hint="a commit_ts, or 2026-01-31T12:00:00"
        ) from error


def settings(master: str, memory: str, given: Sequence[str]) -> SparkSettings:
    own = dict(one.partition("=")[::2] for one in given)
    return SparkSettings(master=master, memory=memory, settings=own)


def place(text: str) -> str:
    """A path of this machine as any process of it finds it; URLs as they are."""
    scheme, found, rest = text.partition(":")
    if not found:
        return str(Path(text).resolve()) if text else text
    return f"file:{Path(rest).resolve()}" if scheme == "file" and rest[:2] != "//" else text


class Where:
    """Where a job is done, and by whom."""

    def __init__(
        self,
        *,
        local: bool,
        node: str,
        detach: bool,
        directory: Path | None,
        nats: str,
        cluster: str,
    ) -> None:
        self.local = local
        self._node = node
        self._detach = detach
        self._directory = directory
        self._nats = nats
        self._cluster = cluster

    def topology(self) -> TopologyState:
        """Raises Unavailable."""
        return state_file.find(self._directory, self._nats, self._cluster, "")

    def known(self) -> dict[str, Any]:
        """What a job has to know of a topology, if one is named."""
        try:
            state = self.topology()
        except Unavailable:
            if not self.local:
                raise
            return {}
        return {
            "nats_url": state.nats,
            "cluster": state.cluster,
            "cluster_id": state.cluster_id,
            **msgspec.structs.asdict(state.access),
        }

    def carry_out(self, job: Job, *, as_json: bool) -> None:
        """Ends the process, as `run` does."""
        run(self._local(job, as_json) if self.local else self._submitted(job, as_json))

    async def _local(self, job: Job, as_json: bool) -> int:
        with Shown(as_json=as_json) as shown:
            report = await bulk.do_here(job, shown.told)
        return print_report(report, as_json=as_json)

    async def _submitted(self, job: Job, as_json: bool) -> int:
        state = self.topology()
        async with connected(state) as bus:
            service = bulk.Service(bus, state.cluster, self._node)
            status = await service.submit(job)
            if self._detach:
                emit(status) if as_json else say(Text(f"job {status.id} is {status.state}"))
                return 0
            status = await followed(service, status.id, as_json=as_json)
        return print_report(bulk.outcome(status), as_json=as_json)


async def followed(service: bulk.Service, job_id: str, *, as_json: bool = False) -> JobStatus:
    """With a progress bar. Left by Ctrl-C, the job goes on."""
    say(Text(f"job {job_id}", "dim"))
    try:
        with Shown(as_json=as_json) as shown:
            return await service.follow(job_id, shown.status)
    except asyncio.CancelledError:
        say(
            Text(
                f"job {job_id} goes on: `tidelog jobs {job_id}` shows it,"
                f" `tidelog jobs cancel {job_id}` ends it"
            )
        )
        raise


class Shown:
    """Progress on standard error: a bar on a terminal, else a line for each stage; with `--json`
    each as a line of JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json
        self._last: told.Progress | None = None
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=errors,
            disable=as_json or not errors.is_terminal,
        )
        self._task = self._bars.add_task("waiting", total=None, told="")
        self._stage = ""

    def __enter__(self) -> Shown:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def status(self, status: JobStatus) -> None:
        if status.progress is not None and status.state == RUNNING:
            self.told(status.progress)
        elif not self._as_json:
            why = f": {status.error}" if status.error else ""
            self._says(f"{status.state}{why}", None, 0, "")

    def told(self, progress: told.Progress) -> None:
        if self._as_json:
            if progress != self._last:
                say(Text(msgspec.json.encode(progress).decode()))
            self._last = progress
            return
        self._says(progress.stage, progress.total or None, progress.done, line(progress))

    def _says(self, stage: str, total: int | None, done: int, text: str) -> None:
        self._bars.update(self._task, description=stage, total=total, completed=done, told=text)
        if not errors.is_terminal and stage != self._stage:
            say(Text(f"{stage} {text}".rstrip()))
        self._stage = stage


def line(progress: told.Progress) -> str:
    """One progress, for people."""
    parts = []
    if progress.total:
        parts.append(f"{progress.done:,} of {progress.total:,} {progress.unit}")
    if progress.segments:
        parts.append(f"segment {progress.segment} of {progress.segments}")
    if progress.rows:
        parts.append(f"{progress.rows:,} rows")
    if progress.commit_ts:
        parts.append(f"up to {moment(progress.commit_ts) or progress.commit_ts}")
    return ", ".join([*parts, *([progress.note] if progress.note else [])])


def print_report(report: told.Report, *, as_json: bool) -> int:
    """Returns the exit code."""
    if as_json:
        emit(report)
        return 0
    for text in report_lines(report):
        console.print(text, highlight=False, markup=False, soft_wrap=True)
    return 0


def report_lines(report: told.Report) -> list[str]:
    """A report, for people."""
    rate = f", {report.rows / report.seconds:,.0f} rows/s" if report.seconds else ""
    counts = f"{report.rows:,} rows of {report.tables} tables, {report.written:,} written"
    lines = [
        f"done: {counts}, {report.ddls} DDLs, {report.seconds:.0f} s{rate}",
        f"it holds everything up to {report.commit_ts} ({moment(report.commit_ts)} UTC)",
    ]
    if report.guarantee:
        lines.append(f"guarantee: {report.guarantee}")
    if report.skipped_bytes:
        lines.append(f"skipped: {report.skipped_bytes:,} bytes of damaged records")
    lines += [f"left out, {why}: {count:,}" for why, count in sorted(report.left_out.items())]
    return lines + [f"warning: {warning}" for warning in report.warnings]


def environment(password: str) -> Mapping[str, str]:
    """Of a child that writes by this password."""
    return {"TIDELOG_BACKFILL_DOWNSTREAM_PASSWORD": password} if password else {}
