"""A real TiDB cluster as processes: PD, TiDB's own Go store in the place of TiKV, and TiDB.

Nobody packages them, so who runs this has built them: README.md beside this file says from what.
"""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.processes import until
from tests.servers import free_port

START_S = 90.0
"""TiDB makes its system tables at its first start, a DDL each."""
END_S = 20.0


@dataclass(frozen=True)
class Binaries:
    pd: Path
    store: Path
    tidb: Path


class Process:
    """One server on fixed ports. `start` after `kill` has the same data."""

    def __init__(self, name: str, home: Path, argv: list[str], ready: Callable[[], bool]) -> None:
        self._name = name
        self._log = home / f"{name}.log"
        self._argv = argv
        self._ready = ready
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        assert self._process is None
        with self._log.open("ab") as sink:
            process = subprocess.Popen(self._argv, stdout=sink, stderr=sink, cwd=self._log.parent)
        self._process = process

        def state() -> str:
            tail = self._log.read_text(errors="replace")[-2000:]
            return f"{self._name} (exit {process.poll()}): {tail}"

        def is_ready() -> bool:
            assert process.poll() is None, state()
            return self._ready()

        until(is_ready, state, START_S)

    def stop(self) -> None:
        """Orderly, if it ends in time."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(how)
        try:
            process.wait(END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Cluster:
    """`pd_url`: as `--pd-urls` takes it. `sql`, `status`: TiDB's ports; `root` has no password."""

    def __init__(self, binaries: Binaries, home: Path) -> None:
        client, peer, store = free_port(), free_port(), free_port()
        self.sql, self.status = free_port(), free_port()
        self.pd_url = f"http://127.0.0.1:{client}"
        config = home / "tidb.toml"
        config.write_text("[binlog]\nenable = true\n")
        pd = [str(binaries.pd), "--name=pd", f"--data-dir={home / 'pd'}"]
        pd += [f"--client-urls={self.pd_url}", f"--peer-urls=http://127.0.0.1:{peer}"]
        kv = [str(binaries.store), f"-pd=127.0.0.1:{client}", f"-addr=127.0.0.1:{store}"]
        kv += [f"-dir={home / 'store'}"]
        db = [str(binaries.tidb), "--store=tikv", f"--path=127.0.0.1:{client}", f"-P={self.sql}"]
        db += ["--host=127.0.0.1", f"--status={self.status}", f"--config={config}"]
        db += [f"--socket={home / 'tidb.sock'}"]
        self.pd = Process("pd", home, pd, _answers(f"{self.pd_url}/pd/api/v1/health"))
        self.store = Process("store", home, kv, _listens(store))
        self.tidb = Process("tidb", home, db, _answers(f"http://127.0.0.1:{self.status}/status"))

    def await_pumps(self, count: int) -> None:
        """Until PD lists so many: a TiDB that finds none there ends at once."""
        prefix = b"/tidb-binlog/v1/pumps/"
        asked = {
            "key": b64encode(prefix).decode(),
            "range_end": b64encode(prefix[:-1] + b"0").decode(),
            "count_only": True,
        }

        def listed() -> bool:
            request = urllib.request.Request(
                f"{self.pd_url}/v3/kv/range", json.dumps(asked).encode(), method="POST"
            )
            with urllib.request.urlopen(request, timeout=5) as answer:
                return int(json.load(answer).get("count", 0)) >= count

        until(listed, f"{count} Pumps in PD")

    def stop(self) -> None:
        for process in (self.tidb, self.store, self.pd):
            process.stop()


def _answers(url: str) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    return ask


def _listens(port: int) -> Callable[[], bool]:
    def ask() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=2):
                return True
        except OSError:
            return False

    return ask
