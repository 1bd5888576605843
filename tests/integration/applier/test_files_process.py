"""`python -m tidelog_applier` into files and into nothing: killed where it hurts, misconfigured."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path

import pytest

from tests.integration.applier.test_process import applier, fill, wait_for
from tests.servers import free_port, nats_server
from tests.unit.applier.publisher import Publisher
from tidelog.errors import EXIT_CONFIG, BadInput
from tidelog.pb_files import savepoint
from tidelog.pb_files.reader import binlogs
from tidelog.pb_files.values import Image, images
from tidelog.real.bus import NatsBus
from tidelog_proto.pb_binlog_pb2 import BinlogType

TXNS = 60
PLACES = ("applier.files.written", "applier.files.before_savepoint")


def transactions(directory: Path) -> list[list[Image | None]]:
    """The rows that each transaction created; none while there are no files."""
    try:
        return [
            [images(event)[1] for event in one.dml_data.events]
            for one in binlogs(directory)
            if one.tp == BinlogType.DML
        ]
    except BadInput:
        return []


@pytest.mark.parametrize("place", PLACES)
def test_every_transaction_is_one_record_over_kills(tmp_path: Path, place: str) -> None:
    out = tmp_path / "out"
    url = f"file://{out}?segment_bytes=2000"

    async def scenario(nats_url: str) -> None:
        bus = await NatsBus.connect(nats_url)
        publisher = Publisher(bus)
        await publisher.begin()
        await fill(publisher, range(TXNS))
        for kill_at in (1, 2, 3):
            with applier(tmp_path, nats_url, url, f"{place}=kill@{kill_at}") as process:
                assert process.wait(40) == -signal.SIGKILL
        with applier(tmp_path, nats_url, url) as process:
            log = tmp_path / "applier.log"
            wait_for(lambda: len(transactions(out)) == TXNS, log)
            process.send_signal(signal.SIGTERM)
            assert process.wait(40) == 0, log.read_text()[-3000:]
        await bus.close()
        rows = [(row or {}).get("v") for txn in transactions(out) for row in txn]
        assert sorted(map(int, map(str, rows))) == sorted([*range(TXNS), *range(TXNS)])
        assert all(len(txn) == 2 for txn in transactions(out))
        saved = savepoint.load((out / "savepoint").read_bytes())
        assert saved.consistent
        assert saved.commit_ts == publisher.commit_ts

    with nats_server(tmp_path / "nats") as nats:
        asyncio.run(scenario(nats.url))


def test_a_dry_run_counts_and_holds_nothing(tmp_path: Path) -> None:
    port = free_port()

    def page(name: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def metric(name: str) -> float:
        lines = page("metrics").splitlines()
        return next((float(line.split()[1]) for line in lines if line.startswith(name)), 0)

    async def scenario(nats_url: str) -> None:
        bus = await NatsBus.connect(nats_url)
        publisher = Publisher(bus)
        await publisher.begin()
        await fill(publisher, range(TXNS))
        flags = ("--http-addr", f"127.0.0.1:{port}")
        with applier(tmp_path, nats_url, "blackhole:", flags=flags):
            wait_for(
                lambda: metric("tidelog_applier_rows_total") >= 2 * TXNS, tmp_path / "applier.log"
            )
            assert metric("tidelog_applier_dry_statements_total") > 0
            shown = json.loads(page("status"))["actors"]["applier"]
            assert (shown["downstream"], shown["error"]) == ("blackhole:", "")
        await bus.close()

    with nats_server(tmp_path / "nats") as nats:
        asyncio.run(scenario(nats.url))


def test_a_directory_that_can_not_be_made_ends_the_process_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        nats_server(tmp_path / "nats") as nats,
        applier(tmp_path, nats.url, f"file://{tmp_path}/file/out") as process,
    ):
        assert process.wait(40) == EXIT_CONFIG
    assert "may write" in (tmp_path / "applier.log").read_text()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "downstream is not set"),
        ("copy.db", "sqlite:////absolute/path"),
        ("mysq://x", "mysql:// is the nearest"),
        ("mysql://root:se/cret@127.0.0.1:3306/", "written %2F"),
        ("mysql://root:cret@127.0.0.1:3306/shop", "names a database"),
        ("mysql://root@127.0.0.1/?tls-cas=/x", "the nearest known one is tls_ca"),
        ("mysql://root@127.0.0.1/?password-file=/nowhere", "the password alone"),
        ("file://out", "file:///data/files"),
        ("sqlite://copy.db", "sqlite:////data/copy.db"),
    ],
)
def test_a_downstream_that_can_not_be_is_told_without_nats(
    tmp_path: Path, url: str, said: str
) -> None:
    with applier(tmp_path, "nats://127.0.0.1:1", url) as process:
        assert process.wait(40) == EXIT_CONFIG
    text = (tmp_path / "applier.log").read_text()
    assert said in text
    assert "cret" not in text
