"""A Pump leaves where everybody has a key: the registry reads what feeds there are (`unbegun`)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.servers import NatsServer, nats_server
from tidelog.feeds import Feed, Feeds
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess
from tidelog_cli import keys
from tidelog_registry.nodes.unbegun import Unbegun


async def who_waits(server: NatsServer, directory: Path, ts: int) -> dict[str, str]:
    def connected(identity: str) -> NatsAccess:
        return NatsAccess(nats_nkey_file=str(keys.seed_file(directory, identity)))

    admin = await NatsBus.connect(server.url, timeout_s=10, access=connected("admin"))
    registry = await NatsBus.connect(server.url, timeout_s=10, access=connected("registry"))
    try:
        await Feeds(admin, "default").ensure(Feed("shop", 5))
        unbegun = Unbegun(registry, "default")
        await unbegun.look(wanted=True)
        return unbegun.behind(ts)
    finally:
        await admin.close()
        await registry.close()


def test_the_registrys_key_reads_which_feeds_have_not_begun(tmp_path: Path) -> None:
    asyncio.run(keys.make(tmp_path, "default"))
    with nats_server(tmp_path, more=keys.auth_file(tmp_path).read_text()) as server:
        assert asyncio.run(who_waits(server, tmp_path, 5)) == {}
        assert list(asyncio.run(who_waits(server, tmp_path, 6))) == ["shop"]
