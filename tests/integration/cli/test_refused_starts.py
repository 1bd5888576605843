"""Starts that can't succeed: one line that names what is wrong, and the exit code of its class."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from tests.processes import until
from tests.servers import MariaDb, NatsServer, mariadb_server, nats_server
from tests.topology import TIDELOG, beside_waiting, tidelog, up
from tidelog.errors import EXIT_CONFIG, EXIT_USAGE

SERVICES = ("registry", "pump", "drainer", "applier")
PASSWORD = "0penSesame"


@pytest.fixture(scope="module")
def nats(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with nats_server(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """With an account that has a password."""
    with mariadb_server(tmp_path_factory.mktemp("db")) as server:
        set_password(server, PASSWORD)
        yield server


def set_password(server: MariaDb, password: str) -> None:
    connection = pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute("CREATE USER IF NOT EXISTS tide@'127.0.0.1'")
        cursor.execute("GRANT ALL ON *.* TO tide@'127.0.0.1'")
        cursor.execute(f"ALTER USER tide@'127.0.0.1' IDENTIFIED BY '{password}'")


@contextmanager
def listening(port: int = 0) -> Iterator[int]:
    """A port that somebody else has."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
        yield int(other.getsockname()[1])


def service(name: str, directory: Path, nats: NatsServer, *flags: str) -> tuple[int, str]:
    """Run a service that refuses to start; its exit code and its last line."""
    argv = [sys.executable, "-m", f"tidelog_{name}", "--nats-url", nats.url]
    argv += ["--data-dir", str(directory), *flags]
    if name == "applier":
        argv += ["--downstream", f"sqlite:///{directory}.db"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=40, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr.strip().splitlines()[-1]


def start(directory: Path, downstream: str, *flags: str) -> tuple[int, list[str]]:
    done = tidelog("up", "--dir", str(directory), "--downstream", downstream, *flags, timeout_s=60)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.returncode, beside_waiting(done.stderr)


@pytest.mark.parametrize("name", SERVICES)
def test_an_unknown_key_names_the_nearest(name: str, tmp_path: Path, nats: NatsServer) -> None:
    code, line = service(name, tmp_path / "data", nats, "--nats-ulr", "x")
    assert code == EXIT_CONFIG
    assert "unknown key --nats-ulr as a flag (the nearest known one is --nats-url)" in line
    config = tmp_path / "a.toml"
    config.write_text('http-adr = "127.0.0.1:0"\n')
    code, line = service(name, tmp_path / "data", nats, "--config", str(config))
    assert code == EXIT_CONFIG
    assert f"unknown key http-adr in {config} (the nearest known one is http-addr)" in line


@pytest.mark.parametrize("name", SERVICES)
def test_an_occupied_http_port_is_named(name: str, tmp_path: Path, nats: NatsServer) -> None:
    with listening() as port:
        code, line = service(name, tmp_path / "data", nats, "--http-addr", f"127.0.0.1:{port}")
    assert code == EXIT_CONFIG
    assert f"http-addr 127.0.0.1:{port} can't be listened on" in line


def test_an_occupied_grpc_port_is_named(tmp_path: Path, nats: NatsServer) -> None:
    with listening() as port:
        code, line = service(
            "pump",
            tmp_path / "data",
            nats,
            "--grpc-addr",
            f"127.0.0.1:{port}",
            "--oracle",
            "follow",
        )
    assert code == EXIT_CONFIG
    assert f"gRPC can't listen on 127.0.0.1:{port}" in line


def test_up_names_the_port_that_somebody_else_took(tmp_path: Path) -> None:
    """Ports are kept from one `up` to the next; it doesn't wander off to others silently."""
    directory, database = tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}"
    with up(directory, database, "--pumps", "1") as running:
        grpc = running.ready["pumps"][0]["grpc"]
        bus = running.nats.removeprefix("nats://")
    with listening(int(grpc.rpartition(":")[2])):
        code, lines = start(directory, database, "--pumps", "1")
    assert code == EXIT_CONFIG
    assert len(lines) <= 2
    assert lines[0].startswith(f"ConfigError: pump-1 refuses to start: gRPC can't listen on {grpc}")
    with listening(int(bus.rpartition(":")[2])):
        code, lines = start(directory, database, "--pumps", "1")
    assert code == EXIT_CONFIG
    assert lines[0] == f"ConfigError: NATS can't listen on {bus}: another process does"
    with up(directory, database, "--pumps", "1") as running:  # nothing was harmed
        assert running.ready["pumps"][0]["grpc"] == grpc


