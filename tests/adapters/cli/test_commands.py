"""What the commands print and end with, asked of a living topology."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import structlog
import typer
from rich.text import Text
from typer.testing import CliRunner, Result

from tests.adapters.cli.town import FEED, Town, town
from tests.integration.membership.processes import node, order
from tests.processes import until
from tests.servers import nats_server
from tidelog.errors import (
    EXIT_CONFIG,
    EXIT_FAILED,
    EXIT_UNAVAILABLE,
    EXIT_USAGE,
)
from tidelog.messages import ONLINE, PAUSED
from tidelog.real.bus import NatsBus
from tidelog_cli import completion, state_file
from tidelog_cli.app import app
from tidelog_cli.completion import node_names
from tidelog_cli.terminal import say


class Asked:
    """`tidelog` in this process, at the town's NATS server."""

    def __init__(self, living: Town, directory: Path) -> None:
        self.town = living
        self.dump = directory / "dump.json"
        self.nats = ["--nats", living.nats.url]

    def tidelog(self, *words: str, code: int = 0, says: str = "") -> Result:
        done = CliRunner().invoke(app, [*words, *self.nats])
        assert done.exit_code == code, (words, done.output, done.exception)
        assert says in done.output
        return done

    def json(self, *words: str, code: int = 0) -> Any:
        """The one line, or the last one."""
        return self.lines(*words, code=code)[-1]

    def lines(self, *words: str, code: int = 0) -> list[Any]:
        told = self.tidelog(*words, "--json", code=code).stdout
        return [json.loads(line) for line in told.splitlines()]

    @property
    def downstream(self) -> str:
        return f"sqlite:///{self.town.database}"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Asked]:
    """It has a feed, and what a workload wrote."""
    directory = tmp_path_factory.mktemp("town")
    logs = structlog.get_config()
    with nats_server(directory) as nats, town(nats, directory) as living:
        one = Asked(living, directory)
        until(lambda: living.ready("registry"), "the registry", 30)
        one.tidelog("feed", "create", FEED, "--if-missing", says=FEED)
        until(living.ready, "the town", 30)
        told = one.tidelog("workload", "--seconds", "2", "--rate", "200", "--dump", str(one.dump))
        done = json.loads(told.stdout.splitlines()[-1])
        assert done["committed"] > 20
        one.tidelog("wait", "--commit-ts", str(done["last_commit_ts"]), "--timeout", "60")
        yield one
    structlog.configure(**logs)


def test_who_is_there(asked: Asked) -> None:
    told = asked.json("status")
    assert {n["kind"] for n in told["nodes"]} == {"pump", "drainer", "applier"}
    for command, kind in (("pumps", "pump"), ("drainers", "drainer"), ("appliers", "applier")):
        found = asked.json(command)
        assert [n["kind"] for n in found] == [kind] * len(found)
        assert asked.tidelog(command, "--all").output
    assert len(asked.json("nodes")) == 4
    assert "pump-1" in asked.tidelog("nodes").output
    assert FEED in asked.tidelog("status").output


def test_names_are_completed(asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "QUICK_S", 20.0)
    typed = cast(typer.Context, SimpleNamespace(params={"nats": asked.town.nats.url}))
    assert node_names(typed, "pump-2") == [("pump-2", "pump, online")]


def test_a_node_is_paused_and_resumed(asked: Asked) -> None:
    assert asked.json("pause", "pump-2")["state"] == "paused"
    asked.tidelog("status", says="paused")
    asked.tidelog("resume", "pump-2", says="online")
    asked.tidelog("pause", "pump-9", code=EXIT_USAGE, says="pump-9")


def test_feeds_are_listed_shown_and_forgotten(asked: Asked) -> None:
    asked.tidelog("feed", "create", "other", "--initial-commit-ts", "-1", says="other")
    asked.tidelog("feed", "create", "other", code=EXIT_FAILED)
    assert {one["name"] for one in asked.lines("feed", "list")} == {FEED, "other"}
    assert asked.json("feed", "show", "other")["name"] == "other"
    asked.tidelog("feed", "list", says="other")
    asked.tidelog("feed", "show", "none", code=EXIT_USAGE)
    asked.tidelog("feed", "forget", FEED, "--yes", code=EXIT_FAILED)
    asked.tidelog("feed", "unregister", FEED, "nobody", "--yes", code=EXIT_USAGE)


