"""`tidelog` and its commands. Each stands in the module of its name in `commands`; what it does, in
one of that name beside this one."""

from __future__ import annotations

import typer

from tidelog_cli.commands import (
    backfill,
    capture,
    ddl,
    demo,
    feed,
    inspect,
    jobs,
    nodes,
    operate,
    replay,
    resolve,
    status,
    tail,
    up,
    verify,
    wait,
    watch,
)

app = typer.Typer(
    help="Change streams from a TiDB-style database.",
    epilog="Exit codes: 0 done; 1 refused, or what was compared differs; 2 an unknown option; 64 "
    "input that can't be used, or a directory in use; 69 no topology answers, or the time is over; "
    "70 a typed stop, or damage found; 78 a wrong configuration.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("up")(up.up_command)
app.command("status")(status.status_command)
for name, command in nodes.COMMANDS.items():
    app.command(name)(command)
app.command("pause")(operate.pause_command)
app.command("resume")(operate.resume_command)
app.command("offline")(operate.offline_command)
app.command("watch")(watch.watch_command)
app.command("tail")(tail.tail_command)
app.command("wait")(wait.wait_command)
app.command("verify")(verify.verify_command)
app.command("resolve")(resolve.resolve_command)
app.command("inspect")(inspect.inspect_command)
app.command("replay")(replay.replay_command)
app.command("backfill")(backfill.backfill_command)
app.command("demo")(demo.demo_command)
app.add_typer(ddl.app, name="ddl")
app.add_typer(feed.app, name="feed")
app.add_typer(capture.app, name="capture")
app.add_typer(jobs.app, name="jobs")
