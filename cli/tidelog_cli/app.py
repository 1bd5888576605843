"""The commands of `tidelog` and their options. What a command does is in the module of its name."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from tidelog import logs
from tidelog.actor import first_error
from tidelog.errors import EXIT_RESTART, BadInput, Refused, TidelogError, exit_code
from tidelog_cli import (
    capture,
    demo,
    inspect,
    kept,
    resolve,
    state_file,
    status,
    tail,
    up,
    wait,
)
from tidelog_cli import (
    feed as feeds,
)
from tidelog_cli.connect import connected, nodes, pump_addresses
from tidelog_cli.state_file import TopologyState

WATCH_S = 1.0
PIPED_WIDTH = 200
"""Of a table that goes into a file or another program."""

app = typer.Typer(
    help="Change streams from a TiDB-style database.",
    epilog="Exit codes: 0 done; 2 an unknown option; 64 input that can't be used, or a directory "
    "in use; 69 no topology answers, or the time is over; 70 a typed stop, or damage found; "
    "78 a wrong configuration.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
feed_app = typer.Typer(help="Feeds.", no_args_is_help=True)
app.add_typer(feed_app, name="feed")
capture_app = typer.Typer(help="Recorded streams of binlogs.", no_args_is_help=True)
app.add_typer(capture_app, name="capture")

console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)
errors = Console(stderr=True)
Dir = Annotated[Path | None, typer.Option("--dir", help="Directory of the topology.")]
Nats = Annotated[str, typer.Option("--nats", help="NATS URL of the topology, instead of --dir.")]
Cluster = Annotated[str, typer.Option(help="Cluster name, with --nats.")]
Feed = Annotated[str, typer.Option(help="Feed name, with --nats.")]
Json = Annotated[bool, typer.Option("--json", help="For machines.")]


def emit(value: Any) -> None:
    """One JSON line on standard output."""
    print(msgspec.json.encode(value).decode(), flush=True)  # noqa: T201


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command; an error is one line, a second says what to do next; and its exit code."""
    logs.configure("auto", "error")
    try:
        code = asyncio.run(work)
    except TidelogError as error:
        fail(error)
    except BaseExceptionGroup as group:
        fail(first_error(group))
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    else:
        raise typer.Exit(code)


def fail(error: BaseException) -> None:
    if not isinstance(error, TidelogError):
        raise error
    say(Text.assemble((f"{type(error).__name__}: ", "red"), " ".join(error.message.split())))
    if error.hint:
        say(Text(f"  try: {error.hint}"))
    raise typer.Exit(exit_code(error))


def say(line: Text) -> None:
    """A line on standard error, never wrapped: it may be grepped for, or hold a path to copy."""
    errors.print(line, highlight=False, soft_wrap=True)


