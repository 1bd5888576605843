"""`python -m tidelog.workload` in this process, at a real NATS server with fake Pumps."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.conditions import until
from tests.servers import NatsServer, nats_server
from tests.unit.workload.bed import Bed
from tidelog import subjects
from tidelog.errors import EXIT_OK, Corrupt, DirectoryLocked, Stuck, exit_code
from tidelog.messages import encode_error
from tidelog.ports import Request
from tidelog.real.bus import NatsBus
from tidelog.real.disk import RealDisk
from tidelog.workload import WorkloadConfig
from tidelog.workload import __main__ as command
from tidelog.workload.runs import RECORD_FILE, take
from tidelog.workload.source import Contents


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as running:
        yield running


@pytest.fixture(autouse=True)
def own_signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@asynccontextmanager
async def bed(server: NatsServer) -> AsyncIterator[Bed]:
    """Two Pumps and a registry, on a connection of their own."""
    bus = await NatsBus.connect(server.url, timeout_s=10)
    made = Bed(WorkloadConfig(cluster="c"))
    await made.serve(bus)
    try:
        yield made
    finally:
        await bus.close()


def arguments(server: NatsServer, directory: Path, *more: str) -> Any:
    given = ["--nats", server.url, "--cluster", "c", "--seed", "7", "--linger", "0.2"]
    given += ["--state", str(directory / "state"), "--ledger", str(directory / "ledger")]
    return command.arguments([*given, *more], "workload")


def summary_of(said: str) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads(said)
    return summary


def test_a_run_tells_what_it_wrote_and_its_files_say_the_same(
    tmp_path: Path, server: NatsServer, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "dump.json"

    async def main() -> Bed:
        async with bed(server) as made:
            flags = ("--transactions", "150", "--rate", "0", "--seconds", "60")
            more = ("--dead-share", "0.1", "--tables", "3", "--dump", str(dump))
            assert await command.main(arguments(server, tmp_path, *flags, *more)) == EXIT_OK
            return made

    made = asyncio.run(main())
    summary = summary_of(capsys.readouterr().out)
    assert summary["started"] + summary["idle"] == 150
    assert summary["died"] == summary["unasked"] > 0, "no Pump asks here"
    assert summary["unacked"] == summary["failed"] == 0
    told = [json.loads(line) for line in (tmp_path / "ledger").read_text().splitlines()]
    assert max(one["commit_ts"] for one in told) == summary["last_commit_ts"]
    assert len({one["commit_ts"] for one in told}) == len(told) >= summary["committed"] > 0
    assert (tmp_path / "state" / RECORD_FILE).exists()
    assert len(made.jobs) == summary["ddls"]
    contents = msgspec.json.decode(dump.read_bytes(), type=Contents)
    assert len(contents.tables) == summary["tables"]


def test_a_run_without_an_end_says_how_it_goes_until_it_is_told_to_end(
    tmp_path: Path,
    server: NatsServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(command, "PROGRESS_S", 0.02)
    monkeypatch.setattr(command, "ENDLESS_S", 0.02)

    async def main() -> None:
        async with bed(server) as made:
            given = arguments(server, tmp_path, "--seconds", "0", "--rate", "0")
            running = asyncio.create_task(command.main(given))
            await until(lambda: len(made.binlogs) > 300)
            os.kill(os.getpid(), signal.SIGTERM)
            async with asyncio.timeout(20):
                assert await running == EXIT_OK

    asyncio.run(main())
    said = capsys.readouterr()
    summary = summary_of(said.out)
    assert summary["committed"] > 50
    assert "committed, " in said.err.splitlines()[0]
    # Nobody holds the directory any more.
    take(RealDisk(tmp_path / "state")).release()


def test_a_directory_into_which_something_may_still_write_stays_locked(
    tmp_path: Path,
    server: NatsServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """And its process does not wait for that."""

    async def writes_on(_: object) -> bool:
        return False

    connect = NatsBus.connect
    left_open: list[NatsBus] = []

    async def connected(*args: Any, **options: Any) -> NatsBus:
        left_open.append(await connect(*args, **options))
        return left_open[-1]

    async def main() -> None:
        async with bed(server):
            given = arguments(server, tmp_path, "--transactions", "5", "--rate", "0")
            monkeypatch.setattr(NatsBus, "connect", connected)
            with pytest.raises(SystemExit) as ended:
                await command._to_the_end(given, "workload")
            assert ended.value.code == exit_code(Stuck(""))
            (bus,) = left_open
            await bus.close()  # as the end of the process does
            with pytest.raises(DirectoryLocked):
                take(RealDisk(tmp_path / "state"))

    monkeypatch.setattr("tidelog.supervisor._alone", writes_on)
    monkeypatch.setattr(os, "_exit", sys.exit)
    asyncio.run(main())
    assert "Stuck: " in capsys.readouterr().err


def test_what_ends_the_workload_is_told_by_itself_and_the_ledger_is_kept(
    tmp_path: Path, server: NatsServer
) -> None:
    async def main() -> None:
        async with bed(server) as made:
            bus = made.cluster.port

            async def damaged(request: Request) -> None:
                request.respond(encode_error(Corrupt("the history is damaged")))

            await bus.serve(subjects.registry("broken", "ddl-list"), damaged)
            await bus.serve(subjects.registry("broken", "tso"), made._tso)
            given = arguments(server, tmp_path)
            given.cluster = "broken"
            with pytest.raises(Corrupt, match="the history is damaged"):
                await command.main(given)
            assert (tmp_path / "ledger").read_bytes() == b""

    asyncio.run(main())


def test_a_directory_that_another_run_has_is_one_line_and_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "configure", lambda *_: None)
    lock = take(RealDisk(tmp_path))
    try:
        code = command.run(["--state", str(tmp_path), "--nats", "nats://127.0.0.1:1"], "workload")
    finally:
        lock.release()
    assert code == exit_code(DirectoryLocked(""))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("workload: DirectoryLocked: ")