def test_the_stream_is_read(asked: Asked) -> None:
    lines = asked.lines("tail", "--until-idle")
    assert sum("ddl" in line for line in lines) > 3
    table = next(line["table"] for line in lines if "op" in line)
    some = asked.tidelog("tail", "--until-idle", "--table", table, "--watermarks").stdout
    assert table in some
    code = asked.tidelog("subscribe", "--print-code", "python", "--table", table).stdout
    compile(code, "printed", "exec")


def test_both_sides_are_compared(asked: Asked) -> None:
    places = ("--source", f"dump://{asked.dump}", "--downstream", asked.downstream)
    done = CliRunner().invoke(app, ["verify", *places, "--json"])
    found = json.loads(done.stdout)
    assert (done.exit_code, found["equal"]) == (0, True), done.output
    assert CliRunner().invoke(app, ["verify", *places]).exit_code == 0


def test_ddls_of_a_feed(asked: Asked) -> None:
    assert asked.json("ddl")["feed"] == FEED
    asked.tidelog("ddl")
    policy = asked.json("ddl", "policy", FEED, "rename_table=skip")
    assert policy["policy"] == {"rename_table": "skip"}
    asked.tidelog("ddl", "policy", FEED, "rename_table=", says=FEED)
    asked.tidelog("ddl", "policy", FEED, "nonsense", code=EXIT_USAGE)
    for word in ("pass", "skip", "done", "again"):
        asked.tidelog("ddl", word, FEED, "1", code=EXIT_FAILED)


def test_an_operators_word_on_a_transaction_that_nobody_knows(asked: Asked) -> None:
    asked.tidelog("resolve", "7", "--rollback", "--yes", code=EXIT_USAGE)
    asked.tidelog("resolve", "7", "--rollback", "--accept", "--yes", code=EXIT_USAGE)


def test_doctor_examines_all_that_it_sees(asked: Asked) -> None:
    monitor = asked.town.nats.url.replace("nats", "http").rpartition(":")[0] + ":1"
    words = ("doctor", "--nats-monitor", monitor, "--downstream", asked.downstream)
    found = asked.json(*words)
    verdicts = {(one["check"], one["verdict"]) for one in found["findings"]}
    assert {("nats", "unknown"), ("nodes", "ok"), ("downstream", "ok")} <= verdicts
    asked.tidelog(*words, says="4 nodes")
    asked.tidelog("doctor", "--downstream", "sqlite:////nowhere/x.db", code=EXIT_FAILED)


def test_jobs_of_a_backfill_service_that_is_not_there(asked: Asked) -> None:
    asked.tidelog("jobs", code=EXIT_UNAVAILABLE, says="backfill")
    asked.tidelog("jobs", "show", "none", code=EXIT_UNAVAILABLE)
    asked.tidelog("jobs", "cancel", "none", code=EXIT_UNAVAILABLE)


def test_what_changes_is_told_until_a_signal_ends_it(
    asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Pump is paused once somebody watches, and the signal comes once that was told."""
    watched = threading.Event()

    def said(text: Text) -> None:
        say(text)
        watched.set()

    async def act() -> None:
        bus = await NatsBus.connect(asked.town.nats.url)
        for action, state in (("pause", PAUSED), ("resume", ONLINE)):
            assert await order(bus, "pump-2", action)
            while (status := await node(bus, "pump-2")) is None or status.state != state:
                pass
        await bus.close()

    def until_told() -> None:
        try:
            assert watched.wait(60)
            asyncio.run(act())
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("tidelog_cli.commands.watch.say", said)
    acting = threading.Thread(target=until_told)
    acting.start()
    told = asked.tidelog("watch", "--json").stdout
    acting.join()
    assert "paused" in told


def test_a_topology_that_is_not_there(tmp_path: Path) -> None:
    for words in (["status"], ["tail"], ["nodes", "--json"]):
        done = CliRunner().invoke(app, [*words, "--dir", str(tmp_path)])
        assert done.exit_code == EXIT_UNAVAILABLE, done.output
        assert "tidelog up" in done.output
    (tmp_path / state_file.NAME).write_text("[")
    assert CliRunner().invoke(app, ["status", "--dir", str(tmp_path)]).exit_code == EXIT_CONFIG


def test_rows_are_downstream(asked: Asked) -> None:
    with closing(sqlite3.connect(asked.town.database)) as file:
        (tables,) = file.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'")
        assert tables[0] > 5
