"""`tidelog jobs`, `tidelog jobs ID`, `tidelog jobs cancel ID`: a backfill service's jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text
from typer.core import TyperGroup

from tidelog.bulk.control import DONE, ENDED, JobStatus
from tidelog.real.bus import NatsBus
from tidelog_cli import bulk
from tidelog_cli.commands import bulk_options
from tidelog_cli.commands.bulk_options import Node
from tidelog_cli.connect import on_cluster
from tidelog_cli.terminal import Cluster, Dir, Json, Nats, console, emit, say


class _Named(TyperGroup):
    """`tidelog jobs ID` is `tidelog jobs show ID`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        is_job = args and args[0] not in self.commands and not args[0].startswith("-")
        return super().resolve_command(ctx, ["show", *args] if is_job else args)


app = typer.Typer(help="Jobs of a backfill service.", cls=_Named, invoke_without_command=True)
Job = Annotated[str, typer.Argument(help="The job.")]


@app.callback()
def jobs_command(
    context: typer.Context,
    node: Node = bulk.NODE,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """All that it knows, or with an ID that one, live until it ends."""
    if context.invoked_subcommand is not None:
        context.default_map = {context.invoked_subcommand: context.params}
        return

    async def work(bus: NatsBus, of: str) -> None:
        found = await bulk.Service(bus, of, node).jobs()
        if as_json:
            emit(found)
        else:
            console.print(table(found))

    on_cluster(directory, nats, cluster, work)


@app.command("show")
def show_command(
    job: Job,
    node: Node = bulk.NODE,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """One job; live, until it ends. With --json: as it is now."""

    async def work(bus: NatsBus, of: str) -> None:
        service = bulk.Service(bus, of, node)
        (status,) = await service.jobs(job)
        if as_json:
            emit(status)
            return
        if status.state not in ENDED:
            status = await bulk_options.followed(service, job)
        bulk_options.print_report(bulk.outcome(status), as_json=False)

    on_cluster(directory, nats, cluster, work)


@app.command("cancel")
def cancel_command(
    job: Job,
    node: Node = bulk.NODE,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "",
    as_json: Json = False,
) -> None:
    """End a job. What it has written stays; submitted again, it goes on there."""

    async def work(bus: NatsBus, of: str) -> None:
        status = await bulk.Service(bus, of, node).cancel(job)
        if as_json:
            emit(status)
        else:
            say(Text(f"job {status.id} is {status.state}"))

    on_cluster(directory, nats, cluster, work)


def table(found: list[JobStatus]) -> Table:
    shown = Table(box=None)
    for column in ("JOB", "KIND", "STATE", "SUBMITTED", "HOW FAR"):
        shown.add_column(column)
    for status in found:
        far = status.error
        if status.state == DONE and status.report is not None:
            far = f"{status.report.rows:,} rows, up to {status.report.commit_ts}"
        elif not far and status.progress is not None:
            far = f"{status.progress.stage} {bulk_options.line(status.progress)}"
        at = datetime.fromtimestamp(status.submitted / 1000, UTC)
        shown.add_row(status.id, status.kind, status.state, f"{at:%Y-%m-%d %H:%M:%S}", Text(far))
    return shown
