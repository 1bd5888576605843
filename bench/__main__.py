"""`python -m bench [NAME…] [--json FILE] [--quick] [--changes N] [--profile SERVICE]`.

Names: limits, tso, pump, pull, rebuild, drain, idle, backlog, apply, latency; only by name memory,
and replay on Spark, which take minutes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path

import uvloop
from rich.console import Console

from bench import (
    apply,
    apply_memory,
    backlog,
    chart,
    drain,
    idle,
    latency,
    limits,
    limits_sql,
    memory,
    pull,
    pump,
    rebuild,
    replay,
    report,
    tso,
)
from bench.figure import Figure, Limit
from bench.replay_cases import CASES
from bench.stage import OUT
from tests.servers import MariaDb, mariadb_server, nats_server
from tidelog.logs import configure

NAMES = ("limits", "tso", "pump", "pull", "rebuild", "drain", "idle", "backlog", "apply", "latency")
BY_NAME = ("memory", "replay")
WIDTH = 170
"""Of the tables in a log."""
MARIADB = ("--innodb-buffer-pool-size=512M", "--innodb-log-file-size=512M")


def arguments(argv: list[str]) -> Namespace:
    parser = ArgumentParser("python -m bench", formatter_class=ArgumentDefaultsHelpFormatter)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"of {', '.join(NAMES)}: all if none; or {', '.join(BY_NAME)}",
    )
    parser.add_argument("--quick", action="store_true", help="a quarter of the time")
    parser.add_argument(
        "--changes", type=int, default=0, help="of `replay`, in its first log; 0 = 5 million"
    )
    parser.add_argument("--json", type=Path, default=OUT / "bench.json", help="where to")
    parser.add_argument("--svg", type=Path, default=OUT / "bench.svg", help="where to")
    parser.add_argument("--dir", type=Path, help="where to put the servers' data (a real disk)")
    parser.add_argument(
        "--profile", default="", metavar="SERVICE", help="watch pump, drainer or applier by py-spy"
    )
    chosen = parser.parse_args(argv)
    unknown = [name for name in chosen.names if name not in NAMES + BY_NAME]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(NAMES + BY_NAME)}")
    if chosen.profile and shutil.which("py-spy") is None:
        parser.error("--profile needs py-spy in PATH (pip install py-spy)")
    return chosen


class Bench:
    """One run: the limits first, then what was asked for beside them."""

    def __init__(self, console: Console, args: Namespace, directory: Path) -> None:
        self._console = console
        self._names = args.names or list(NAMES)
        self._directory = directory
        self._share = 0.25 if args.quick else 1.0
        self._replayed = args.changes / CASES[0].shape.changes if args.changes else self._share
        self._profile = args.profile
        self._servers = ExitStack()
        self._db: MariaDb | None = None
        self.limits: dict[str, Limit] = {}
        self.figures: list[Figure] = []

    @property
    def db(self) -> MariaDb:
        """The private MariaDB, started when first needed."""
        if self._db is None:
            self._db = self._servers.enter_context(mariadb_server(self._directory, *MARIADB))
        return self._db

    def _wants(self, *names: str) -> bool:
        return any(name in self._names for name in names)

    def _say(self, text: str) -> None:
        self._console.print(f"[dim]{text} …[/]", highlight=False)

    async def run(self) -> None:
        with self._servers:
            await self._measure_limits()
            for name, measure, share in (
                ("tso", tso.measure, self._share),
                ("pump", pump.measure, 3 * self._share),
                ("pull", pull.measure, self._share),
                ("rebuild", rebuild.measure, self._share),
                ("drain", drain.measure, self._share),
                ("idle", idle.measure, self._share),
                ("memory", memory.measure, self._share),
            ):
                if self._wants(name):
                    self._say(name)
                    place = self._directory / name
                    self.figures += await measure(place, self.limits, share, self._profile)
            for name, into_sql, share in (
                ("backlog", backlog.measure, self._share),
                ("apply", apply.measure, self._share),
                ("latency", latency.measure, self._share),
                ("replay", replay.measure, self._replayed),
            ):
                if self._wants(name):
                    self._say(name)
                    place = self._directory / name
                    self.figures += await into_sql(
                        place, self.db, self.limits, share, self._profile
                    )

            if self._wants("memory"):
                self._say("memory of an Applier")
                place = self._directory / "apply-memory"
                self.figures += await apply_memory.measure(
                    place, self.db, self._share, self._profile
                )

    async def _measure_limits(self) -> None:
        seconds = 2 * self._share
        self._say("limits of this machine")
        self.limits |= limits.disk(self._directory, seconds)
        with nats_server(self._directory / "limits") as server:
            self.limits |= await limits.rpc(server.url, seconds)
            self.limits |= await limits.jetstream(server.url, seconds)
        await limits.settle()
        if self._wants("limits", "backlog", "latency"):
            self.limits |= await limits_sql.replace(self.db, int(200_000 * self._share))
            await limits.settle()


async def main(args: Namespace, console: Console) -> None:
    with tempfile.TemporaryDirectory(prefix="tidelog-bench-", dir=args.dir) as place:
        bench = Bench(console, args, Path(place))
        try:
            await bench.run()
        finally:
            # What was measured before an error is worth having.
            found = list(bench.limits.values())
            report.show(console, found, bench.figures)
            report.write_json(args.json, found, bench.figures)
            if bench.figures:
                args.svg.parent.mkdir(parents=True, exist_ok=True)
                args.svg.write_text(chart.svg(bench.figures), encoding="utf-8")


if __name__ == "__main__":
    configure("auto", "warning")
    terminal = Console()
    wide = terminal if terminal.is_terminal else Console(width=WIDTH)
    uvloop.run(main(arguments(sys.argv[1:]), wide))
