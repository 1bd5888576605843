"""`tidelog` and its commands. Each stands in the module of its name in `commands`; what it does, in
one of that name beside this one."""

from __future__ import annotations

from importlib import metadata
from typing import Annotated

import typer

from tidelog_cli.access import take_access
from tidelog_cli.commands import (
    backfill,
    capture,
    certs,
    config,
    ddl,
    demo,
    doctor,
    feed,
    inspect,
    jobs,
    keys,
    nodes,
    operate,
    replay,
    resolve,
    status,
    subscribe,
    tail,
    up,
    verify,
    wait,
    watch,
    workload,
)

app = typer.Typer(
    help="Change streams from a TiDB-style database.",
    epilog="Exit codes: 0 done; 1 refused, what was compared differs, or doctor found what is "
    "wrong; 2 an unknown option; 64 input that can't be used, or a directory in use; 69 no "
    "topology answers, or the time is over; 70 a typed stop, or damage found; 78 a wrong "
    "configuration.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _say_version(asked: bool) -> None:
    if asked:
        typer.echo(f"tidelog {metadata.version('tidelog')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", help="Say it and exit.", is_eager=True, callback=_say_version),
    ] = False,
) -> None:
    """Change streams from a TiDB-style database."""


app.command("up")(up.up_command)
app.command("status")(status.status_command)
for name, command in nodes.COMMANDS.items():
    app.command(name)(command)
app.command("pause")(operate.pause_command)
app.command("resume")(operate.resume_command)
app.command("offline")(operate.offline_command)
app.command("watch")(watch.watch_command)
app.command("tail")(tail.tail_command)
app.command("subscribe")(subscribe.subscribe_command)
app.command("wait")(wait.wait_command)
app.command("verify")(verify.verify_command)
app.command("resolve")(resolve.resolve_command)
app.command("inspect")(inspect.inspect_command)
app.command("replay")(replay.replay_command)
app.command("backfill")(backfill.backfill_command)
app.command("doctor")(doctor.doctor_command)
app.command("demo")(demo.demo_command)
app.command("keys")(keys.keys_command)
app.command("certs")(certs.certs_command)
app.command("workload", context_settings=workload.SETTINGS)(workload.workload_command)
app.add_typer(ddl.app, name="ddl")
app.add_typer(feed.app, name="feed")
app.add_typer(config.app, name="config")
app.add_typer(capture.app, name="capture")
app.add_typer(jobs.app, name="jobs")
take_access(app)
