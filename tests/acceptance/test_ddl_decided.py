"""The change is there downstream already: the Applier stands at the DDL until it is told."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pymysql
import pytest

import tidelog
from tests.processes import until
from tests.servers import MariaDb, mariadb_server
from tests.topology import Running, up

STOP = re.compile(r"`tidelog ddl done main (\d+)`")


def ask(db: MariaDb, sql: str) -> list[tuple[Any, ...]]:
    connection = pymysql.connect(host=db.host, port=db.port, user=db.user, autocommit=True)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


async def widen(running: Running, state: Path) -> int:
    async with tidelog.connect(running.nats, state_dir=state) as writer:
        await writer.ddl("alter table shop.t add column m int")
        async with writer.transaction() as last:
            last.insert("shop.t", {"id": 3})
    return last.commit_ts


def waits_visibly(running: Running, db: MariaDb, state: Path) -> int:
    """A DDL behind somebody's open transaction: the status says what it does."""
    connection = pymysql.connect(host=db.host, port=db.port, user=db.user)
    with closing(connection), connection.cursor() as cursor:
        cursor.execute("SELECT * FROM shop.t")
        last = asyncio.run(widen(running, state))

        def doing() -> str:
            with urllib.request.urlopen(f"{running.ready['http']['applier']}/status") as answer:
                return str(json.load(answer)["actors"]["applier"]["doing"])

        until(lambda: "Waiting for table metadata lock, " in doing(), "a status that tells")
        assert doing().startswith("add_column at ")
    return last


async def write(running: Running, db: MariaDb, state: Path) -> int:
    """A column is added that is there already, and a row that has it."""
    async with tidelog.connect(running.nats, state_dir=state) as writer:
        await writer.ddl("create database shop")
        await writer.ddl("create table shop.t (id int primary key)")
        async with writer.transaction() as first:
            first.insert("shop.t", {"id": 1})
        await asyncio.to_thread(running.wait, first.commit_ts)
        ask(db, "ALTER TABLE shop.t ADD n INT")
        await writer.ddl("alter table shop.t add column n int")
        async with writer.transaction() as last:
            last.insert("shop.t", {"id": 2, "n": 5})
    return last.commit_ts


@pytest.mark.timeout(180)
def test_an_operator_s_word_lets_the_applier_go_on(tmp_path: Path) -> None:
    with (
        mariadb_server(tmp_path / "db") as db,
        up(tmp_path / "top", f"mysql://{db.user}@{db.host}:{db.port}/") as running,
    ):
        last = asyncio.run(write(running, db, tmp_path / "state"))

        def told() -> re.Match[str] | None:
            return STOP.search(json.dumps(running.status()["nodes"]))

        until(lambda: told() is not None, "a stop that names the command")
        found = told()
        assert found is not None
        commit_ts = found[1]
        pid = running.pid("applier")
        refused = running.command("ddl", "again", "main", commit_ts + "1")
        assert refused.returncode == 1, refused.stderr
        done = running.command("ddl", "done", "main", commit_ts, "--json")
        assert done.returncode == 0, done.stderr
        (word,) = json.loads(done.stdout)
        assert (word["commit_ts"], word["decision"]) == (int(commit_ts), "done")
        running.wait(last)
        assert ask(db, "SELECT id, n FROM shop.t ORDER BY id") == [(1, None), (2, 5)]
        running.wait(waits_visibly(running, db, tmp_path / "state"))
        assert running.pid("applier") == pid