def until_signal(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


@app.command("up")
def up_command(
    directory: Annotated[Path, typer.Option("--dir", help="Where everything is kept.")],
    downstream: Annotated[str, typer.Option(help="sqlite:////PATH or mysql://USER:PW@HOST:PORT/")],
    pumps: Annotated[int, typer.Option(min=1, max=64)] = 2,
    ddl_history: Annotated[
        str, typer.Option(help="file:PATH, http://HOST:PORT or embedded")
    ] = "embedded",
    oracle: Annotated[str, typer.Option(help="embedded or follow")] = "embedded",
    initial_commit_ts: Annotated[
        int, typer.Option(min=-1, help="0 = all that the Pumps hold, -1 = now")
    ] = 0,
    start_ts: Annotated[
        int, typer.Option(min=0, help="Where a feed goes on whose position nothing tells.")
    ] = 0,
    accept_loss: Annotated[
        bool, typer.Option("--accept-loss", help="It may go on where it was last pulled.")
    ] = False,
    cluster_id: Annotated[int, typer.Option(min=0, help="The upstream's cluster id; 0 = any.")] = 0,
    feed: Annotated[str, typer.Option(help="Name of the feed.")] = "main",
    as_json: Json = False,
) -> None:
    """Run a whole topology in the foreground until SIGTERM or Ctrl-C.

    Ready (with --json: one line) means that the Pumps take writes. A feed that stopped or a
    downstream that can't be reached holds it up for 10 s at most: what is written is kept for
    them. Standard error says for whom a start waits, and each error of a node that comes or goes.
    """

    async def work() -> int:
        options = up.options(
            directory,
            downstream,
            pumps=pumps,
            ddl_history=ddl_history,
            oracle=oracle,
            initial_commit_ts=initial_commit_ts,
            start_ts=start_ts,
            accept_loss=accept_loss,
            cluster_id=cluster_id,
            feed=feed,
        )
        stop = asyncio.Event()
        until_signal(stop)
        with errors.status(f"starting in {options.directory}") as shown:

            def ready(state: TopologyState) -> None:
                shown.stop()
                if as_json:
                    emit(up.ready_line(state))
                else:
                    up.greet(console, options.directory, state)

            await up.run(options, stop, ready, lambda line: say(Text(line, "yellow")))
        return 0

    run(work())


@app.command("status")
def status_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    feed: Feed = "main",
    watch: Annotated[bool, typer.Option("--watch", help="Again each second.")] = False,
    as_json: Json = False,
) -> None:
    """Nodes, positions and lags."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:

            async def look() -> status.Report:
                return status.report(await nodes(bus, state.cluster), state.feed)

            if as_json:
                emit(await look())
                return 0
            if not watch:
                console.print(status.render(await look()))
                return 0
            stop = asyncio.Event()
            until_signal(stop)
            with Live(status.render(await look()), console=console) as live:
                while not stop.is_set():
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(stop.wait(), WATCH_S)
                    live.update(status.render(await look()))
            return 0

    run(work())


@app.command("tail")
def tail_command(
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    feed: Feed = "main",
    table: Annotated[str, typer.Option(help="Only this table (name or db.name).")] = "",
    after: Annotated[int, typer.Option(help="From this commit_ts on; -1 = all that is kept.")] = -1,
    watermarks: Annotated[bool, typer.Option(help="Show watermarks too.")] = False,
    until_idle: Annotated[bool, typer.Option(help="End when nothing is left to read.")] = False,
    as_json: Json = False,
) -> None:
    """The change stream, a line an event; of a stopped topology, what its directory keeps."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with kept.reading(None if nats else directory, state) as (bus, runs):
            found = tail.follow(
                bus,
                state.feed,
                after=None if after < 0 else after,
                table=table,
                watermarks=watermarks,
                until_idle=until_idle or not runs,
            )
            async for line in found:
                if as_json:
                    emit(line)
                else:
                    console.print(tail.as_text(line), highlight=False, markup=False, soft_wrap=True)
        return 0

    run(work())


