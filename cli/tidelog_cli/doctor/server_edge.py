"""What a NATS server says of itself without any credentials: its greeting, and its monitoring."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from aiohttp import ClientError, ClientSession, ClientTimeout

from tidelog.config import redacted_url
from tidelog.errors import Unavailable
from tidelog.unreadable import NOT_READABLE

PATIENCE_S = 3.0
NATS_PORT = 4222
MONITORING_PORT = 8222


class Greeting(msgspec.Struct, frozen=True):
    """The first line of a connection. `jetstream`: it is on."""

    version: str
    jetstream: bool = False
    server_name: str = ""


class JetStream(msgspec.Struct, frozen=True):
    """Of /jsz?config=true. Intervals in nanoseconds."""

    sync_interval: int = 0
    sync_always: bool = False


class _Jsz(msgspec.Struct, frozen=True):
    now: str = ""
    config: JetStream | None = None


class Monitored(msgspec.Struct, frozen=True):
    """`now` as the server has it, ISO 8601; `jetstream` None = it is off."""

    now: str
    jetstream: JetStream | None


async def greeting(url: str) -> Greeting:
    """Of the first server of `url`. Raises Unavailable."""
    first = url.split(",")[0].strip()
    parts = urlsplit(first if "://" in first else f"nats://{first}")
    try:
        async with asyncio.timeout(PATIENCE_S):
            reader, writer = await asyncio.open_connection(parts.hostname, parts.port or NATS_PORT)
            try:
                line = await reader.readline()
            finally:
                writer.close()
        return msgspec.json.decode(line.removeprefix(b"INFO "), type=Greeting)
    except (OSError, TimeoutError) as error:
        raise Unavailable(
            f"no NATS server answers at {redacted_url(first)}",
            hint="start it, or name another by --nats or --dir",
        ) from error
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"what answers at {redacted_url(first)} is no NATS server") from error


async def monitored(url: str) -> Monitored:
    """Raises Unavailable."""
    try:
        async with (
            ClientSession(timeout=ClientTimeout(PATIENCE_S)) as session,
            session.get(f"{url.rstrip('/')}/jsz?config=true") as answer,
        ):
            found = msgspec.json.decode(await answer.read(), type=_Jsz)
    except (ClientError, OSError, TimeoutError, *NOT_READABLE) as error:
        raise Unavailable(f"no monitoring of NATS answers at {url}") from error
    return Monitored(found.now, found.config)


def monitoring_url(given: str, nats: str, directory: Path | None) -> str:
    """Where to look: as given; as the server's configuration in the topology's directory says; else
    the usual port beside the server."""
    if given:
        return given if "://" in given else f"http://{given}"
    config = directory / "nats" / "nats.conf" if directory is not None else None
    if config is not None and config.exists():
        told = re.search(r'^http: *"?([^"\s]+)', config.read_text(), re.MULTILINE)
        if told is not None:
            return f"http://{told[1]}"
    first = nats.split(",")[0].strip()
    host = urlsplit(first if "://" in first else f"nats://{first}").hostname or "127.0.0.1"
    return f"http://{host}:{MONITORING_PORT}"


def json_of(data: bytes) -> dict[str, Any]:
    """An answer of JetStream's API. Raises Unavailable."""
    try:
        found: dict[str, Any] = msgspec.json.decode(data)
    except NOT_READABLE as error:
        raise Unavailable("JetStream's answer can't be read") from error
    return found
