"""What `tidelog subscribe --print-code` prints, run as it stands against a live topology: every
transaction of the wanted tables, once, in order, over a kill and a stream that was lost."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

import tidelog
from tests.integration.examples.test_examples import EXAMPLES, printed, running
from tests.processes import until
from tests.topology import Running, up
from tests.topology import tidelog as run_tidelog
from tidelog import subjects
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess
from tidelog_cli.keys import seed_file
from tidelog_cli.subscribe import Language, Wanted, program

FILES = {"python": "subscribe.py", "go": "main.go", "javascript": "subscribe.mjs"}
NATS_GO = "github.com/nats-io/nats.go@v1.48.0"
LARGE = "x" * 600_000
BIG = 2**53 + 1
TABLES = ("shop.*", "crm.person")
Seen = list[tuple[int, str, str]]
"""commit_ts, op, table."""


class Writing:
    """Transactions, and what a reader of TABLES must see of them."""

    def __init__(self, url: str, key: str) -> None:
        self._connect = partial(tidelog.connect, url, nats_nkey_file=key)
        self.wanted: Seen = []
        self.ddls: list[str] = []
        self._at = 0

    async def create(self) -> None:
        async with self._connect() as client:
            for query in (
                "create database shop",
                "create database crm",
                "create table shop.item (id bigint primary key, name longtext)",
                "create table crm.person (id bigint primary key, age bigint)",
                "create table crm.note (id bigint primary key)",
            ):
                await client.ddl(query)
                self.ddls.append(query)

    async def write(self, times: int) -> None:
        async with self._connect() as client:
            for _ in range(times):
                self._at += 1
                row = {"id": self._at, "name": LARGE if self._at % 5 == 0 else f"ä{self._at}"}
                async with client.transaction() as txn:
                    txn.insert("crm.note", {"id": self._at})
                    if self._at % 3:
                        txn.insert("shop.item", row)
                        txn.insert("crm.person", {"id": self._at, "age": BIG})
                if self._at % 3 == 0:
                    continue  # nobody wants this one
                self.wanted += [(txn.commit_ts, "c", t) for t in ("crm.person", "shop.item")]
                async with client.transaction() as txn:
                    txn.update("shop.item", row, {"name": "later"})
                    txn.delete("crm.person", {"id": self._at, "age": BIG})
                self.wanted += [(txn.commit_ts, "d", "crm.person")]
                self.wanted += [(txn.commit_ts, "u", "shop.item")]


def seen(lines: list[str]) -> Seen:
    found = [re.match(r"(\d+) ([cud]) (\S+) ", line) for line in lines]
    return [(int(m[1]), m[2], m[3]) for m in found if m]


def in_order(found: Seen) -> Seen:
    """By commit_ts as they came, tables by name."""
    assert [ts for ts, _, _ in found] == sorted(ts for ts, _, _ in found)
    return sorted(found, key=lambda one: (one[0], one[2]))


def printed_code(top: Running, language: str, directory: Path) -> Path:
    options = [word for table in TABLES for word in ("--table", table)]
    done = top.command("subscribe", "--print-code", language, *options)
    assert done.returncode == 0, done.stderr
    directory.mkdir()
    path = directory / FILES[language]
    path.write_text(done.stdout)
    return path


def go_toolchain() -> str:
    found = shutil.which("go")
    assert found, "no Go toolchain: the Go snippet would not be run; install Go 1.23 or newer"
    return found


def command(language: str, path: Path) -> tuple[str, ...]:
    """How it is run; the Go one is built first, the JavaScript one finds the examples' packages."""
    if language == "python":
        return sys.executable, str(path)
    if language == "javascript":
        (path.parent / "node_modules").symlink_to(EXAMPLES / "nodejs" / "node_modules")
        return "node", str(path)
    go = go_toolchain()
    unformatted = subprocess.run(
        [Path(go).with_name("gofmt"), "-l", path], capture_output=True, text=True, check=True
    )
    assert unformatted.stdout == ""
    for step in (("mod", "init", "subscribe"), ("get", NATS_GO), ("build", "-o", "subscribe", ".")):
        environ = os.environ | {"GOFLAGS": "-mod=mod"}
        done = subprocess.run(
            [go, *step], cwd=path.parent, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    return (str(path.parent / "subscribe"),)


async def lose_stream(url: str, key: str) -> None:
    access = NatsAccess(nats_nkey_file=key)
    bus = await NatsBus.connect(url, name="test", access=access)
    await bus.stream_delete(subjects.changes_stream("main"))
    await bus.close()


@pytest.mark.full
@pytest.mark.timeout(420)
def test_what_is_printed_follows_the_feed(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    with (
        up(tmp_path / "top", "blackhole:", "--keys", str(keys)) as top,
        ExitStack() as stack,
    ):
        paths = {name: printed_code(top, name, tmp_path / name) for name in FILES}
        with ThreadPoolExecutor(len(paths)) as pool:
            found = pool.map(command, paths, paths.values())
            writing = Writing(top.nats, seed_file(keys, "writer"))
            asyncio.run(writing.create())
            asyncio.run(writing.write(20))
            commands = dict(zip(paths, found, strict=True))
        outs = {name: path.parent / "out" for name, path in paths.items()}

        def caught_up() -> None:
            for out in outs.values():
                until(lambda: writing.wanted[-1] in seen(printed(out)), out.parent.name)  # noqa: B023

        processes = [
            stack.enter_context(running(outs[name], *argv)) for name, argv in commands.items()
        ]
        caught_up()
        for process in processes:
            process.kill()
            process.wait()
        asyncio.run(writing.write(10))
        for name, argv in commands.items():
            stack.enter_context(running(outs[name], *argv))
        caught_up()
        asyncio.run(lose_stream(top.nats, seed_file(keys, "drainer")))
        asyncio.run(writing.write(5))
        caught_up()
        for name, out in outs.items():
            lines = printed(out)
            assert in_order(seen(lines)) == sorted(writing.wanted, key=lambda o: (o[0], o[2])), name
            ddls = [line.split(" ddl ")[1].rstrip(";") for line in lines if " ddl " in line]
            assert ddls[:4] == writing.ddls[:4], name
            assert sum(str(BIG) in line for line in lines) == len(writing.wanted) // 2, name
            assert sum(LARGE in line for line in lines) >= 2, name
            assert not [line for line in lines if "Error" in line], name


def test_it_says_what_a_subscription_is() -> None:
    """Without a language it is refused, with what to do."""
    done = run_tidelog("subscribe", "--nats", "nats://127.0.0.1:1")
    assert done.returncode == 64
    assert "--print-code python" in done.stderr
    assert "tidelog tail" in done.stderr


def test_access_stands_in_the_program() -> None:
    wanted = Wanted(
        "nats://a:4222,nats://b:4222",
        "c",
        "f",
        ("a.b",),
        NatsAccess(
            nats_nkey_file="/k/seed", nats_ca="/k/ca", nats_cert="/k/cert", nats_key="/k/key"
        ),
    )
    for language in Language:
        text = program(language, wanted)
        assert not re.findall(r"@[A-Z_]+@", text)
        for given in ("/k/seed", "/k/ca", "/k/cert", "/k/key", "a:4222", "CHANGES_F", "b:4222"):
            if given == "CHANGES_F" and language == Language.PYTHON:
                continue
            assert given in text, (language, given)
    assert json.dumps(["a.b"]) in program(Language.PYTHON, wanted)