@app.command("wait")
def wait_command(
    commit_ts: Annotated[int, typer.Option(help="What the downstream must hold.")],
    timeout: Annotated[float, typer.Option(help="Seconds.")] = 60.0,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    feed: Feed = "main",
    as_json: Json = False,
) -> None:
    """Return 0 once the downstream holds everything up to a commit_ts."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, feed)
        async with connected(state) as bus:
            with errors.status(f"waiting for {commit_ts}") as shown:
                reached = await wait.applied(
                    bus,
                    state.cluster,
                    state.feed,
                    commit_ts,
                    timeout,
                    lambda ts: shown.update(f"waiting for {commit_ts}, at {ts}"),
                )
        if as_json:
            emit({"applied_ts": reached})
        return 0

    run(work())


@app.command("resolve")
def resolve_command(
    start_ts: Annotated[int, typer.Argument(help="The transaction.", min=1)],
    commit: Annotated[int | None, typer.Option(help="It committed at this timestamp.")] = None,
    rollback: Annotated[bool, typer.Option("--rollback", help="It never committed.")] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="It came late: readers past it may miss it.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    as_json: Json = False,
) -> None:
    """Say what became of a transaction that `status` shows as open or late."""

    async def work() -> int:
        verdict = resolve.choose(commit, rollback=rollback, accept=accept)
        state = state_file.find(directory, nats, cluster, "")
        async with connected(state) as bus:
            done = await resolve.resolve(
                bus, state.cluster, start_ts, verdict, commit or 0, confirming(yes=yes)
            )
        if as_json:
            emit(done)
        for node, said in sorted(done.pumps.items()):
            say(Text(f"{node}: transaction {start_ts} {resolve.became(said)}"))
        return 0

    run(work())


@feed_app.command("forget")
def forget_command(
    name: Annotated[str, typer.Argument(help="The feed.")],
    yes: Annotated[bool, typer.Option("--yes", help="Don't ask.")] = False,
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    as_json: Json = False,
) -> None:
    """Let the Pumps forget a feed that nobody reads: it holds nothing back any more."""

    async def work() -> int:
        state = state_file.find(directory, nats, cluster, "")
        async with connected(state) as bus:
            done = await feeds.forget(bus, state.cluster, name, confirming(yes=yes))
        if as_json:
            emit(done)
        for node, after_ts in sorted(done.pumps.items()):
            say(Text(f"{node}: feed {name} had read up to {after_ts}, forgotten"))
        for node in done.silent:
            say(Text(f"{node}: does not answer, and knows it still: forget it again later"))
        return 0

    run(work())


def confirming(*, yes: bool) -> Callable[[str], None]:
    """Asks, unless `yes`; raises if nobody agrees."""

    def confirm(question: str) -> None:
        if not yes and not sys.stdin.isatty():
            raise BadInput("nobody is there to confirm", hint="--yes")
        if not yes and not typer.confirm(question, err=True):
            raise Refused("left as it is")

    return confirm


@app.command("inspect")
def inspect_command(
    path: Annotated[
        Path | None, typer.Argument(help="A segment file, or a Pump's data directory.")
    ] = None,
    directory: Dir = None,
    ts: Annotated[int, typer.Option(help="Show the records of this timestamp.")] = 0,
    as_json: Json = False,
) -> None:
    """Read segment files, of a Pump that runs too: what is in them, and the first bad record."""

    async def work() -> int:
        found = inspect.inspect(path or directory or Path("tidelog-data"), ts)
        if as_json:
            emit(found)
        else:
            for line in inspect.lines(found):
                console.print(line, highlight=False, soft_wrap=True)
        return EXIT_RESTART if found.bad else 0

    run(work())


@capture_app.command("replay")
def replay_command(
    file: Annotated[Path, typer.Argument(help="tidb_to_pump.bin or .bin.xz", exists=True)],
    directory: Dir = None,
    nats: Nats = "",
    cluster: Cluster = "default",
    grpc: Annotated[
        list[str] | None, typer.Option(help="A Pump's gRPC address, instead of --dir.")
    ] = None,
    cluster_id: Annotated[int, typer.Option(help="Default: as the capture's meta file says.")] = 0,
    as_json: Json = False,
) -> None:
    """Send a capture to the Pumps, in its order, each record after the ack of the one before."""

    async def work() -> int:
        payloads = list(capture.records(file))
        of = cluster_id or capture.cluster_id(file)
        pumps = grpc or await _grpc_addresses(directory, nats, cluster)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        async with capture.Replayer(pumps, of) as replayer:
            with Progress(*columns, console=errors) as progress:
                bar = progress.add_task("replaying", total=len(payloads))
                for payload in payloads:
                    await replayer.send(payload)
                    progress.advance(bar)
        done = replayer.result()
        if as_json:
            emit(done)
        else:
            console.print(
                f"{done.sent} records, {done.transactions} commits up to {done.max_commit_ts}"
            )
        return 0

    run(work())


async def _grpc_addresses(directory: Path | None, nats: str, cluster: str) -> list[str]:
    """Of the topology's Pumps: as `up` wrote them down, or as the registry knows them."""
    state = state_file.find(directory, nats, cluster, "")
    if state.pumps:
        return [pump.grpc for pump in state.pumps]
    async with connected(state) as bus:
        return pump_addresses(await nodes(bus, cluster))


@app.command("demo")
def demo_command(
    seconds: Annotated[float, typer.Option(help="How long the workload runs.")] = 20.0,
    rate: Annotated[int, typer.Option(help="Transactions a second.")] = 200,
    keep: Annotated[Path | None, typer.Option(help="Keep everything in this directory.")] = None,
    as_json: Json = False,
) -> None:
    """Everything embedded: a workload, a crash on the way, a verdict that compares both sides."""
    run(demo.run(seconds, rate, keep, None if as_json else console, emit if as_json else None))
