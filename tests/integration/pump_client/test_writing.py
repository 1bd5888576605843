"""docs/writing.md's example, run as it stands, from an application to SQLite."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from pathlib import Path

from tests.topology import Running, up

DOC = Path(__file__).parents[3] / "docs" / "writing.md"
KILLED = """
import asyncio, os, sys
import tidelog
from tidelog.pump_client import PumpClient
from tidelog_proto.binlog_pb2 import {kind}

write = PumpClient.write

async def dying(self, binlog, **named):
    if binlog.tp == {kind} and {before}:
        os._exit(9)
    await write(self, binlog, **named)
    if binlog.tp == {kind}:
        os._exit(9)

async def main(url):
    async with tidelog.connect(url, state_dir="state") as client:
        PumpClient.write = dying
        async with client.transaction() as txn:
            txn.insert("shop.item", {{"id": {number}, "name": "lost or found"}})

asyncio.run(main(sys.argv[1]))
"""


STAY = "print(txn.commit_ts, flush=True); await asyncio.to_thread(sys.stdin.read)"
"""Until the test has seen what it waits for: the Pumps ask the living."""


def _example() -> str:
    found = re.search(
        r"```python\n(import asyncio.*?)```", DOC.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    return found[1]


def _python(running: Running, source: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-c", source, running.nats]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=100, check=False)


def _rows(path: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as db:
        (name,) = [n for (n,) in db.execute("select name from sqlite_master") if "item" in n]
        return list(db.execute(f'select id, name, price from "{name}" order by id'))


def test_the_example_and_clients_that_are_killed(tmp_path: Path) -> None:
    down = tmp_path / "copy.db"
    with up(tmp_path / "top", f"sqlite:///{down}", "--pumps", "2") as running:
        done = _python(running, _example(), tmp_path)
        assert done.returncode == 0, done.stderr + running.logs()
        running.wait(int(done.stdout))
        assert _rows(down) == [(1, "pencil", "1.35")]

        # Killed with an acked Prewrite and no decision; killed with a decision and no Commit sent.
        for kind, before, number in (("Prewrite", False, 3), ("Commit", True, 4)):
            source = KILLED.format(kind=kind, before=before, number=number)
            killed = _python(running, source, tmp_path)
            assert killed.returncode == 9, killed.stderr
        again = _example().replace('"id": 1', '"id": 5').replace('"id": 2', '"id": 6')
        again = again.replace("print(txn.commit_ts)", STAY)
        argv = [sys.executable, "-c", again, running.nats]
        pipe = subprocess.PIPE
        with subprocess.Popen(argv, cwd=tmp_path, stdin=pipe, stdout=pipe, text=True) as living:
            assert living.stdin is not None
            assert living.stdout is not None
            commit_ts = living.stdout.readline()
            assert commit_ts, running.logs()
            running.wait(int(commit_ts))
            living.stdin.close()
            assert living.wait(60) == 0
        assert _rows(down) == [
            (1, "pencil", "1.35"),
            (4, "lost or found", None),
            (5, "pencil", "1.35"),
        ]
