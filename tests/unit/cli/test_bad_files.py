"""Files and answers that a command can't use: one clear error that names them."""

from __future__ import annotations

import asyncio
import lzma
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tidelog import record
from tidelog.errors import (
    EXIT_CONFIG,
    EXIT_USAGE,
    BadInput,
    ConfigError,
    NotFound,
    Unavailable,
)
from tidelog_cli import capture, hand_over
from tidelog_cli.app import app
from tidelog_cli.doctor import config_files, server_edge
from tidelog_cli.doctor.finding import WRONG
from tidelog_cli.doctor.nats_server import clock
from tidelog_cli.doctor.server_edge import Monitored
from tidelog_cli.verify.dump_cells import DumpCells
from tidelog_cli.verify.kinds import Kind, meaning
from tidelog_cli.verify.place import Place


def test_a_capture_whose_companion_names_no_cluster(tmp_path: Path) -> None:
    path = tmp_path / "c.bin"
    assert capture.cluster_id(path) == 0
    (tmp_path / "c.meta.jsonl").write_text('{"cluster_id": 7}\n')
    assert capture.cluster_id(path) == 7
    for line in ("[", "{}", '{"cluster_id": null}'):
        (tmp_path / "c.meta.jsonl").write_text(f"{line}\n")
        with pytest.raises(BadInput, match=r"c\.meta\.jsonl names no cluster_id"):
            capture.cluster_id(path)


def test_a_packed_capture_that_is_none_or_cut(tmp_path: Path) -> None:
    path = tmp_path / "c.bin.xz"
    for data in (b"no xz", lzma.compress(b"\0\0\0\1x")[:-4]):
        path.write_bytes(data)
        with pytest.raises(BadInput, match=r"c\.bin\.xz is no xz file, or a damaged one"):
            next(capture.records(path))


def test_a_capture_that_is_a_directory(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="can't be read: Is a directory"):
        next(capture.records(tmp_path))


def test_an_import_into_what_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "drainer.toml").write_text("[syncer.to]\nhost = 'h'\n")
    (tmp_path / "out").touch()
    for out in (tmp_path / "out", tmp_path / "out" / "deeper"):
        words = ["config", "import", str(tmp_path / "drainer.toml"), "--out", str(out)]
        done = CliRunner().invoke(app, words)
        assert done.exit_code == EXIT_USAGE
        assert "can't be made" in done.output


def test_a_record_of_a_capture_that_is_no_binlog() -> None:
    async def send() -> None:
        await capture.Replayer(["127.0.0.1:1"], 1).send(b"\xff\xff")

    with pytest.raises(BadInput, match="record 0 of the capture is no binlog"):
        asyncio.run(send())


def test_certificates_that_somebody_cut(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["certs", str(tmp_path)]).exit_code == 0
    cut = [path for path in tmp_path.rglob("ca*") if path.is_file()]
    for path in cut:
        path.write_bytes(path.read_bytes()[:40])
    done = CliRunner().invoke(app, ["certs", str(tmp_path)])
    assert done.exit_code != 0
    assert "can't be read" in done.output
    assert "delete both" in done.output


def test_rules_and_configurations_that_are_no_toml(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_bytes(b"\xff")
    words = ["replay", "--local", "--input", str(tmp_path), "--downstream", "sqlite:////tmp/x"]
    done = CliRunner().invoke(app, [*words, "--rules", str(path)])
    assert done.exit_code == EXIT_CONFIG, done.output
    assert f"{path} can't be read" in done.output
    done = CliRunner().invoke(app, ["config", "import", str(path)])
    assert done.exit_code == EXIT_CONFIG
    assert f"{path} can't be read" in done.output
    found = config_files.check(f"pump={path}")
    assert (found.verdict, str(path) in found.says) == (WRONG, True)


def test_an_applier_whose_configuration_can_not_be_used(tmp_path: Path) -> None:
    path = tmp_path / "applier.toml"
    with pytest.raises(NotFound, match="does not exist"):
        hand_over.settings("applier", path, None)
    path.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="can't be read"):
        hand_over.settings("applier", path, None)
    (tmp_path / "relay").mkdir()
    lines = [f'data-dir = "{tmp_path}"', f'downstream-password-file = "{tmp_path}/none"']
    path.write_text("\n".join(lines))
    with pytest.raises(ConfigError, match="none can't be read"):
        hand_over.settings("applier", path, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('relay = "x"', "relay is no table"),
        ("data-dir = 5", "data-dir is no text"),
        ("downstream-password-file = 5", "downstream-password-file is no text"),
        ("[relay]\nlog-dir = 5", r"relay\.log-dir is no text"),
    ],
)
def test_an_applier_whose_configuration_has_other_types(
    tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "applier.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        hand_over.settings("applier", path, None)


def test_a_relay_with_a_record_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "relay-000000"
    path.write_bytes(record.frame(b"\xff\xff garbage"))
    done = CliRunner().invoke(app, ["inspect", str(path)])
    assert done.exit_code != 0
    assert "no relay record" in done.output


def test_what_answers_and_is_no_nats_server() -> None:
    async def ask() -> None:
        async def says(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"SSH-2.0\r\n")
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(says, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server:
            with pytest.raises(Unavailable, match="is no NATS server"):
                await server_edge.greeting(f"nats://127.0.0.1:{port}")

    asyncio.run(ask())
    with pytest.raises(Unavailable, match="can't be read"):
        server_edge.json_of(b"[")
    assert clock(Monitored("yesterday", None), 0) == []


def test_sides_of_a_comparison_that_are_none(tmp_path: Path) -> None:
    for url, wrong in (
        ("mysql://h:port/", "the source URL can't be read"),
        ("mysql://u@h/?tls-cat=/ca.pem", "the source URL has no option tls-cat for mysql"),
        ("mysql://u@h/?password_file=/nowhere", "password_file /nowhere can't be read"),
        ("mysql://u@h/shop", "the source URL names a database"),
        ("blackhole:", "the source URL is none that can be compared"),
        ("dump://host/file", "the source URL is no dump's"),
        ("oracle://u@h/", "the source URL is none that can be compared"),
    ):
        with pytest.raises(ConfigError, match=wrong):
            Place.parse(url, "source")
    secret = tmp_path / "secret"
    secret.write_text("p@ss\n")
    found = Place.parse(f"tidb://u@h:4000/?password_file={secret}&tls-ca=/ca.pem", "source")
    assert found.target.password == "p@ss"
    assert found.target.tls is not None
    assert found.shown == "mysql://u@h:4000"
    path = tmp_path / "dump.json"
    for contents in (None, b"["):
        if contents is not None:
            path.write_bytes(contents)
        with pytest.raises(BadInput, match="is not a workload's dump"):
            DumpCells(str(path), "dump")


def test_values_that_have_no_other_meaning_than_their_text() -> None:
    assert meaning(Kind.JSON, "{") == "{"
    assert meaning(Kind.FLOAT, "1e300") == 1e300
