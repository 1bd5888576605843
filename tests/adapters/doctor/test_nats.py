"""What `tidelog doctor` says of real NATS servers, well and badly configured."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.servers import NatsServer, free_port, nats_server
from tidelog.errors import Unavailable
from tidelog.feeds import Feed, Feeds
from tidelog.messages import Consumer, Nodes
from tidelog.ports import Outgoing, StreamConfig
from tidelog.real.bus import NatsBus
from tidelog.real.clock import RealClock
from tidelog.security.access import NatsAccess
from tidelog.subjects import changes_stream
from tidelog_cli import keys
from tidelog_cli.doctor import identity, streams
from tidelog_cli.doctor import nats_server as checks
from tidelog_cli.doctor.finding import OK, UNKNOWN, WARNING, WRONG, Finding
from tidelog_cli.doctor.server_edge import monitoring_url


@contextmanager
def configured(directory: Path, without: str = "") -> Iterator[NatsServer]:
    """A server whose configuration lacks something that ours has."""
    server = NatsServer(directory / "nats")
    file = server.directory / "nats.conf"
    text = file.read_text()
    text, cut = re.subn(without or "$^", "", text, flags=re.DOTALL)
    assert cut == bool(without)
    file.write_text(text)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def verdicts(server: NatsServer, monitoring: str = "") -> dict[str, str]:
    async def look() -> dict[str, str]:
        found = await checks.check_server(server.url)
        url = monitoring or f"http://127.0.0.1:{server.http_port}"
        found += await checks.check_sync(url, RealClock().wall_ms())
        return {finding.about: finding.verdict for finding in found}

    return asyncio.run(look())


def test_a_server_as_it_should_be(tmp_path: Path) -> None:
    with configured(tmp_path) as server:
        well = {"version": OK, "JetStream": OK, "sync_interval": OK, "NATS": OK}
        assert verdicts(server) == well
        nowhere = f"http://127.0.0.1:{free_port()}"
        assert verdicts(server, nowhere)["sync_interval"] == UNKNOWN
        assert monitoring_url("", server.url, tmp_path) == f"http://127.0.0.1:{server.http_port}"


def test_a_server_that_syncs_now_and_then(tmp_path: Path) -> None:
    with configured(tmp_path, "sync_interval: always,?") as server:
        assert verdicts(server)["sync_interval"] == WRONG


def test_a_server_without_jetstream(tmp_path: Path) -> None:
    with configured(tmp_path, r"jetstream \{.*?\}") as server:
        found = verdicts(server)
        assert (found["JetStream"], found["sync_interval"]) == (WRONG, WRONG)


def test_no_server() -> None:
    with pytest.raises(Unavailable, match="no NATS server answers"):
        asyncio.run(checks.check_server(f"nats://user:canary@127.0.0.1:{free_port()}"))


def test_a_feeds_stream_from_its_creation_to_a_reader_left_behind(tmp_path: Path) -> None:
    async def story(url: str) -> list[list[str]]:
        bus = await NatsBus.connect(url)

        async def judged(*consumers: Consumer) -> list[str]:
            found = await streams.check_feed(bus, "c", "main", Nodes([], list(consumers)))
            return [finding.verdict for finding in found]

        told = [await judged()]
        await Feeds(bus, "c").ensure(Feed("main"))
        told.append(await judged())
        name = changes_stream("main")
        await bus.stream_create(StreamConfig(name, ("changes.main.>",), max_bytes=4096))
        reader = Consumer("copy", "main", 1 << 18)
        told.append(await judged(reader))
        for _ in range(8):
            await bus.append(name, [Outgoing("changes.main.txn", bytes(1000), {})])
        told.append(await judged(reader))
        await bus.close()
        return told

    with configured(tmp_path) as server:
        story_told = asyncio.run(story(server.url))
    assert story_told == [[WRONG], [OK], [OK], [WARNING, OK]]


def test_an_identity_that_may_not_ask_is_told_which_one_may(tmp_path: Path) -> None:
    asyncio.run(keys.make(tmp_path / "keys", "c"))

    async def verdict(url: str, name: str) -> Finding:
        key = NatsAccess(nats_nkey_file=str(tmp_path / "keys" / name / "nkey"))
        bus = await NatsBus.connect(url, access=key)
        try:
            (found,) = await identity.check_identity(bus, "c", Nodes([]))
        finally:
            await bus.close()
        return found

    with nats_server(tmp_path, more=keys.auth_file(tmp_path / "keys").read_text()) as server:
        assert asyncio.run(verdict(server.url, "admin")).verdict == OK
        refused = asyncio.run(verdict(server.url, "subscriber"))
    assert refused.verdict == WRONG
    assert "admin" in refused.hint
