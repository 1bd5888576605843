"""The examples as they stand, on one topology: applications that follow a shop's items."""

from __future__ import annotations

import ast
import asyncio
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from textwrap import indent
from threading import Event

import pytest

import tidelog
from tests.processes import until
from tests.topology import Running, up
from tidelog import subjects
from tidelog.pump_client import Writer
from tidelog.real.bus import NatsBus

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
NAMES = ("pen", "ink", "cup")
BACKLOG = 60


class Shop:
    """The items as they should be, and what to do next, without chance."""

    def __init__(self) -> None:
        self.items: dict[int, dict[str, object]] = {}
        self.last_ts = 0
        self._at = 0

    async def change(self, client: Writer, times: int) -> None:
        """Transactions of two rows each, one of them an update or a delete once there is one."""
        for _ in range(times):
            self._at += 1
            new = {"id": self._at, "name": NAMES[self._at % 3], "quantity": self._at % 7}
            async with client.transaction() as txn:
                txn.insert("shop.item", new)
                old = self.items.get(self._at // 2)
                if old is not None and self._at % 5 == 0:
                    txn.delete("shop.item", old)
                    del self.items[self._at // 2]
                elif old is not None:
                    change = {"name": NAMES[self._at % 2], "quantity": 3}
                    txn.update("shop.item", old, change)
                    self.items[self._at // 2] = old | change
            self.items[self._at] = new
            self.last_ts = txn.commit_ts

    def stock(self) -> Counter[str]:
        counted: Counter[str] = Counter()
        for item in self.items.values():
            counted[str(item["name"])] += int(str(item["quantity"]))
        return counted


async def open_shop(url: str) -> None:
    async with tidelog.connect(url) as client:
        await client.ddl("create database shop")
        await client.ddl(
            "create table shop.item (id bigint primary key, name varchar(40), quantity int)"
        )


async def empty_shop(url: str) -> int:
    async with tidelog.connect(url) as client:
        return (await client.ddl("truncate table shop.item")).commit_ts


async def keep_shop(url: str, shop: Shop, times: int = 10**6, ends: Event | None = None) -> None:
    """So many transactions, or until it `ends`."""
    async with tidelog.connect(url) as client:
        while times > 0 and not (ends is not None and ends.is_set()):
            await shop.change(client, min(times, 10))
            times -= 10


@contextmanager
def running(out: Path, *argv: str) -> Iterator[subprocess.Popen[bytes]]:
    """An example in the background; what it prints is in `out`."""
    with out.open("ab") as sink:
        process = subprocess.Popen(argv, cwd=out.parent, stdout=sink, stderr=sink)
    try:
        yield process
        assert process.poll() in (None, -signal.SIGKILL), out.read_text()
    finally:
        process.kill()
        process.wait()


async def lose_stream(url: str) -> None:
    bus = await NatsBus.connect(url, name="test")
    await bus.stream_delete(subjects.changes_stream("main"))
    await bus.close()


def printed(out: Path) -> list[str]:
    return out.read_text().splitlines()


def position(database: Path) -> int:
    if not database.exists():
        return 0
    with sqlite3.connect(database, timeout=30) as db:
        if not list(db.execute("select 1 from sqlite_master where name = 'tidelog_position'")):
            return 0
        return int(next(db.execute("select coalesce(max(commit_ts), 0) from tidelog_position"))[0])


def counted(database: Path) -> dict[str, int]:
    with sqlite3.connect(database) as db:
        return dict(db.execute("select * from stock"))


def python(name: str, *arguments: str) -> tuple[str, ...]:
    return sys.executable, str(EXAMPLES / name), *arguments


def documented(guide: str) -> str:
    """The guide's first program, in `main` if it is a fragment of one."""
    found = re.search(r"```python\n(.*?)```", (ROOT / guide).read_text(), re.DOTALL)
    assert found is not None
    source = found[1]
    if "asyncio.run" not in source:
        body = indent(source, "    ").replace("    import tidelog\n", "")
        source = f"import tidelog\nasync def main(url):\n{body}\n"
        source += "import asyncio, sys; asyncio.run(main(sys.argv[1]))"
    return source


def finished(cwd: Path, *argv: str) -> list[str]:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def project_with_kills(top: Running, shop: Shop, database: Path) -> None:
    """Killed three times while more comes; then it has everything, once."""
    out = database.with_suffix(".out")
    argv = python("projection.py", top.nats, str(database))
    ends = Event()
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(lambda: asyncio.run(keep_shop(top.nats, shop, ends=ends)))
        try:
            for _ in range(3):
                reached = position(database)
                with running(out, *argv) as process:
                    until(lambda: position(database) > reached, "the projection")  # noqa: B023
                    process.kill()
                    process.wait()
        finally:
            ends.set()
        writing.result(60)
    with running(out, *argv):
        until(lambda: position(database) >= shop.last_ts, "the projection to have everything")
    assert counted(database) == dict(shop.stock())


def forgotten(out: Path, why: str = "") -> list[str]:
    """How often a cache forgot everything, because of that."""
    told = [line for line in printed(out) if line.startswith("forget everything")]
    return [line for line in told if why in line.lower()]


@pytest.mark.timeout(300)
def test_the_examples(tmp_path: Path) -> None:
    began = datetime.now(UTC)
    shop = Shop()
    position_file = tmp_path / "state" / "position"
    with up(tmp_path / "top", f"sqlite:///{tmp_path / 'copy.db'}") as top, ExitStack() as stack:
        asyncio.run(open_shop(top.nats))
        asyncio.run(keep_shop(top.nats, shop, BACKLOG))
        caches = {
            "python": python("cache_invalidation.py", top.nats),
            "node": ("node", str(EXAMPLES / "nodejs" / "cache_invalidation.js"), top.nats),
        }
        guides = {
            guide: (sys.executable, "-uc", documented(guide), top.nats)
            for guide in ("README.md", "docs/reading.md")
        }
        outs = {name: tmp_path / f"{Path(name).stem}.out" for name in caches | guides}
        for name, argv in (caches | guides).items():
            stack.enter_context(running(outs[name], *argv))
        for name in caches:
            until(lambda: "ready" in printed(outs[name]), f"{name} to be ready")  # noqa: B023
        stock = tmp_path / "stock.db"
        project_with_kills(top, shop, stock)
        count = max(shop.items)
        for name in caches:
            out = outs[name]
            until(lambda: f"forget {count}" in printed(out), f"{name} to have all")  # noqa: B023
            assert {f"forget {n}" for n in range(BACKLOG + 1, count)} < set(printed(out))
            assert forgotten(out) == forgotten(out, "ddl"), "those that made the table, at most"
        for guide in guides:
            until(lambda: f"'id': {count}" in outs[guide].read_text(), guide)  # noqa: B023
        until(lambda: position_file.read_text() == f"main@{shop.last_ts}\n", "the last position")
        pens = finished(tmp_path, *python("read_your_writes.py", top.nats))
        assert [ast.literal_eval(pen)["id"] for pen in pens] == list(range(1001, 1006))
        told = finished(tmp_path, *python("replay.py", top.nats, began.isoformat()))
        assert sum(" item c " in line for line in told) == count + 5
        assert "create table shop.item" in told[1]
        times = [datetime.fromisoformat(line.split()[0]) for line in told]
        assert times == sorted(times)
        assert times[0] >= began
        later = finished(tmp_path, *python("replay.py", top.nats, times[-1].isoformat()))
        assert later == [line for line, at in zip(told, times, strict=True) if at == times[-1]]
        ddls = {name: len(forgotten(outs[name], "ddl")) for name in caches}
        emptied = asyncio.run(empty_shop(top.nats))
        shop.items.clear()
        for name in caches:
            until(lambda: len(forgotten(outs[name], "ddl")) > ddls[name], f"{name} to hear of it")  # noqa: B023
        with running(tmp_path / "stock.out", *python("projection.py", top.nats, f"{stock}")):
            until(lambda: position(stock) >= emptied, "the projection to hear of it")
        assert counted(stock) == {}
        # The stream comes again under lower sequences: whoever waits at his old one hears nothing.
        asyncio.run(lose_stream(top.nats))
        until(lambda: printed(outs["node"]).count("ready") == 2, "node to begin anew")
        asyncio.run(keep_shop(top.nats, shop, 10))
        for name in caches:
            last = f"forget {max(shop.items)}"
            until(lambda: last in printed(outs[name]), f"{name} to go on")  # noqa: B023


def test_node_is_there() -> None:
    """Else the example would not have been run."""
    assert shutil.which("node"), "make nodejs"
    assert (EXAMPLES / "nodejs" / "node_modules").is_dir(), "make nodejs"


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_a_screen(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 45
