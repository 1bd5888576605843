"""The stream that a stopped topology left in its directory, served for as long as it is read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from tidelog.errors import ConfigError, Unavailable
from tidelog.ports import Bus
from tidelog.real.disk import RealDisk
from tidelog.real.nats_server import STORE, EmbeddedNats
from tidelog.security.access import NatsAccess
from tidelog_cli import state_file
from tidelog_cli.connect import connected
from tidelog_cli.state_file import TopologyState
from tidelog_cli.topology import LOCK_FILE, NATS, nats_blocks


@asynccontextmanager
async def reading(directory: Path | None, state: TopologyState) -> AsyncIterator[tuple[Bus, bool]]:
    """The bus of a topology, and whether it runs. Of one that doesn't, the directory's own server
    is started for the while; `up` can't begin there meanwhile. Raises Unavailable, and ConfigError
    if nobody knows any more whom it let in."""
    runs = False
    try:
        async with connected(state) as bus:
            runs = True
            yield bus, True
    except Unavailable:
        if runs or directory is None or not _holds_a_store(directory):
            raise
    if runs:
        return
    assert directory is not None
    _refuse_unknown(directory)
    disk = RealDisk(directory)
    lock = disk.lock(LOCK_FILE)
    more = nats_blocks(directory, state.keys, state.certs)  # it lets in whom `up` did
    nats = EmbeddedNats(disk.path(NATS), more=more)
    try:
        await nats.start()
        async with connected(msgspec.structs.replace(state, nats=nats.url)) as bus:
            yield bus, False
    finally:
        await nats.stop()
        lock.release()


def _refuse_unknown(directory: Path) -> None:
    """An `up` of before keys and certs were written down told by what it let an operator in: so its
    server did not serve everybody."""
    own = state_file.read(directory)
    if own is not None and own.access != NatsAccess() and not (own.keys or own.certs):
        raise ConfigError(
            f"{directory / state_file.NAME} does not say whom its NATS server lets in: an earlier"
            " version wrote it",
            hint="start `tidelog up` there once with its --keys and --certs: it writes that down",
        )


def _holds_a_store(directory: Path) -> bool:
    return (directory / NATS / STORE).exists()
