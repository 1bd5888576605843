"""Who we say we are to a real server: it does not know us, denies something, knows us no more."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.adapters.security.pki import Authority
from tests.conditions import until
from tests.cycles import left_in_cycles
from tests.servers import NatsServer, nats_server
from tidelog.errors import ConfigError, Forbidden, Stopped, TidelogError, Unauthenticated
from tidelog.ports import Outgoing, Request, StreamConfig
from tidelog.real import bus_metrics
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess
from tidelog_cli import keys

CLUSTER = "c"
S = StreamConfig("CHANGES_main", ("changes.main.>",))
MAY_NOT = "tidelog.c.pump.P1.write"
"""Neither asked nor served by who only reads a feed. In a server's words it is in lower case."""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    asyncio.run(keys.make(tmp_path, CLUSTER))
    return tmp_path


@pytest.fixture
def server(directory: Path) -> Iterator[NatsServer]:
    with nats_server(directory, more=keys.auth_file(directory).read_text()) as running:
        yield running


def reader(directory: Path) -> NatsAccess:
    return NatsAccess(nats_nkey_file=str(directory / "subscriber" / "nkey"))


async def nothing(request: Request) -> None:
    """A handler that nobody reaches."""


def test_who_the_server_does_not_know_is_told_which_key_it_is(
    server: NatsServer, directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    asyncio.run(keys.make(other, CLUSTER))

    async def refused(access: NatsAccess | None) -> Unauthenticated:
        with pytest.raises(Unauthenticated) as caught:
            await NatsBus.connect(server.url, timeout_s=10, access=access)
        return caught.value

    assert "nats-nkey-file" in asyncio.run(refused(None)).hint
    foreign = asyncio.run(refused(reader(other)))
    assert str(other / "subscriber" / "nkey") in foreign.message
    assert "auth.conf" in foreign.hint


def test_what_is_denied_is_told_to_who_waits_for_it(server: NatsServer, directory: Path) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url, name="reader", access=reader(directory))
        for _ in range(2):
            with pytest.raises(Forbidden, match=f"reader may not publish to {MAY_NOT}"):
                await bus.request(MAY_NOT, b"", timeout_s=20)
            with pytest.raises(Forbidden, match="may not subscribe"):
                await bus.serve(MAY_NOT, nothing)
        assert bus.served == []
        assert len(bus.connection._client._sinks) == 1, "its inbox, and nothing that was denied"
        assert bus.connected
        assert bus.reconnects == 0
        await bus.close()

    asyncio.run(run())


def test_a_subscription_that_is_denied_is_gone_with_its_error(
    server: NatsServer, directory: Path
) -> None:
    """Who has no permission tries again each second."""

    async def run() -> None:
        bus = await NatsBus.connect(server.url, access=reader(directory))
        with pytest.raises(Forbidden):
            await bus.serve(MAY_NOT, nothing)
        with left_in_cycles() as left:
            for _ in range(3):
                with contextlib.suppress(Forbidden):
                    await bus.serve(MAY_NOT, nothing)
        await bus.close()
        assert left["Forbidden"] == left["Task"] == 0, left

    asyncio.run(run())


def test_what_is_denied_while_nobody_waits_is_logged_once(
    server: NatsServer, directory: Path
) -> None:
    async def run() -> None:
        bus = await NatsBus.connect(server.url, access=reader(directory))
        before = bus_metrics.errors._value.get()
        with capture_logs() as logs:
            for _ in range(3):
                await bus.publish(MAY_NOT, b"")
            await until(lambda: bus_metrics.errors._value.get() == before + 3)
        told = [one for one in logs if one["event"] == "the NATS server denies it"]
        assert len(told) == 1
        assert MAY_NOT.lower() in told[0]["said"]
        assert told[0]["key"] == reader(directory).nats_nkey_file
        await bus.close()

    asyncio.run(run())


def test_who_is_known_no_more_is_told_wherever_it_waits(
    server: NatsServer, directory: Path
) -> None:
    """Its key was taken out of the server's table: no further try would do."""
    lost: list[TidelogError] = []

    async def run() -> None:
        key = NatsAccess(nats_nkey_file=str(directory / "drainer" / "nkey"))
        bus = await NatsBus.connect(server.url, on_lost=lost.append, access=key)
        await bus.stream_create(S)
        reading = await bus.read(S.name, start_seq=1)
        server.kill()
        await until(lambda: not bus.connected)
        waits = asyncio.ensure_future(bus.stream_state(S.name))
        fresh = directory / "fresh"
        await keys.make(fresh, CLUSTER)
        old, new = (keys.auth_file(one).read_text() for one in (directory, fresh))
        config = server.directory / "nats.conf"
        config.write_text(config.read_text().replace(old, new))
        server.start()
        async with asyncio.timeout(20):
            with pytest.raises(Unauthenticated):
                await waits
            for ask in (
                bus.publish("x", b""),
                bus.request("x", b"", timeout_s=30),
                bus.append(S.name, [Outgoing("changes.main.x", b"")], timeout_s=30),
                reading.next_batch(1, 30),
            ):
                with pytest.raises(Unauthenticated):
                    await ask
        assert not bus.connected
        (end,) = lost
        assert isinstance(end, Stopped)
        assert "auth.conf" in end.hint
        await bus.close()

    asyncio.run(run())


def tls_block(authority: Authority) -> str:
    cert, key = authority.issue("server")
    return f'tls {{ cert_file: "{cert}", key_file: "{key}" }}\n'


def test_certificates_that_can_not_be_read_again_stay_as_they_were(tmp_path: Path) -> None:
    """Somebody renews them, and a connection is lost meanwhile."""
    authority = Authority(tmp_path, "good")
    lose = Path(authority.ca).unlink

    async def run(server: NatsServer) -> None:
        access = NatsAccess(nats_ca=authority.ca)
        bus = await NatsBus.connect(server.url, access=access)
        server.kill()
        await until(lambda: not bus.connected)
        lose()
        with capture_logs() as logs:
            server.start()
            await until(lambda: bus.connected)
        (told,) = {one["error"] for one in logs if "certificates stay" in one["event"]}
        assert authority.ca in told
        await bus.close()

    with nats_server(tmp_path, more=tls_block(authority)) as server:
        asyncio.run(run(server))


def test_half_a_certificate_is_refused_before_anybody_is_asked(tmp_path: Path) -> None:
    pair = Authority(tmp_path, "good").issue("writer")
    for half in (NatsAccess(nats_cert=pair.cert), NatsAccess(nats_key=pair.key)):
        with pytest.raises(ConfigError, match="go together"):
            asyncio.run(NatsBus.connect("nats://127.0.0.1:1", access=half))
