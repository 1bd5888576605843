"""An application's own key: made, read by, taken back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import tidelog
from tests.compose.stack import Stack, until
from tidelog.errors import Unauthenticated
from tidelog.real.bus import NatsBus
from tidelog.security.access import NatsAccess

NAME = "subscriber-billing"
KNOWN_S = 30


def check_own_key(topology: Stack, directory: Path) -> None:
    """While changes go by: who has another key takes no notice."""
    topology.keys("--add", NAME)
    access = topology.take_key(directory, NAME)
    until(lambda: _known(topology, access), "the server to know the key", KNOWN_S)
    asyncio.run(_reads_until_it_is_removed(topology, access))
    assert not _known(topology, access)
    assert _known(topology, topology.access)
    topology.run("cli", "test", "!", "-e", f"/keys/{NAME}/nkey")
    topology.keys("--add", NAME)
    other = topology.take_key(directory, NAME)
    until(lambda: _known(topology, other), "the server to know the key after it", KNOWN_S)
    topology.well()


async def _reads_until_it_is_removed(topology: Stack, access: NatsAccess) -> None:
    feed = tidelog.subscribe(
        nats_url=topology.nats, nats_nkey_file=access.nats_nkey_file, start="beginning"
    )
    async with feed as changes, asyncio.timeout(2 * KNOWN_S):
        assert (await anext(aiter(changes))).commit_ts
        removal = asyncio.create_task(asyncio.to_thread(topology.keys, "--remove", NAME))
        with pytest.raises(Unauthenticated):
            async for _ in changes:
                pass
        await removal


def _known(topology: Stack, access: NatsAccess) -> bool:
    async def connect() -> None:
        bus = await NatsBus.connect(topology.nats, name="test", timeout_s=10, access=access)
        await bus.close()

    try:
        asyncio.run(connect())
    except Unauthenticated:
        return False
    return True
