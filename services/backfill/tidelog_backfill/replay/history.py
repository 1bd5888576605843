"""The upstream's DDL jobs, all of them, for a plan of Pumps' logs.

Besides what a Drainer reads them from, the file in which a registry keeps the embedded history will
do: `file:DIR/ddl-history.log`, when nothing is left of a cluster but its directories.
"""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from crc32c import crc32c

from tidelog.ddl_history import EmbeddedHistory, open_history
from tidelog.errors import ConfigError, Corrupt
from tidelog.ports import DdlHistory
from tidelog.real.bus import NatsBus
from tidelog.schema.model import DdlJob
from tidelog.schema.tracker import SchemaTracker
from tidelog.security.access import NatsAccess
from tidelog.synced import unpack_length
from tidelog_backfill.replay.errors import no_history

EMBEDDED = "embedded"
REGISTRY_FILE = "ddl-history.log"
CONNECT_S = 10.0
_HEADER = struct.Struct("<II")
_JOB = msgspec.json.Decoder(DdlJob)


async def schema_history(
    url: str, *, nats_url: str = "", cluster: str = "default", access: NatsAccess | None = None
) -> SchemaTracker:
    """All but `url` is for `embedded`. Raises ConfigError, Corrupt, Unavailable, and
    BadInput where nothing is named."""
    if not url:
        raise no_history()
    tracker = SchemaTracker()
    path = Path(url.removeprefix("file:"))
    if url.startswith("file:") and path.name == REGISTRY_FILE:
        tracker.add_jobs(registry_jobs(path))
        return tracker
    async with _opened(url, nats_url, cluster, access) as history:
        async for jobs in history.jobs(0):
            tracker.add_jobs(jobs)
    return tracker


def registry_jobs(path: Path) -> list[DdlJob]:
    """Of a registry's own file. What is torn at its end was promised to nobody, unless the file
    beside it says that it was synced. Raises ConfigError, Corrupt."""
    try:
        data = path.read_bytes()
        mark = path.with_suffix(".synced")
        synced = unpack_length(mark.read_bytes()) if mark.exists() else len(data)
    except OSError as error:
        raise ConfigError(f"the DDL history {path} can't be read: {error}") from error
    at = 0
    jobs: list[DdlJob] = []
    while at + _HEADER.size <= len(data):
        length, crc = _HEADER.unpack_from(data, at)
        body = data[at + _HEADER.size : at + _HEADER.size + length]
        if not length or len(body) < length or crc32c(body) != crc:
            break
        jobs.append(_JOB.decode(body))
        at += _HEADER.size + length
    if at < synced:
        raise Corrupt(f"{path} at offset {at}: a bad record, {synced} bytes were synced")
    return jobs


@asynccontextmanager
async def _opened(
    url: str, nats_url: str, cluster: str, access: NatsAccess | None
) -> AsyncIterator[DdlHistory]:
    if url != EMBEDDED:
        yield open_history(url, None, cluster)
        return
    if not nats_url:
        raise ConfigError("the embedded DDL history is the registry's", hint="name its nats-url")
    bus = await NatsBus.connect(nats_url, name="backfill", timeout_s=CONNECT_S, access=access)
    try:
        yield EmbeddedHistory(bus, cluster)
    finally:
        await bus.close()
