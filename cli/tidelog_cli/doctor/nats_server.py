"""Is the NATS server new enough, is JetStream on, and does it sync what it acknowledges?"""

from __future__ import annotations

import re
from datetime import datetime

from tidelog.errors import Unavailable
from tidelog_cli.doctor.clocks import skew
from tidelog_cli.doctor.finding import About, Finding
from tidelog_cli.doctor.server_edge import Greeting, JetStream, Monitored, greeting, monitored

CHECK = "nats"
LEAST = (2, 12, 3)
"""Older servers lose what they acknowledged (docs/adr/0002)."""
_SYNC = "`jetstream { sync_interval: always }` in its configuration, and start it again"


async def check_server(url: str) -> list[Finding]:
    """Raises Unavailable."""
    said = await greeting(url)
    return [version(said), jetstream_on(said)]


async def check_sync(monitoring: str, our_ms: int) -> list[Finding]:
    about = About(CHECK, "sync_interval")
    try:
        found = await monitored(monitoring)
    except Unavailable as error:
        return [
            about.unknown(
                f"{error.message}, and nothing else tells it",
                "name it by --nats-monitor URL (`http:` in the server's configuration), or look "
                "there for `sync_interval: always`",
            )
        ]
    return [sync(found.jetstream), *clock(found, our_ms)]


def version(said: Greeting) -> Finding:
    about = About(CHECK, "version")
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", said.version)
    if numbers is None:
        return about.unknown(f"version {said.version!r} is none we know", "nats-server --version")
    if tuple(map(int, numbers.groups())) < LEAST:
        least = ".".join(map(str, LEAST))
        return about.wrong(
            f"nats-server {said.version} is older than {least}, and may lose what it acknowledged",
            f"install nats-server {least} or newer",
        )
    return about.ok(f"nats-server {said.version}")


def jetstream_on(said: Greeting) -> Finding:
    about = About(CHECK, "JetStream")
    if said.jetstream:
        return about.ok("JetStream is on")
    hint = "`jetstream { store_dir: …, sync_interval: always }` in its configuration"
    return about.wrong("JetStream is off: there is no stream to publish to", hint)


def sync(found: JetStream | None) -> Finding:
    about = About(CHECK, "sync_interval")
    if found is None:
        return about.wrong("JetStream is off", _SYNC)
    if found.sync_always:
        return about.ok("what it acknowledges is on the disk (sync_interval: always)")
    seconds = found.sync_interval / 1e9
    return about.wrong(f"a power loss takes up to {seconds:.0f} s of what was acknowledged", _SYNC)


def clock(found: Monitored, our_ms: int) -> list[Finding]:
    """Of the server, if it tells."""
    try:
        its_ms = int(datetime.fromisoformat(found.now).timestamp() * 1000)
    except ValueError:
        return []
    return [skew("NATS", its_ms, our_ms)]