def test_a_directory_of_another_node_or_cluster_is_refused(
    tmp_path: Path, nats: NatsServer
) -> None:
    directory, database = tmp_path / "top", f"sqlite:///{tmp_path / 'down.db'}"
    with up(directory, database, "--pumps", "1", "--cluster-id", "5") as running:
        pid = running.pid("pump-1")
        assert pid
        code, line = service("pump", directory / "pump-1", nats, "--node-id", "pump-1")
        assert code == EXIT_USAGE
        assert f"is locked by process {pid}" in line
    home = directory / "pump-1"
    code, line = service("pump", home, nats, "--node-id", "pump-7", "--cluster-id", "5")
    assert code == EXIT_USAGE
    assert "the data directory belongs to pump-1, this is pump-7 (give each node its own" in line
    code, line = service("pump", home, nats, "--node-id", "pump-1", "--cluster-id", "6")
    assert code == EXIT_USAGE
    assert "the data directory is of cluster id 5, configured is 6 (" in line
    code, lines = start(directory, database, "--pumps", "1", "--cluster-id", "6")
    assert code == EXIT_CONFIG
    assert lines[0].startswith("ConfigError: pump-1 refuses to start: the data directory is of")
    with up(directory, database, "--pumps", "1", "--cluster-id", "5") as running:
        assert running.status()["nodes"]


WRONG_FORMS = (
    (("--downstream", "oracle://x"), "the downstream's form is not known"),
    (("--downstream", "sqlite:////nowhere/at/all.db"), "applier refuses to start: sqlite:////nowh"),
    (("--downstream", "sqlite:///x.db", "--oracle", "delphi"), "--oracle delphi is not known"),
    (("--downstream", "sqlite:///x.db", "--ddl-history", "x"), "--ddl-history x is not known"),
    (
        ("--downstream", "sqlite:///{tmp}/x.db", "--ddl-history", "file:{tmp}/none.json"),
        "drainer refuses to start: the DDL history",
    ),
    (
        ("--downstream", "sqlite:///{tmp}/x.db", "--feed", "A b"),
        "--feed: feed 'A b': 1 to 63 of a-z",
    ),
)


@pytest.mark.parametrize(("flags", "says"), WRONG_FORMS, ids=[says for _, says in WRONG_FORMS])
def test_up_refuses_what_no_child_understands(
    flags: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    here = [flag.replace("{tmp}", str(tmp_path)) for flag in flags]
    done = tidelog("up", "--dir", str(tmp_path / "top"), *here)
    assert done.returncode == EXIT_CONFIG
    assert done.stdout == ""
    lines = beside_waiting(done.stderr)
    assert lines[0].startswith(f"ConfigError: {says}")
    assert len(lines) <= 2


def test_a_wrong_downstream_password_ends_up_with_one_line(
    tmp_path: Path, mariadb: MariaDb
) -> None:
    url = f"mysql://tide:wr0ngSecret@{mariadb.host}:{mariadb.port}/"
    code, lines = start(tmp_path / "top", url)
    assert code == EXIT_CONFIG
    where = f"mysql://tide@{mariadb.host}:{mariadb.port}"
    assert lines[0].startswith(f"ConfigError: applier refuses to start: {where} does not let us in")
    assert "check user and password of the downstream URL" in lines[0]
    assert len(lines) == 1
    logs = [path.read_text() for path in (tmp_path / "top").glob("*/log")]
    assert len(logs) == 5
    assert not any("wr0ngSecret" in text for text in [*lines, *logs])


def test_a_password_changed_later_is_shown_until_it_is_right_again(
    tmp_path: Path, mariadb: MariaDb
) -> None:
    set_password(mariadb, PASSWORD)
    url = f"mysql://tide:{PASSWORD}@{mariadb.host}:{mariadb.port}/"
    with up(tmp_path / "top", url, "--pumps", "1") as running:

        def says() -> str:
            nodes = {n["nodeId"]: n for n in running.status()["nodes"]}
            return str(nodes["applier"]["detail"].get("error", ""))

        pid = running.pid("applier")
        set_password(mariadb, "another")
        kill_connections(mariadb)
        until(lambda: "does not let us in" in says(), "the Applier to tell")
        assert PASSWORD not in says()
        assert running.pid("applier") == pid
        set_password(mariadb, PASSWORD)
        until(lambda: not says(), "the Applier to go on")
        assert running.pid("applier") == pid


def kill_connections(server: MariaDb) -> None:
    connection = pymysql.connect(host=server.host, port=server.port, user="root", autocommit=True)
    with connection, connection.cursor() as cursor:
        cursor.execute("KILL USER tide")


def test_up_without_its_options_is_a_usage_error() -> None:
    done = subprocess.run([*TIDELOG, "up"], capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert "--dir" in done.stderr
