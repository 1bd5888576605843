"""`python -m tidelog.workload --nats URL --cluster c --seconds 20 --rate 200 --seed 7`."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from argparse import ArgumentDefaultsHelpFormatter, ArgumentParser, Namespace
from pathlib import Path

import msgspec
import uvloop

from tidelog.actor import first_error
from tidelog.config import ServiceConfig
from tidelog.errors import EXIT_OK, SIGNALLED, Stuck, TidelogError, exit_code
from tidelog.logs import configure
from tidelog.ports import Clock, File
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.real.ports import real_ports
from tidelog.security.access import NatsAccess
from tidelog.security.tls import TlsFiles
from tidelog.workload.config import WorkloadConfig
from tidelog.workload.ending import EndedAtOnce, Signals
from tidelog.workload.ledger import Committed
from tidelog.workload.runs import take
from tidelog.workload.workload import Workload

TLS = ("ssl_ca", "ssl_cert", "ssl_key")
PROGRESS_S = 1.0
ENDLESS_S = 10.0
"""Between two lines about a run without an end: somebody keeps them."""
FLUSH_S = 30.0


def arguments(argv: list[str], program: str) -> Namespace:
    defaults = WorkloadConfig()
    parser = ArgumentParser(program, formatter_class=ArgumentDefaultsHelpFormatter)
    nats = os.environ.get("TIDELOG_NATS_URL") or "nats://127.0.0.1:4222"
    parser.add_argument("--nats", default=nats, help="URL of the NATS server")
    for name in (*NatsAccess.__struct_fields__, *TLS):
        flag, given = name.replace("_", "-"), os.environ.get(f"TIDELOG_{name.upper()}", "")
        parser.add_argument(f"--{flag}", default=given, help="see docs/security.md")
    for name, kind, text in (
        ("cluster", str, "name of the cluster"),
        ("cluster-id", int, "what the Pumps check"),
        ("strategy", str, "range or hash"),
        ("seconds", float, "how long transactions are started; 0 = until SIGTERM"),
        ("transactions", int, "stop after so many; 0 = by time"),
        ("rate", float, "transactions per second; 0 = as fast as possible"),
        ("clients", int, "concurrent transactions"),
        ("seed", int, "0 = another run each time"),
        ("tables", int, "about so many tables at a time"),
        ("ddl-share", float, "schema changes per transaction"),
        ("rollback-share", float, "transactions that roll back"),
        ("dead-share", float, "clients that die after their Prewrite"),
        ("large-row-bytes", int, "text of a large row; 0 = none"),
        ("large-share", float, "rows that are large"),
    ):
        default = getattr(defaults, name.replace("-", "_"))
        parser.add_argument(f"--{name}", type=kind, default=default, help=text)
    parser.add_argument("--dump", type=Path, help="write the source's contents here, as JSON")
    parser.add_argument("--ledger", type=Path, help="write each commit here, a JSON line each")
    parser.add_argument(
        "--state",
        type=Path,
        help="directory of runs that follow each other: of transactions that "
        "a killed one left open the next one says that they are rolled back",
    )
    parser.add_argument(
        "--linger", type=float, default=30.0, help="seconds to wait for Pumps to ask about the dead"
    )
    return parser.parse_args(argv)


class Book:
    """The ledger as a file; written once a second, complete at the end."""

    def __init__(self, file: File | None) -> None:
        self._file = file
        self._lines: list[bytes] = []

    def add(self, committed: Committed) -> None:
        if self._file is not None:
            self._lines.append(msgspec.json.encode(committed) + b"\n")

    async def write(self) -> None:
        lines, self._lines = self._lines, []
        if self._file is not None and lines:
            await self._file.append(lines, sync=False)


async def main(args: Namespace) -> int:
    """Raises EndedAtOnce, whatever a signal cuts short."""
    signals = Signals()
    try:
        return await _main(args, signals)
    except asyncio.CancelledError as error:
        raise signals.ended() from error


async def _main(args: Namespace, signals: Signals) -> int:
    tls = TlsFiles(**{name: getattr(args, name) for name in TLS})
    state = None if args.state is None else RealDisk(args.state)
    lock, is_stuck = None if state is None else take(state), False
    access = NatsAccess(**{name: getattr(args, name) for name in NatsAccess.__struct_fields__})
    try:
        bus = await NatsBus.connect(args.nats, name="workload", timeout_s=10.0, access=access)
        try:
            ports = real_ports(ServiceConfig(cluster=args.cluster), RealDisk(Path.cwd()), bus)
            book = Book(await _open(args.ledger))
            workload = Workload(ports, _config(args, tls), book.add, state)
            signals.begins(workload)
            summary = await _play(workload, book, ports.clock, args.linger)
            signals.all_is_decided()
            if args.dump is not None:
                await _dump(workload, args.dump)
            sys.stdout.write(msgspec.json.encode(summary).decode() + "\n")
            return EXIT_OK
        except Stuck:
            is_stuck = True
            raise
        finally:
            if not is_stuck:
                await bus.close()
    finally:
        if lock is not None and not is_stuck:  # what may still write has it until the process ends
            lock.release()


async def _dump(workload: Workload, path: Path) -> None:
    contents = msgspec.json.encode(workload.source.contents())
    await RealDisk(path.parent).write_file(path.name, contents)


async def _to_the_end(args: Namespace, program: str) -> int:
    """A loop that is closed waits for its threads: for what is stuck, for ever."""
    try:
        return await main(args)
    except Stuck as error:
        code = exit_code(error)
        try:
            _tell(program, error)
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _config(args: Namespace, tls: TlsFiles) -> WorkloadConfig:
    chosen = {n: getattr(args, n) for n in WorkloadConfig.__struct_fields__ if hasattr(args, n)}
    return WorkloadConfig(**chosen, tls=tls)


async def _play(workload: Workload, book: Book, clock: Clock, linger_s: float) -> dict[str, object]:
    stop = asyncio.Event()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(workload.run(stop))
            summary = await _watch(workload, book, clock, linger_s)
            stop.set()
    except BaseExceptionGroup as errors:
        raise first_error(errors) from errors
    finally:
        await book.write()
    return summary


async def _open(path: Path | None) -> File | None:
    if path is None:
        return None
    return await RealDisk(path.parent).open(path.name, create=True)


async def _watch(
    workload: Workload, book: Book, clock: Clock, linger_s: float
) -> dict[str, object]:
    """Say how it goes until it is through and the Pumps know everything."""
    started = said = clock.monotonic()
    every_s = PROGRESS_S if workload.config.seconds else ENDLESS_S
    while not workload.finished.is_set():
        try:
            async with asyncio.timeout(PROGRESS_S):
                await workload.finished.wait()
        except TimeoutError:
            await book.write()
            if clock.monotonic() - said >= every_s:
                said = clock.monotonic()
                _say(workload, said - started)
    seconds = clock.monotonic() - started
    await workload.client.flush(FLUSH_S)
    deadline = clock.monotonic() + linger_s
    while workload.outcomes.unasked() and clock.monotonic() < deadline:
        await clock.sleep(0.1)
    return {
        **msgspec.structs.asdict(workload.counts),
        "seconds": round(seconds, 3),
        "last_commit_ts": workload.source.last_commit_ts,
        "tables": len(workload.source.tables),
        "unacked": workload.client.unacked,
        "unasked": workload.outcomes.unasked(),
    }


def _say(workload: Workload, seconds: float) -> None:
    counts = workload.counts
    sys.stderr.write(
        f"{seconds:6.1f} s  {counts.committed} committed, {counts.rolled_back} rolled back, "
        f"{counts.failed} failed, {counts.died} died, {counts.ddls} DDL, {counts.rows} rows\n"
    )


def run(argv: list[str], program: str = "tidelog.workload") -> int:
    args = arguments(argv, program)
    configure("auto", "warning")
    try:
        return uvloop.run(_to_the_end(args, program))
    except TidelogError as error:
        return _tell(program, error)
    except EndedAtOnce as error:
        sys.stderr.write(f"{program}: {error.message}\n")
        return error.code
    except KeyboardInterrupt:  # nothing was begun
        return SIGNALLED + signal.SIGINT


def _tell(program: str, error: TidelogError) -> int:
    """The exit code."""
    sys.stderr.write(f"{program}: {type(error).__name__}: {error}\n")
    return exit_code(error)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
