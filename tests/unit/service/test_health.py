"""What a container hears of the service that runs in it."""

from __future__ import annotations

import os
import runpy
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tidelog.errors import EXIT_FAILED, EXIT_OK, ConfigError, exit_code
from tidelog.health import HTTP_FILE, health, is_answered


@contextmanager
def admin(status: int, text: str) -> Iterator[str]:
    """A service's admin address that answers so."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/readyz"
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Not on the terminal."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_ready_or_what_it_waits_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with admin(200, "ready") as addr:
        (tmp_path / HTTP_FILE).write_text(f"{addr}\n")
        assert health(str(tmp_path)) == EXIT_OK
    assert capsys.readouterr().err == ""
    with admin(503, "not ready: the index is rebuilt\n") as addr:
        (tmp_path / HTTP_FILE).write_text(addr)
        assert health(str(tmp_path)) == EXIT_FAILED
    assert capsys.readouterr().err == "not ready: the index is rebuilt\n"
    assert health(str(tmp_path)) == EXIT_FAILED
    assert capsys.readouterr().err.startswith(f"not ready: nobody answers at {addr} ")
    (tmp_path / HTTP_FILE).unlink()
    assert health(str(tmp_path)) == EXIT_FAILED
    assert capsys.readouterr().err.startswith(f"not ready: nothing runs in {tmp_path} ")


def asked(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """The exit code of `tidelog-pump health …`."""
    monkeypatch.setattr(sys, "argv", ["tidelog-pump", *arguments])
    with pytest.raises(SystemExit) as ended:
        is_answered("pump", "tidelog.config:ServiceConfig")
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_it_is_asked_as_the_service_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert asked(monkeypatch, "health", "--data-dir", str(tmp_path)) == EXIT_FAILED
    assert str(tmp_path) in capsys.readouterr().err
    assert asked(monkeypatch, "health", "--no-such-key", "x") == exit_code(ConfigError(""))
    assert capsys.readouterr().err.startswith("tidelog-pump: unknown key")
    assert asked(monkeypatch, "health", "--help") == EXIT_OK
    assert "--data-dir" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["tidelog-pump", "--data-dir", "x"])
    assert not is_answered("pump", "tidelog.config:ServiceConfig")


@pytest.fixture
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("TIDELOG_CONFIG", "TIDELOG_PUMP_DATA_DIR", "TIDELOG_DATA_DIR"):
        monkeypatch.delenv(variable, raising=False)


@pytest.mark.usefixtures("unset")
def test_variables_say_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked(monkeypatch, "health") == EXIT_FAILED
    assert "nothing runs in data/pump " in capsys.readouterr().err
    for variable in ("TIDELOG_DATA_DIR", "TIDELOG_PUMP_DATA_DIR"):  # the own one counts more
        monkeypatch.setenv(variable, str(tmp_path / variable))
        assert asked(monkeypatch, "health") == EXIT_FAILED
        assert f"nothing runs in {tmp_path / variable} " in capsys.readouterr().err


@pytest.mark.usefixtures("unset")
def test_a_file_of_keys_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "keys.toml").write_text(f'data-dir = "{tmp_path}/here"\n')
    monkeypatch.setenv("TIDELOG_CONFIG", str(tmp_path / "keys.toml"))
    assert asked(monkeypatch, "health") == EXIT_FAILED
    assert f"nothing runs in {tmp_path}/here " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "what answers at {} is no service (it does not speak HTTP)"),
        (b"SSH-2.0 200 OK\r\n", "what answers at {} is no service (it does not speak HTTP)"),
        (b"HTTP/1.1 good\r\n", "what answers at {} is no service (invalid literal"),
        (b"HTTP/1.1 500 Internal Server Error\r\n\r\n", "{} answers with 500\n"),
    ],
)
def test_what_answers_otherwise_is_not_ready(
    answer: bytes, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        addr = f"127.0.0.1:{server.getsockname()[1]}"
        (tmp_path / HTTP_FILE).write_text(f"{addr}\n")

        def once() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(answer)

        thread = threading.Thread(target=once)
        thread.start()
        code = health(str(tmp_path))
        thread.join()
    assert code == EXIT_FAILED
    assert capsys.readouterr().err.startswith(f"not ready: {said.format(addr)}")


SERVICES = ("registry", "pump", "drainer", "applier", "backfill")


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_asked_with_its_own_configuration(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[type] = []

    def configured(_: str, config_class: type) -> str:
        taken.append(config_class)
        return "nowhere"

    monkeypatch.setattr("tidelog.health._configured", configured)
    monkeypatch.setattr(sys, "argv", [name, "health", "--data-dir", "nowhere"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_module(f"tidelog_{name}", run_name="__main__")
    assert ended.value.code == EXIT_FAILED
    (config_class,) = taken
    assert config_class.__qualname__ == f"{name.title()}Config"
    assert config_class.__module__ == f"tidelog_{name}.config"


ASKED = """
import runpy, sys
before = set(sys.modules)
sys.argv = ["tidelog_{name}", "health"]
try:
    runpy.run_module("tidelog_{name}", run_name="__main__")
except SystemExit as end:
    assert end.code == 1
print(*(set(sys.modules) - before))
"""
HEAVY = {"asyncio", "email", "google", "http", "logging", "msgspec", "ssl", "structlog", "tomllib"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_look_loads_next_to_nothing(name: str, tmp_path: Path) -> None:
    # Whoever measures what is run loads modules of their own.
    not_ours = ("TIDELOG_", "COVERAGE_")
    own = {key: value for key, value in os.environ.items() if not key.startswith(not_ours)}
    done = subprocess.run(
        [sys.executable, "-c", ASKED.format(name=name)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env=own,
    )
    loaded = done.stdout.split()
    assert {"tidelog.health", "socket"} <= set(loaded), done.stderr
    assert not {module.partition(".")[0] for module in loaded} & HEAVY
    assert not any(module.endswith(".config") for module in loaded)
